"""A recorded run, judged again: to the last bit, whatever happened meanwhile; another plan as far as it goes."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from fakes.control import PLAN, READY_B, READY_C, Stage, no_compare, play, seconds, started, tick
from fakes.gateway import FakeStore
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.core.compare.result import PairKind, PairResult
from gateway.core.outlook import expect
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy
from gateway.core.recorded import verdict_data
from gateway.core.run import Outlook, Run, State
from gateway.core.snapshot import LatencyCounts, Report, WindowCounts, WindowKeys
from gateway.core.tape import Began, Closed, Kept, Looked, Told, digest_of, unpack
from gateway.core.types import Count, Lane, Role, empty_tally
from gateway.core.verdict import Verdict
from gateway.core.whatif import notes_of
from gateway.ports import StoreUnavailable
from gateway.runtime import playback
from gateway.runtime import replay as module
from gateway.runtime.analyst import FLOOR, Analyst
from gateway.runtime.playback import Playback
from gateway.runtime.replay import CannotReplay, Replayed, Replayer

STRATA = replace(
    PLAN,
    steps=(1000, 5000, 10_000),
    strata=(512,),
    parity=ParityPolicy(cosine_min=0.99),
    copies=1000,
    control_at_full=True,
    recompile_limit=3,
    metrics=(
        MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=80.0),
        MetricLimit(metric=MetricId.ERROR, allowed=0.05),
        MetricLimit(metric=MetricId.PARITY, allowed=0.05),
        MetricLimit(metric=MetricId.TTFT, allowed=0.05, limit_ms=300.0),
        MetricLimit(metric=MetricId.ITL, allowed=0.05, limit_ms=30.0),
        MetricLimit(metric=MetricId.STREAM_BROKEN, allowed=0.01),
    ),
    noise_pairs=20,
    residual=300,
    stretch_s=3600.0,
    rule=replace(PLAN.rule, relative=1.5),
)
"""Everything at once that a plan can ask for."""


def replayed(s: Stage, run_id: str = "run1", **asked: Any) -> Replayed:
    asyncio.run(s.conductor.keep_checkpoint())
    return asyncio.run(Replayer(s.store, s.store).replay(run_id, **asked))


def to_rollback(change: Callable[[Stage], None] | None = None, **traffic: int) -> Stage:
    """A run that goes well for five seconds and then as ``traffic`` says, until it is rolled back."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 5)
        for _ in range(60):
            s.traffic(**traffic)
            if change:
                change(s)
            await tick(s)
            await s.conductor.keep_checkpoint()
            if s.conductor.rollout.state is State.ROLLED_BACK:
                return

    s = play(scenario)
    assert s.conductor.rollout.state is State.ROLLED_BACK
    return s


# -- as then ----------------------------------------------------------------------------------------------------------


def test_a_rollback_by_evidence_is_the_same_to_the_last_bit() -> None:
    """The decision's numbers in the journal are those of the replay."""
    s = to_rollback(failed=4)
    found = replayed(s)
    assert found.run.rule == "evidence"
    assert [(each.kind, each.differs) for each in found.decisions] == [("rollback", ())]
    assert (found.same, found.holes, found.notes) == (True, [], [])
    assert found.final is not None
    assert (found.final.verdict.name, found.final.weight) == ("ROLL_BACK", 1000)
    assert [seen.verdict.name for seen in found.changes][-1] == "ROLL_BACK"


def test_a_rollback_by_the_judges_breaker_is_the_same() -> None:
    """Its seconds are in the recording."""
    s = to_rollback(failed=20)
    found = replayed(s)
    assert (found.run.rule, found.same) == ("breaker", True)


def test_a_rollback_by_a_workers_own_breaker_is_the_same() -> None:
    """What that worker saw is in the recording, beside what the judge knew."""

    def trip(s: Stage) -> None:
        now = s.clock.wall()
        report = Report(
            name="w0", version=1, epoch=s.conductor.rollout.epoch, at=now, windows=[], latencies=[], open_since=None,
            breaker=(0.0, 9.0), seconds=[(5, 0, 9, 9)], tripped=True, recent_failovers=9, in_flight=(0, 0),
            connections=(0, 0),
        )  # fmt: skip
        s.analyst.report(report)

    found = replayed(to_rollback(trip))
    (decision,) = found.decisions
    assert "The breaker of worker w0 fired" in decision.text
    assert (found.same, found.final and found.final.verdict.breaker and found.final.verdict.breaker.worker) == (
        True,
        "w0",
    )


