"""What an explanation is made from: memory while there is one, the journal after a restart, never an error."""

import asyncio
from dataclasses import replace

import pytest
from fakes.control import PLAN, READY_B, READY_C, Stage, play, seconds, started, tick
from fakes.gateway import FakeStore

from gateway.core.explain import Case, explain
from gateway.core.figures import Figures
from gateway.core.run import Outcome, State
from gateway.core.snapshot import Ack
from gateway.core.types import Count, Lane, Role
from gateway.core.verdict import VerdictName
from gateway.runtime import record
from gateway.runtime.analyst import Analyst
from gateway.runtime.case import present_case
from gateway.runtime.figures import figures

THERE = 5000.0
"""A restart comes later."""


async def case_of(s: Stage) -> Case:
    return await present_case(s.conductor, s.analyst)


async def failing(s: Stage) -> None:
    """A run that is rolled back for error, and measured."""
    await started(s)
    await seconds(s, 3)
    await seconds(s, 12, failed=8)
    await s.conductor.settled()


def restarted(store: FakeStore) -> Case:
    """The case as another process finds it."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        cases.append(await case_of(s))

    play(scenario, store, now=THERE)
    return cases[0]


def test_a_rollback_is_the_same_case_before_and_after_a_restart() -> None:
    """Verdict and figures of the moment, not of now: what is counted afterwards changes nothing."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await failing(s)
        cases.append(await case_of(s))
        await seconds(s, 5)
        cases.append(await case_of(s))

    store = play(scenario).store
    before, later = cases
    after = restarted(store)
    assert before.rollout.state is State.ROLLED_BACK
    assert before.verdict is not None
    assert (before.verdict.name, before.verdict.metric) == (VerdictName.ROLL_BACK, "error")
    assert before.figures is not None
    assert before.figures.candidate.failed > 0
    assert explain(before) == explain(later) == explain(after)
    assert replace(after, rollout=before.rollout, now=before.now) == before


def test_with_the_store_away_after_a_restart_the_run_still_speaks() -> None:
    """No error, the run's own sentence, and no number made up; once the store is back the numbers are."""

    async def scenario(s: Stage) -> None:
        await failing(s)

    store = play(scenario).store
    cases: list[Case] = []

    async def after(s: Stage) -> None:
        store.down = True
        cases.append(await case_of(s))
        store.down = False
        cases.append(await case_of(s))

    play(after, store, now=THERE)
    away, back = cases
    assert (away.verdict, away.figures, away.gap) == (None, None, "the store did not give the run's journal")
    assert away.run.metric == "error"
    assert explain(away).headline.startswith("Rolled back from 10 % for error")
    assert back.gap == ""
    assert back.verdict is not None


def test_with_the_store_away_memory_suffices() -> None:
    """The rollback is owed to the store, and explained all the same."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        s.store.down = True
        await seconds(s, 12, failed=8)
        cases.append(await case_of(s))
        s.store.down = False

    play(scenario)
    assert cases[0].gap == ""
    assert cases[0].verdict is not None


def test_a_person_is_named_with_what_the_judge_said_then() -> None:
    """A second rollback ends nothing and rewrites nothing."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        await s.conductor.roll_back(who="ann", reason="pager")
        cases.append(await case_of(s))
        await s.conductor.roll_back(who="bob", reason="again")
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert (case.who, case.run.text, case.left) == ("ann", "pager", "stepping")
        assert case.verdict is not None
        assert case.verdict.name is VerdictName.HOLD
    assert len({explain(case).headline for case in cases}) == 1


def test_a_pause_is_told_with_who_and_why_also_after_a_restart() -> None:
    """The present verdict and figures stand beside it."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        await s.conductor.pause(who="ann", reason="lunch")
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    assert [(case.who, case.reason) for case in cases] == [("ann", "lunch")] * 2
    assert cases[0].verdict is not None


def test_a_pause_of_before_is_not_told_of_a_run_that_goes_on() -> None:
    """After resume the run speaks for itself; held, it does not borrow the words of a pause."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await s.conductor.pause(who="ann", reason="lunch")
        await s.conductor.resume(who="ann", reason="back")
        cases.append(await case_of(s))
        s.conductor.rollout = replace(s.conductor.rollout, state=State.HELD)
        cases.append(await case_of(s))

    play(scenario)
    assert [(case.who, case.reason) for case in cases] == [("", "")] * 2


def test_gate_one_is_told_by_its_problems() -> None:
    """Also after a restart."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        run = s.conductor.rollout.run
        assert run is not None
        await s.conductor.roll_back(who="ann", reason="for a plan that declares nothing")
        plan = replace(run.plan, declared_differences=())
        await s.conductor.start(plan, "digest", who="me", reason="go")
        await tick(s)
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert case.run.rule == "gate"
        assert len(case.problems) == 1
        assert case.problems[0].startswith("dtype (baseline 'float32', candidate 'bfloat16'): not declared")


def test_a_promotion_keeps_the_numbers_it_stands_on() -> None:
    """The last verdict of the judge, from the journal too."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 80)
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert case.rollout.state is State.DONE
        assert case.verdict is not None
        assert case.verdict.name is VerdictName.ADVANCE
        assert case.figures is not None
    assert explain(cases[0]) == explain(cases[1])


def test_a_frozen_advance_keeps_its_numbers() -> None:
    """What is proven stays visible while the gateway's own trouble holds the step."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 10)
        for _ in range(30):
            s.traffic()
            s.replica.workers["w0"].heard_at = -100.0
            await tick(s)
        verdict = (await case_of(s)).verdict
        assert verdict is not None
        assert (verdict.name, verdict.reason) == (VerdictName.HOLD, "frozen")
        assert verdict.rows
        assert verdict.bar > 0

    play(scenario)


def test_idle_has_no_figures_of_a_run() -> None:
    """Nothing is judged."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        cases.append(await case_of(s))

    play(scenario)
    assert (cases[0].figures, cases[0].verdict, cases[0].arms) == (None, None, ("gpu", "tpu"))


def test_figures_are_of_the_lanes_that_are_evidence() -> None:
    """Live requests of both arms, copies to the candidate; clients are counted by what they got."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3, failed=5)
        total = s.analyst.evidence.totals
        total[Role.BASELINE, Lane.COPY] = [7] * len(Count)
        client = total.setdefault((Role.BASELINE, Lane.CLIENT), [0] * len(Count))
        client[Count.OK], client[Count.FAILED], client[Count.CLIENT_FAULT] = 50, 2, 3
        total[Role.CANDIDATE, Lane.LIVE][Count.REFUSED] = 4
        found = figures(s.analyst, s.clock.wall())
        assert (found.candidate.failed, found.candidate.live) == (10, 44)
        assert found.baseline.failed == 0
        assert (found.clients.answered, found.clients.failed, found.clients.refused) == (50, 2, 3)
        assert found.clients.spared == 4
        assert found.recent_s == 6.0

    play(scenario)


def numbers_fail(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Figures cannot be collected; the times at which it was tried."""
    tried: list[float] = []

    def broken(_: Analyst, now: float) -> Figures:
        tried.append(now)
        raise ValueError("bin: 99999")

    monkeypatch.setattr(record, "figures", broken)
    monkeypatch.setattr(record, "live_requests", broken)
    return tried


@pytest.mark.parametrize("by_hand", [False, True], ids=["judge", "person"])
def test_figures_that_fail_hold_up_no_rollback(monkeypatch: pytest.MonkeyPatch, by_hand: bool) -> None:
    """Judge's and person's: routed to zero, journalled, measured; the figures are not measured."""
    numbers_fail(monkeypatch)
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        if by_hand:
            await s.conductor.roll_back(who="ann", reason="pager")
        else:
            await seconds(s, 12, failed=8)
        assert s.conductor.rollout.state is State.ROLLED_BACK
        assert s.worker.last_snapshot().weight == 0
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert case.figures is None
        assert case.verdict is not None
        assert case.run.live_candidate_requests is None
        assert case.run.time_to_zero_s == 0.0
        assert "Live requests to the candidate: not measured." in [fact.text for fact in explain(case).facts]