def test_a_promotion_is_the_same_step_by_step() -> None:
    """Every advance of the run, the last of which is the promotion."""

    async def scenario(s: Stage) -> None:
        await started(s)
        for _ in range(150):
            await seconds(s, 1)
            if s.conductor.rollout.state is State.DONE:
                return

    s = play(scenario)
    assert s.conductor.rollout.state is State.DONE
    found = replayed(s)
    assert ([each.kind for each in found.decisions], found.same) == (["advance", "advance"], True)


def test_a_run_that_was_paused_restarted_and_held_is_the_same() -> None:
    """A restart goes on from the last checkpoint that was stored; what was told after it is void, as it was then."""

    async def before(s: Stage) -> None:
        await started(s)
        await seconds(s, 6, failed=1)
        await s.conductor.keep_checkpoint()
        await seconds(s, 3, failed=2)
        await s.conductor.pause(who="me", reason="lunch")
        await seconds(s, 3, failed=1)
        await s.conductor.resume(who="me", reason="fed")
        await seconds(s, 2, failed=1)
        await s.conductor.keep_checkpoint()
        await seconds(s, 4, failed=3)
        await s.analyst.tape.write(s.store)  # recorded, and lost to the judge: no checkpoint has it

    async def after(s: Stage) -> None:
        for _ in range(90):
            await seconds(s, 1, failed=1)
            await s.conductor.keep_checkpoint()
            if s.conductor.rollout.state is State.HELD:
                break
        for _ in range(60):
            await seconds(s, 1, failed=4)
            if s.conductor.rollout.state is State.ROLLED_BACK:
                return

    s = play(before)
    s = play(after, s.store, now=s.clock.wall())
    assert s.conductor.rollout.state is State.ROLLED_BACK
    found = replayed(s)
    assert [each.kind for each in found.decisions] == ["inconclusive", "rollback"]
    assert (found.same, found.holes) == (True, [])


def test_a_number_that_is_not_as_then_is_named() -> None:
    """A journal that says otherwise is not called the same."""
    s = to_rollback(failed=4)
    (at, line) = next((n, line) for n, line in enumerate(s.store.lines) if line.kind == "rollback")
    judged = {**line.data["judged"], "evidence": line.data["judged"]["evidence"] + 1e-12}
    s.store.lines[at] = replace(line, data={**line.data, "judged": judged})
    found = replayed(s)
    assert (found.same, found.decisions[0].differs) == (False, ("evidence",))


def test_a_person_decides_and_nothing_is_to_be_compared() -> None:
    """A rollback by hand is none of the judge's."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 5)
        await s.conductor.roll_back(who="me", reason="no")

    found = replayed(play(scenario))
    assert (found.decisions, found.same) == ([], None)
    assert found.final is not None
    assert found.final.verdict.name == "HOLD"


def test_a_paused_run_whose_evidence_is_complete_is_recorded_without_a_look_every_tick() -> None:
    """Nothing follows from an advance while a person has paused the run, nor from a second INCONCLUSIVE."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 10)
        await s.conductor.pause(who="me", reason="lunch")
        await seconds(s, 40)

    s = play(scenario)
    asyncio.run(s.conductor.keep_checkpoint())
    assert s.analyst.verdict is not None
    assert s.analyst.verdict.name == "ADVANCE"
    assert not any(isinstance(each, Looked) for row in s.store.rows for each in unpack(row.data))


def test_the_recording_is_in_the_store_before_the_state_that_a_restart_goes_on_from() -> None:
    """And the state is stored all the same where the recording cannot be."""
    order: list[str] = []

    class Ordered(FakeStore):
        async def record(self, rows: Any) -> None:
            order.append("rows")
            await super().record(rows)
            if order.count("rows") > 1:
                raise StoreUnavailable("no room")

        async def checkpoint(self, epoch: int, state: dict[str, Any]) -> None:
            order.append("state")
            await super().checkpoint(epoch, state)

    async def scenario(s: Stage) -> None:
        await started(s)
        for _ in range(2):
            await seconds(s, 3)
            await s.conductor.keep_checkpoint()

    play(scenario, Ordered())
    assert order == ["rows", "state", "rows", "state"]


def test_the_end_of_the_recording_is_written_when_the_gateway_ends() -> None:
    """What came after the last checkpoint, too."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        await s.conductor.close()

    (row, *_) = (row for row in play(scenario).store.rows if row.run_id == "run1")
    assert isinstance(unpack(row.data)[0], Began)


# -- whatever was told ------------------------------------------------------------------------------------------------


class Checked(Playback):
    """Compares the judge with the live one wherever its state was kept. floors: the noise floor of then, by digest."""

    compared = 0
    floors: dict[str, Any]

    def tell(self, told: Told) -> None:
        super().tell(told)
        if isinstance(told, Kept):
            assert self._judge is not None
            assert digest_of({**self._judge.checkpoint(), FLOOR: self.floors[told.digest]}) == told.digest
            self.compared += 1


def traffic(chance: Random, at: float, epoch: int, *, sticky: bool, strange: bool) -> Report:
    """One second of anything: both arms and lanes, both classes, late answers, compiles, keys."""
    rows, keys = [], []
    window = int(at) - 1 - chance.choice((0, 0, 0, 1, 4))
    for role in Role:
        for lane in Lane:
            tally = empty_tally()
            for count in (Count.OK, Count.LAT95_N, Count.PAIRS, Count.TTFT_N, Count.ITL_N, Count.STREAMS):
                tally[count] = chance.randrange(40)
            for events, late in ((Count.TTFT_N, Count.TTFT_BAD), (Count.ITL_N, Count.ITL_BAD)):
                tally[late] = chance.randrange(1 + tally[events] // 9)
            bad = 3 if strange and role is Role.CANDIDATE else 8
            tally[Count.LAT95_BAD] = tally[Count.LAT95_N] // bad if chance.random() < 0.3 else 0
            tally[Count.PAIRS_BAD] = tally[Count.PAIRS] // 20
            tally[Count.FAILED] = chance.choice((0, 0, 0, 1, 2))
            tally[Count.STREAMS_BROKEN] = min(tally[Count.FAILED], tally[Count.STREAMS], chance.randrange(2))
            tally[Count.REFUSED_UNCHECKED] = chance.choice((0, 0, 0, 1))
            tally[Count.COMPILES] = tally[Count.EXCUSED] = int(chance.random() < 0.02)
            rows.append(WindowCounts(window=window, role=role, lane=lane, tally=tally, stratum=chance.randrange(2)))
        if sticky:
            hashes = [chance.randrange(1, 3000) for _ in range(chance.randrange(200))]
            heavy = [(key, 1) for key in list(dict.fromkeys(hashes))[:64]]
            keys.append(
                WindowKeys(window=window, role=role, requests=len(hashes), hashes=list(set(hashes)), heavy=heavy)
            )
    failed = chance.choice((0, 0, 0, 1, 6))
    bins = [(chance.randrange(300), chance.randrange(1, 9))]
    return Report(
        name="w0", version=1, epoch=epoch, at=at, windows=rows, open_since=None, breaker=(0.0, 0.0),
        latencies=[LatencyCounts(role=role, lane=Lane.LIVE, bins=bins) for role in Role],
        seconds=[(10, chance.choice((0, 0, 3)), 10, failed)], tripped=False, recent_failovers=failed,
        in_flight=(0, 0), connections=(0, 0), compiled={"4x128": 1} if chance.random() < 0.05 else {}, keys=keys,
    )  # fmt: skip


Live = tuple[list[tuple[float, Verdict]], dict[str, Any]]


async def live(seed: int, happenings: list[str], *, sticky: bool, store: FakeStore) -> Live:
    """Judges random traffic, with checkpoints, steps, pauses, restarts and stores that are away in between.

    The looks that were acted on, and the noise floor of each checkpoint by its digest.
    """
    chance, now, step = Random(seed), 1000.25, 0
    run = Run(run_id="r", plan=STRATA, plan_digest="d", started_at=now, who="", reason="")

    def at_step(step: int) -> Run:
        return replace(run, step=step, max_step_s=chance.choice((None, 45.0, 200.0)), residual=(None, None, 300)[step])

    def analyst() -> Analyst:
        fresh = Analyst(no_compare, epoch=1, answer_timeout_s=10.0, now=now)
        fresh.attach("w0")
        return fresh

    judging, stored = analyst(), None
    judging.judge(run, epoch=1, now=now, fresh=True, resume=None, sticky=sticky)
    looks, floors = [], {}
    for happening in happenings:
        for _ in range(chance.randrange(1, 9)):
            now += chance.choice((0.5, 1.0, 1.0, 1.0, 2.5))
            if chance.random() < 0.9:
                judging.report(traffic(chance, now, 1, sticky=sticky, strange=chance.random() < 0.3))
            if judging.floor is not None:
                judging.floor.add(
                    "r", PairResult(kind=chance.choice((PairKind.OK,) * 9 + (PairKind.TOLERANCE,)), min_cosine=0.98)
                )
            verdict = judging.look(now)
            assert verdict is not None
            if chance.random() < 0.2:
                judging.acts()
                looks.append((now, verdict))
        match happening:
            case "keep":
                state = json.loads(json.dumps(judging.checkpoint()))
                floors[digest_of(state)] = state[FLOOR]
                await judging.tape.write(store)
                stored = state
            case "record":
                await judging.tape.write(store)
            case "step":
                step = min(step + 1, 2)
                judging.judge(at_step(step), epoch=1, now=now, fresh=False, resume=None, sticky=sticky)
            case "pause":
                judging.judge(at_step(step), epoch=1, now=now, fresh=False, resume=None, sticky=sticky)
            case "restart":
                judging = analyst()
                judging.judge(at_step(step), epoch=1, now=now, fresh=False, resume=stored, sticky=sticky)
    await judging.tape.write(store)
    return looks, floors


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    happenings=st.lists(st.sampled_from(["keep", "keep", "record", "step", "pause", "restart", "go on"]), max_size=14),
    sticky=st.booleans(),
)
def test_whatever_was_told_a_replay_comes_to_the_same_state(seed: int, happenings: list[str], sticky: bool) -> None:
    """Windows, steps, pauses, restarts from checkpoints: judge and recording are in the same state all the time."""
    store = FakeStore()
    happenings = [*happenings, "keep"]
    looks, floors = asyncio.run(live(seed, happenings, sticky=sticky, store=store))
    asyncio.run(_compare(store, looks, floors))


async def _compare(store: FakeStore, looks: list[tuple[float, Verdict]], floors: dict[str, Any]) -> None:
    _, beginnings = await store.outline("r")
    checked = Checked(STRATA, goes_on_from=await module._goes_on_from(beginnings), until=float("inf"))
    checked.floors = floors
    await Replayer(store, store)._play("r", checked)
    assert checked.holes == []
    assert checked.compared
    told_of = {seen.at: verdict_data(seen.verdict) for seen in checked.looks}
    # A look between the last write and a restart is in no recording; what stands beside the judge's notes is no number.
    for at, verdict in looks:
        if at in told_of:
            assert {**told_of[at], "notes": ()} == {**verdict_data(verdict), "notes": ()}


# -- holes ------------------------------------------------------------------------------------------------------------


def test_a_missing_row_is_named_and_nothing_is_called_the_same() -> None:
    """It is judged on what there is, and says that this is not what there was."""
    s = to_rollback(failed=4)
    del s.store.rows[[row.run_id for row in s.store.rows].index("run1") + 3]
    found = replayed(s)
    assert found.same is None
    assert found.holes == ["1 rows before window 1005 are missing"]


def test_a_missing_end_is_named() -> None:
    """The recording ends before the decision does."""
    s = to_rollback(failed=4)
    asyncio.run(s.conductor.keep_checkpoint())
    s.store.rows = [row for row in s.store.rows if row.run_id == "run1"][:3]
    found = replayed(s)
    assert (found.same, found.holes) == (None, ["the look of the rollback is missing"])


def test_a_decision_whose_look_is_not_written_yet_is_not_compared_with_an_older_one() -> None:
    """The journal is a little ahead of the recording."""

    async def scenario(s: Stage) -> None:
        await started(s)
        for _ in range(60):
            await seconds(s, 1)
            if s.conductor.rollout.weight == 10_000:
                await s.conductor.keep_checkpoint()
                break
        await seconds(s, 40)

    s = play(scenario)
    assert s.conductor.rollout.state is State.DONE
    found = asyncio.run(Replayer(s.store, s.store).replay("run1"))
    assert [each.differs for each in found.decisions] == [(), None]
    assert (found.same, found.holes) == (None, ["the look of the advance is missing"])
    assert replayed(s).same is True


def test_a_run_whose_beginning_was_removed_is_not_judged_from_its_middle() -> None:
    """Rows go by their age; a judge that began in the middle would be another."""
    s = to_rollback(failed=4)
    s.store.rows = [row for row in s.store.rows if row.run_id != "run1" or row.position not in (0, 1)]
    assert refused(s).reason == "not_recorded"
    s = to_rollback(failed=4)
    s.store.rows = [replace(row, data=b"") if row.position == 0 else row for row in s.store.rows]
    error = refused(s)
    assert (error.reason, error.problems[0].partition(":")[0]) == (
        "not_recorded", "the row of window 1001 cannot be read",
    )  # fmt: skip


def test_a_restart_from_a_state_that_was_not_recorded_is_named() -> None:
    """The checkpoint got into the store and the rows before it did not."""

    async def before(s: Stage) -> None:
        await started(s)
        await seconds(s, 5)
        await s.conductor.keep_checkpoint()

    async def after(s: Stage) -> None:
        await seconds(s, 5)
        await s.conductor.keep_checkpoint()

    s = play(before)
    s.store.rows = []
    s = play(after, s.store, now=s.clock.wall())
    assert replayed(s).holes == ["the state from which a restart went on is not in it"]


@pytest.mark.parametrize("data", [b"", b"garbage"])
def test_a_row_that_cannot_be_read_is_named(data: bytes) -> None:
    """Of another format, or damaged."""
    s = to_rollback(failed=4)
    s.store.rows = [replace(row, data=data) if row.position == 2 else row for row in s.store.rows]
    found = replayed(s)
    assert found.same is None
    assert found.holes[0].startswith("the row of window 1003 cannot be read: ")


def test_a_recording_that_is_all_holes_is_said_in_few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many are named, and that there are more."""
    monkeypatch.setattr(playback, "MOST_HOLES", 2)
    s = to_rollback(failed=4)
    s.store.rows = [replace(row, data=b"") if row.position > 1 else row for row in s.store.rows]
    found = replayed(s)
    assert [hole.partition(":")[0] for hole in found.holes[:3]] == [
        "the row of window 1003 cannot be read", "the row of window 1004 cannot be read", "and more",
    ]  # fmt: skip
    assert found.same is None