def test_the_workers_know_before_anything_is_counted_for_people(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time to zero runs from the decision, and what explaining takes is in it, not before it."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        weights: list[int] = []

        def slow(analyst: Analyst, now: float) -> Figures:
            weights.append(s.worker.last_snapshot().weight)
            s.clock.advance(0.7)
            return figures(analyst, now)

        monkeypatch.setattr(record, "figures", slow)
        await seconds(s, 12, failed=8)
        assert weights == [0]
        run = s.conductor.rollout.run
        assert run is not None
        assert run.time_to_zero_s == pytest.approx(0.7)

    play(scenario)


@pytest.mark.parametrize("state", [State.PAUSED, State.HELD])
def test_a_tick_that_changes_nothing_collects_nothing(monkeypatch: pytest.MonkeyPatch, state: State) -> None:
    """Paused with a complete proof, held without one: the verdict comes each tick, the figures do not."""
    tried = numbers_fail(monkeypatch)

    async def scenario(s: Stage) -> None:
        await started(s)
        if state is State.PAUSED:
            await seconds(s, 3)
            await s.conductor.pause(who="ann", reason="lunch")
        await seconds(s, 70, ok=20 if state is State.PAUSED else 1)
        assert s.conductor.rollout.state is state
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.name in (VerdictName.ADVANCE, VerdictName.INCONCLUSIVE)
        before = len(tried)
        await seconds(s, 10, ok=20 if state is State.PAUSED else 1)
        assert len(tried) == before == (1 if state is State.HELD else 0)

    play(scenario)


def test_a_step_up_is_journalled_with_its_numbers_even_by_override() -> None:
    """And the end has those that it stands on."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 6)
        await s.conductor.promote(who="bob", reason="r", override=True)
        await s.conductor.promote(who="bob", reason="r", override=True)
        case = await case_of(s)
        assert case.rollout.state is State.DONE
        assert case.figures is not None
        assert case.figures.candidate.live == 100
        assert [(each.step, each.who) for each in case.run.overrides] == [(0, "bob"), (1, "bob")]
        assert explain(case).headline.startswith("Promoted by override: the last step")

    numbered = {line.kind for line in play(scenario).store.lines if "figures" in line.data}
    assert numbered == {"override", "done"}


def test_an_override_is_told_of_a_run_that_then_passes_also_after_a_restart() -> None:
    """By evidence from the second step on."""
    cases: list[Case] = []

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 6)
        await s.conductor.promote(who="bob", reason="r", override=True)
        await seconds(s, 60)
        cases.append(await case_of(s))

    store = play(scenario).store
    cases.append(restarted(store))
    for case in cases:
        assert case.rollout.state is State.DONE
        assert "Step 1 was passed by override of bob" in explain(case).headline


def test_counts_after_a_restart_are_not_told_as_the_whole_runs() -> None:
    """In explanation and status: from there on, at least."""

    async def before(s: Stage) -> None:
        await started(s)
        await seconds(s, 10)
        await s.conductor.keep_checkpoint()

    async def after(s: Stage) -> None:
        s.conductor.arm_health("gpu", READY_B)
        s.conductor.arm_health("tpu", READY_C)
        await seconds(s, 1)
        await seconds(s, 12, failed=8)
        case = await case_of(s)
        assert case.rollout.state is State.ROLLED_BACK
        assert "since 00:23:20 UTC, when this gateway began to count" in " ".join(
            fact.text for fact in explain(case).facts
        )
        assert case.run.live_counted_from == 1400.0 != case.run.judged_from

    play(after, play(before).store, now=1400.0)


def test_a_rollback_at_the_restart_claims_no_count_and_is_at_hand_without_the_store() -> None:
    """Nothing had been counted by the process that decided; its line is not asked for again."""
    store = FakeStore()

    async def half(s: Stage) -> None:
        await started(s)
        await seconds(s, 10)

    play(half, store)
    assert store.rollout.run is not None
    store.rollout = replace(store.rollout, run=replace(store.rollout.run, arms=("gpu http://x:1", "tpu http://y:2")))

    async def after(s: Stage) -> None:
        store.down = True
        case = await case_of(s)
        assert (case.run.rule, case.gap, store.asked) == ("configuration", "", 0)
        assert case.run.live_candidate_requests is None
        assert "Live requests to the candidate: not measured." in [fact.text for fact in explain(case).facts]

    play(after, store, now=THERE)


def test_a_start_forgets_the_line_of_the_run_before() -> None:
    """The next run's pause, and what is asked of it, is its own."""

    async def scenario(s: Stage) -> None:
        await failing(s)
        await s.conductor.start(PLAN, "digest", who="me", reason="again")
        s.conductor.rollout = replace(s.conductor.rollout, state=State.ROLLED_BACK)
        run = s.conductor.rollout.run
        assert run is not None
        s.conductor.rollout = replace(s.conductor.rollout, run=replace(run, outcome=Outcome.ROLLED_BACK))
        assert s.conductor.record.at_hand(s.conductor.rollout).line is None

    play(scenario)


def test_many_repeated_rollbacks_hide_nothing_and_the_store_is_asked_once() -> None:
    """After a restart the run's own end is found, and kept; so is that there is none."""

    async def scenario(s: Stage) -> None:
        await failing(s)
        for _ in range(60):
            await s.conductor.roll_back(who="bot", reason="again")

    store = play(scenario).store

    async def after(s: Stage) -> None:
        for _ in range(3):
            case = await case_of(s)
            assert case.verdict is not None
            assert case.verdict.name is VerdictName.ROLL_BACK
        assert store.asked == 1
        store.lines.clear()
        s.conductor.record = record.Record(store, s.analyst)
        for _ in range(3):
            assert (await case_of(s)).gap == "the run's journal has no line of it"
        assert store.asked == 2

    play(after, store, now=THERE)


@pytest.mark.parametrize(
    "data",
    [{"unreadable": "x"}, {"format": 2, "judged": {}}, {"format": 1, "judged": 7, "figures": [1], "problems": "x"}],
)
def test_a_line_that_cannot_be_read_is_a_gap_and_no_error(data: dict[str, object]) -> None:
    """Of another format, or not what it should be."""

    async def scenario(s: Stage) -> None:
        await failing(s)

    store = play(scenario).store
    store.lines = [replace(line, data=data) if line.kind == "rollback" else line for line in store.lines]
    case = restarted(store)
    assert (case.verdict, case.figures, case.problems) == (None, None, ())
    assert "not measured" in " ".join(fact.text for fact in explain(case).facts)


def test_a_cosine_that_is_no_number_is_not_measured() -> None:
    """From memory as from the journal, which cannot keep it."""

    async def scenario(s: Stage) -> None:
        await started(s)
        s.analyst.parity.min_cosine = float("nan")
        assert figures(s.analyst, s.clock.wall()).pairs.min_cosine is None

    play(scenario)


def test_nobody_left_to_confirm_and_who_did_not_are_kept_with_the_run() -> None:
    """Without a worker there is nobody; a deaf one is named, also after a restart."""
    cases: list[Case] = []

    async def alone(s: Stage) -> None:
        await started(s)
        s.replica.detach("w0")
        await s.conductor.roll_back(who="ann", reason="pager")
        cases.append(await case_of(s))

    async def deaf(s: Stage) -> None:
        await started(s)
        s.worker.deaf = True
        pending = asyncio.create_task(s.conductor.roll_back(who="ann", reason="pager"))
        await asyncio.sleep(0)
        cases.append(await case_of(s))
        s.clock.advance(6.0)
        s.replica.acknowledge(Ack(name="w0", version=0, epoch=0, written=0))
        await pending

    play(alone)
    store = play(deaf).store
    cases.append(restarted(store))
    zeros = [fact.text for case in cases for fact in explain(case).facts if fact.label == "Zero"]
    for zero, said in zip(zeros, ("No worker was running", "being waited for", "by worker w0"), strict=True):
        assert said in zero