# -- what cannot be asked ---------------------------------------------------------------------------------------------


def refused(s: Stage, run_id: str = "run1", **asked: Any) -> CannotReplay:
    with pytest.raises(CannotReplay) as raised:
        replayed(s, run_id, **asked)
    return raised.value


def test_what_was_counted_cannot_be_changed_and_all_of_it_is_named_at_once() -> None:
    """Limit, metric, window, classes and tolerance; whatever only the judge reads may be another."""
    s = to_rollback(failed=4)
    run = s.store.saved[-1].run
    assert run is not None
    own = replace(
        run.plan, parity=ParityPolicy(cosine_min=0.9), copies=100, strata=(512,),
        metrics=(*run.plan.metrics, MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=80)),
    )  # fmt: skip
    s.store.saved = [replace(each, run=replace(run, plan=own)) for each in s.store.saved]
    asked = replace(
        own, rule=replace(own.rule, window_s=10.0), max_step_s=3600, parity=ParityPolicy(cosine_min=0.99),
        strata=(4096,), metrics=(
            MetricLimit(metric=MetricId.ERROR, allowed=0.2),
            MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=100),
            MetricLimit(metric=MetricId.LAT_P99, allowed=0.01, limit_ms=200),
            MetricLimit(metric=MetricId.PARITY, allowed=0.01),
        ),
    )  # fmt: skip
    error = refused(s, plan=asked)
    assert error.reason == "plan"
    assert [problem.partition(":")[0] for problem in error.problems] == [
        "preset", "slo.lat_p95.limit_ms", "slo.lat_p99", "parity", "strata.edges",
    ]  # fmt: skip


def test_parity_cannot_be_asked_where_nothing_was_compared() -> None:
    """There are no pairs, and no pairs are not a pass."""
    s = to_rollback(failed=4)
    asked = replace(
        PLAN, parity=ParityPolicy(cosine_min=0.9), copies=10,
        metrics=(*PLAN.metrics, MetricLimit(metric=MetricId.PARITY, allowed=0.1)),
    )  # fmt: skip
    assert refused(s, plan=asked).problems == ["slo.parity: no answers were compared in the recorded run; leave it out"]


def test_there_must_be_something_to_replay(monkeypatch: pytest.MonkeyPatch) -> None:
    """No such run, nothing recorded, nothing yet, too much."""
    s = to_rollback(failed=4)
    assert refused(s, "other").reason == "no_run"
    assert refused(s, until=1000.5).reason == "not_recorded"
    monkeypatch.setattr(module, "MOST_WINDOWS", 3)
    assert "a replay takes at most 3" in str(refused(s))
    s.store.rows = []
    assert refused(s).reason == "not_recorded"


def test_one_at_a_time() -> None:
    """The second is refused while the first is under way, and welcome after it."""
    s = to_rollback(failed=4)
    replayer = Replayer(s.store, s.store)

    async def both() -> list[Any]:
        return await asyncio.gather(replayer.replay("run1"), replayer.replay("run1"), return_exceptions=True)

    first, second = asyncio.run(both())
    assert isinstance(first, Replayed)
    assert isinstance(second, CannotReplay)
    assert second.reason == "busy"
    assert asyncio.run(replayer.replay("run1")).same is True


def test_the_control_loop_has_its_turn_between_windows() -> None:
    """No more than one window, or a hundred seconds of the breaker, is judged in one go."""
    s = to_rollback(failed=4)
    asyncio.run(s.conductor.keep_checkpoint())

    async def beside() -> int:
        turns = 0
        replay = asyncio.ensure_future(Replayer(s.store, s.store).replay("run1"))
        while not replay.done():
            await asyncio.sleep(0)
            turns += 1
        return turns if (await replay).same else 0

    told = [each for row in s.store.rows if row.run_id == "run1" for each in unpack(row.data)]
    assert asyncio.run(beside()) >= sum(isinstance(each, Closed) for each in told)
    assert isinstance(told[0], Began)


# -- what if ----------------------------------------------------------------------------------------------------------


def test_a_looser_plan_would_not_have_rolled_back() -> None:
    """Another allowed share is judged on the same counts, and claims nothing about then."""
    s = to_rollback(failed=4)
    plan = replace(PLAN, metrics=(MetricLimit(metric=MetricId.ERROR, allowed=0.5),))
    found = replayed(s, plan=plan)
    assert found.final is not None
    assert (found.final.verdict.name, found.same, found.decisions) == ("HOLD", None, [])


def test_a_quicker_plan_says_that_it_would_have_gone_on_and_a_slower_one_that_it_would_not() -> None:
    """The replay follows the recorded weights; so it says where this plan would have parted from them."""

    async def scenario(s: Stage) -> None:
        await started(s)
        for _ in range(40):
            await seconds(s, 1)
            if s.conductor.rollout.weight == 10_000:
                return await seconds(s, 3)

    s = play(scenario)
    quick = replayed(s, plan=replace(PLAN, min_step_s=1, min_windows=3, min_events=10, steps=(1000, 5000)))
    assert quick.notes[0] == "steps: the replay follows the recorded weights, 10, 100 %, not 10, 50 %"
    assert quick.notes[1].startswith("this plan would have left 10 % ")
    assert quick.notes[1].endswith(" s before the recorded run did")
    slow = replayed(s, plan=replace(PLAN, min_events=10_000))
    assert slow.notes == ["this plan would not have left 10 % yet when the recorded run did"]


def test_classes_may_be_left_out() -> None:
    """A plan without strata judges all requests of a run that had them together."""

    async def scenario(s: Stage) -> None:
        await s.conductor.start(replace(PLAN, strata=(512,)), "digest", who="me", reason="go")
        await _through(s)

    s = play(scenario)
    assert replayed(s).same is True
    found = replayed(s, plan=PLAN)
    assert found.final is not None
    assert (found.final.verdict.name, found.final.verdict.strata) == ("ROLL_BACK", ())


async def _through(s: Stage) -> None:
    s.conductor.arm_health("gpu", READY_B)
    s.conductor.arm_health("tpu", READY_C)
    await tick(s)
    await seconds(s, 40, failed=4)


def test_as_if_it_were_earlier() -> None:
    """Until a time: the verdict of that time, and nothing that came later."""
    s = to_rollback(failed=4)
    whole = replayed(s)
    early = replayed(s, until=1006.5)
    assert early.final is not None
    assert (early.final.at, early.final.verdict.name) == (1006.5, "HOLD")
    assert early.windows < whole.windows
    assert (early.decisions, early.same) == ([], None)


def test_the_own_plan_asked_as_another_comes_to_the_same_evidence() -> None:
    """A plan from its file has no horizon of the traffic yet; it is judged on the one that a start would have given."""
    s = to_rollback(failed=4)
    run = s.store.saved[-1].run
    assert run is not None
    filed = replace(run.plan, horizon_s=90_000.0)
    rated = replace(run, outlook=Outlook(rate=0.5, step_s=(), horizon_s=0.0))
    horizon = expect(replace(rated, plan=filed), 0.5).horizon_s
    assert horizon < 90_000.0
    started_so = replace(rated, plan=replace(filed, horizon_s=horizon))
    s.store.saved = [replace(each, run=started_so) for each in s.store.saved]
    own, other = replayed(s), replayed(s, plan=filed)
    assert own.final is not None
    assert own.final == other.final


def test_a_length_of_step_that_is_asked_for_holds_against_the_traffics() -> None:
    """The recorded step was stretched; a plan that names max_step_s is held to what it names."""

    async def scenario(s: Stage) -> None:
        plan = replace(PLAN, min_events=10_000, max_step_s=20, stretch_s=3600)
        await s.conductor.start(plan, "digest", who="me", reason="go")
        s.conductor.arm_health("gpu", READY_B)
        s.conductor.arm_health("tpu", READY_C)
        s.analyst.traffic.rate = lambda now, rule: 0.5  # type: ignore[method-assign]  # a night without traffic
        await tick(s)
        await seconds(s, 40)

    s = play(scenario)
    assert s.conductor.rollout.state is State.STEPPING
    named = replayed(s, plan=replace(PLAN, min_events=10_000, max_step_s=20))
    assert [seen.verdict.name for seen in named.changes][-1] == "INCONCLUSIVE"
    assert [seen.verdict.name for seen in replayed(s).changes][-1] == "HOLD"


def test_what_another_plan_cannot_change_is_said() -> None:
    """Steps, copies, what the baseline kept and the noise floor are those of then."""
    s = to_rollback(failed=4)
    asked = replace(
        PLAN, copies=10, residual=200, control_at_full=True, noise_pairs=20, parity=ParityPolicy(cosine_min=0.9),
        metrics=(*PLAN.metrics, MetricLimit(metric=MetricId.PARITY, allowed=0.1)),
    )  # fmt: skip
    assert [note.partition(":")[0] for note in notes_of(asked, PLAN)] == ["copies", "residual", "noise_floor"]
    assert replayed(s, plan=replace(PLAN, min_events=81)).notes == []
