"""The baseline against itself, from the request path through the channel to verdict, routing and restart."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes.control import PLAN, READY_B, READY_C, Stage, play, seconds, tick
from fakes.gateway import FakeStore
from fakes.request_path import Stage as RequestPath
from fakes.request_path import play as play_requests

from gateway.adapters.channel import Frames, encode
from gateway.core.compare.result import PairKind, PairResult
from gateway.core.floor import SHARE
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.run import State
from gateway.core.snapshot import Answer, Pair
from gateway.core.types import Count, Lane, Role, window_of
from gateway.runtime.pairs import Found
from gateway.runtime.replay import Replayer

NOISY = replace(
    PLAN,
    steps=(0, 1000, 10_000),
    metrics=(*PLAN.metrics, MetricLimit(metric=MetricId.PARITY, allowed=0.05)),
    parity=ParityPolicy(cosine_min=0.99),
    copies=10_000,
    soak=True,
    noise_pairs=40,
)
LEAST = 5
"""Of 40 with 5 % allowed."""
ALL: dict[str, Any] = {"weight": 0, "copies": 10_000, "noise_copies": 10_000}


# The request path.


def test_a_sampled_request_of_the_baseline_is_copied_to_the_baseline_alone() -> None:
    """Its pair says so; nothing is counted for it in any metric, and no latency is compared."""

    async def scenario() -> None:
        stage = RequestPath(**ALL)
        for copy_first in (False, True):
            stage.take(copy_first=copy_first)
            stage.clock.step(0.1)
            stage.leg(Role.BASELINE).answer(200, b"one")
            stage.leg(Role.BASELINE, Lane.COPY).answer(200, b"two")
        assert stage.pool(Role.CANDIDATE, Lane.COPY).legs == []
        assert stage.leg(Role.BASELINE, Lane.COPY).request.shadow
        for pair in stage.pairs:
            assert (pair.noise, pair.served) == (True, Role.BASELINE)
            assert (pair.baseline.body, pair.candidate.body) == (b"one", b"two")
        assert len(stage.pairs) == 2
        assert stage.counted(Role.BASELINE, Lane.COPY) == {}
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == {}
        assert stage.books.current.take_paired().blocks == []
        assert stage.books.take_copies() == {"noise:sent": 2, "noise:ok": 2, "noise:pair": 2}
        assert stage.shadow.copies.taken == stage.shadow.bytes.taken == 0
        assert stage.books.current.open_since is None

    play_requests(scenario)


def test_the_share_is_of_the_baselines_requests_and_the_rest_goes_to_the_candidate() -> None:
    """One in twenty; each request is copied once. What the candidate serves is copied to the baseline as ever."""

    async def scenario() -> None:
        stage = RequestPath(**{**ALL, "noise_copies": SHARE}, key_header="x-tenant")
        for number in range(1000):
            stage.take(key=b"%d" % number)
            stage.leg(Role.BASELINE).answer(200)
            for role in Role:
                for leg in list(stage.pool(role, Lane.COPY).open):
                    leg.answer(200)
        noise = sum(pair.noise for pair in stage.pairs)
        assert 25 < noise < 80
        assert len(stage.pairs) == 1000
        stage.follow(version=2, weight=10_000, reverse_copies=10_000, noise_copies=10_000)
        stage.take()
        stage.leg(Role.CANDIDATE).answer(200)
        stage.leg(Role.BASELINE, Lane.COPY).answer(200)
        assert not stage.pairs[-1].noise

    play_requests(scenario)


def test_copies_for_comparison_stop_before_those_that_measure_the_noise() -> None:
    """At a quarter and at a half of the baseline's room; without a floor to measure both have the half."""

    async def scenario() -> None:
        def taken(weight: int, noise: int) -> int:
            stage = RequestPath(
                weight=weight, reverse_copies=10_000, noise_copies=noise, baseline={"max_in_flight": 16}
            )
            for _ in range(12):
                stage.take()
                for leg in list(stage.pool(Role.BASELINE).open):
                    leg.answer(200)
            return len(stage.pool(Role.BASELINE, Lane.COPY).legs)

        assert taken(10_000, 10_000) == 4
        assert taken(10_000, 0) == 8
        # Each request is itself in flight at the baseline when its copy is offered.
        assert taken(0, 10_000) == 7

    play_requests(scenario)


def test_nothing_is_copied_to_itself_without_a_share_or_a_run() -> None:
    """The default."""

    async def scenario() -> None:
        for changes in ({"noise_copies": 0}, {"judging": False}, {"candidate": None}):
            stage = RequestPath(**{**ALL, "copies": 0, **changes})
            stage.take()
            assert stage.pool(Role.BASELINE, Lane.COPY).legs == []

    play_requests(scenario)


# The control process.


def compare(pair: Pair, plan: Plan, found: Callable[[Found], None]) -> bool:
    """Answers agree when their bytes do."""
    same = pair.baseline.body == pair.candidate.body
    kind = PairKind.OK if same else PairKind.TOLERANCE
    found(PairResult(kind=kind, min_cosine=1.0 if same else 0.4))
    return True


def feed(s: Stage, n: int, *, differ: int = 0, noise: bool = True, epoch: int | None = None) -> None:
    """Pairs of this moment, each of a body of its own, as the control process reads them."""
    for number in range(n):
        sides = [Answer(status=200, content_type="", body=body) for body in (b"a", b"b" if number < differ else b"a")]
        pair = Pair(
            epoch=s.conductor.rollout.epoch if epoch is None else epoch, window=window_of(s.clock.wall(), 1.0),
            request_id=f"r{number}", path="/v1/embeddings", served=Role.BASELINE, body_hash=b"%d" % number,
            baseline=sides[0], candidate=sides[1], noise=noise,
        )  # fmt: skip
        (read,) = Frames().feed(encode(pair))
        assert isinstance(read, Pair)
        s.analyst.pair(read)


async def begin(s: Stage, plan: Plan = NOISY) -> None:
    s.analyst.pairs._compare = compare
    await s.conductor.start(plan, "digest", who="me", reason="go")
    s.conductor.arm_health("gpu", READY_B)
    s.conductor.arm_health("tpu", READY_C)
    await tick(s)


async def healthy(s: Stage, n: int) -> None:
    """Seconds of a candidate that fails nothing and whose pairs agree."""
    for _ in range(n):
        feed(s, 20, noise=False)
        await seconds(s, 1)


def polled(s: Stage) -> int:
    """The share that workers are told after the next poll of an arm."""
    s.conductor.arm_health("gpu", READY_B)
    return s.worker.last_snapshot().noise_copies


def evidence(s: Stage) -> tuple[int, int]:
    return (
        s.analyst.evidence.total(Role.CANDIDATE, Lane.COPY, Count.PAIRS),
        s.analyst.evidence.total(Role.BASELINE, Lane.COPY, Count.PAIRS),
    )


def test_the_baseline_is_copied_to_itself_until_there_are_enough_pairs() -> None:
    """Five in a hundred from the first judged moment on, then none; they are in no evidence and no display of pairs."""

    async def scenario(s: Stage) -> None:
        await begin(s)
        assert (s.conductor.rollout.state, polled(s)) == (State.SHADOWING, SHARE)
        feed(s, 39)
        assert polled(s) == SHARE
        s.clock.advance(1.0)
        feed(s, 1)
        assert polled(s) == 0
        feed(s, 9)
        assert s.analyst.floor is not None
        assert s.analyst.floor.stats.pairs == 40
        assert (evidence(s), s.analyst.parity.pairs, s.analyst.ever.pairs) == ((0, 0), 0, 0)

    play(scenario)


@pytest.mark.parametrize("plan", [replace(NOISY, noise_pairs=0), PLAN])
def test_a_plan_that_wants_no_pairs_has_none(plan: Plan) -> None:
    """Nothing is copied, said or kept."""

    async def scenario(s: Stage) -> None:
        await begin(s, plan)
        feed(s, 3, differ=3)
        await seconds(s, 1)
        assert (polled(s), s.analyst.floor) == (0, None)
        assert s.analyst.verdict is not None
        assert not any("noise" in note for note in s.analyst.verdict.notes)
        checkpoint = s.analyst.checkpoint()
        assert checkpoint is not None
        assert "floor" not in checkpoint

    play(scenario)


def test_a_quiet_floor_is_noted_and_holds_nothing_and_too_few_pairs_neither() -> None:
    """The step passes in the same time as without; in the next one nothing is copied to the baseline any more."""

    async def passes(s: Stage, pairs: int, note: str) -> None:
        await begin(s)
        feed(s, pairs)
        await healthy(s, 40)
        assert s.conductor.rollout.weight > 0
        assert polled(s) == 0
        assert s.analyst.verdict is not None
        assert any(note in text for text in s.analyst.verdict.notes), s.analyst.verdict.notes

    async def measured(s: Stage) -> None:
        await passes(s, 40, "in 0 of 40 (0 %) pairs (at most 7.22 % of all")

    async def too_few(s: Stage) -> None:
        await passes(s, 3, "too few, 40 are wanted")

    async def none(s: Stage) -> None:
        await passes(s, 0, "no pair of the baseline with itself yet")

    for scenario in (measured, too_few, none):
        play(scenario)


def test_a_tolerance_in_the_noise_holds_the_step_whatever_else_is_proven() -> None:
    """It names the hold; a person decides when the step has lasted too long."""

    async def scenario(s: Stage) -> None:
        await begin(s)
        feed(s, 40, differ=LEAST)
        await healthy(s, 40)
        verdict = s.analyst.verdict
        assert verdict is not None
        assert (verdict.name, verdict.reason, verdict.metric) == ("HOLD", "noise_floor", MetricId.PARITY)
        assert "min 0.99 lies in the noise" in verdict.text
        assert len(verdict.missing) == 1
        assert (s.conductor.rollout.state, s.conductor.rollout.weight) == (State.SHADOWING, 0)
        await healthy(s, 30)
        assert s.conductor.rollout.state is State.HELD
        await s.conductor.promote(who="me", reason="we know", override=True)
        await healthy(s, 20)
        assert s.conductor.rollout.weight == 1000
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.reason == "noise_floor"

    play(scenario)


def test_pairs_that_were_under_way_when_there_were_enough_are_not_counted() -> None:
    """The number is fixed beforehand, however many are being compared at a time."""

    async def scenario(s: Stage) -> None:
        await begin(s)
        under_way: list[Callable[[Found], None]] = []

        def later(pair: Pair, plan: Plan, found: Callable[[Found], None]) -> bool:
            under_way.append(found)
            return True

        s.analyst.pairs._compare = later
        feed(s, 50)
        assert len(under_way) == 50
        for found in under_way:
            found(PairResult(kind=PairKind.OK, min_cosine=1.0))
        assert s.analyst.floor is not None
        assert s.analyst.floor.stats.pairs == 40

    play(scenario)


def test_a_replay_holds_where_the_noise_floor_held() -> None:
    """Its pairs are in no window; what they held is in the recording."""

    async def scenario(s: Stage) -> None:
        await begin(s)
        await healthy(s, 5)
        feed(s, 40, differ=LEAST)
        await healthy(s, 70)
        assert s.conductor.rollout.state is State.HELD
        await s.conductor.keep_checkpoint()
        found = await Replayer(s.store, s.store).replay("run1")
        assert ([each.kind for each in found.decisions], found.same) == (["inconclusive"], True)
        assert "noise_floor" in [seen.verdict.reason for seen in found.changes]
        assert not any(seen.verdict.name == "ADVANCE" for seen in found.changes)

    play(scenario)


def test_rollback_rules_do_not_wait_for_the_floor_and_name_it() -> None:
    """A candidate whose pairs differ is rolled back all the same; the note says that the baseline does it, too."""

    async def scenario(s: Stage) -> None:
        await begin(s)
        feed(s, 40, differ=LEAST)
        for _ in range(20):
            feed(s, 20, differ=15, noise=False)
            await seconds(s, 1)
        run = s.conductor.rollout.run
        assert run is not None
        assert (s.conductor.rollout.state, run.metric, run.rule) == (State.ROLLED_BACK, "parity", "evidence")
        line = next(line for line in s.store.lines if line.kind == "rollback")
        assert any("may be the baseline's own noise" in note for note in line.data["judged"]["notes"])
        assert line.data["figures"]["noise"]["in_noise"] is True
        assert s.analyst.floor is None
        assert s.analyst.final is not None
        assert s.analyst.final.floor is not None

    play(scenario)


def test_it_survives_a_restart_and_a_new_run_begins_anew() -> None:
    """Measured before the restart, held after it; pairs of a run that is over are nobody's."""
    store = FakeStore()

    async def before(s: Stage) -> None:
        await begin(s)
        feed(s, 30, differ=LEAST)
        await seconds(s, 1)
        await s.conductor.keep_checkpoint()

    async def after(s: Stage) -> None:
        s.analyst.pairs._compare = compare
        await healthy(s, 20)
        assert s.analyst.floor is not None
        assert s.analyst.floor.stats.pairs == 30
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.reason == "noise_floor"
        assert polled(s) == SHARE
        epoch = s.conductor.rollout.epoch
        await s.conductor.roll_back(who="me", reason="enough")
        assert polled(s) == 0
        await begin(s)
        assert s.analyst.floor is not None
        feed(s, 3, epoch=epoch)
        assert s.analyst.floor.stats.pairs == 0

    first = play(before, store)
    play(after, store, now=first.clock.now)


def test_a_pause_does_not_begin_it_anew() -> None:
    """It is of the run; the step's own evidence starts over."""

    async def scenario(s: Stage) -> None:
        await begin(s)
        feed(s, 7)
        await s.conductor.pause(who="me", reason="lunch")
        await s.conductor.resume(who="me", reason="back")
        assert s.analyst.floor is not None
        assert s.analyst.floor.stats.pairs == 7
        assert polled(s) == SHARE

    play(scenario)


def test_a_floor_that_cannot_be_read_begins_afresh_and_costs_the_judge_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The evidence against the candidate is worth more than some pairs."""
    store = FakeStore()

    async def before(s: Stage) -> None:
        await begin(s)
        await healthy(s, 5)
        await s.conductor.keep_checkpoint()

    first = play(before, store)
    assert store.judge is not None
    window = store.judge["against"]
    store.judge = {**store.judge, "floor": {"kinds": 3}}

    async def after(s: Stage) -> None:
        assert s.analyst.floor is not None
        assert s.analyst.floor.stats.pairs == 0
        checkpoint = s.analyst.checkpoint()
        assert checkpoint is not None
        assert checkpoint["against"] == window

    with caplog.at_level(logging.WARNING):
        play(after, store, now=first.clock.now)
    assert "the noise floor begins afresh" in caplog.text


@pytest.mark.parametrize("part", ["gaps", "sentence"])
def test_a_floor_that_raises_holds_and_silences_no_rollback(monkeypatch: Any, part: str) -> None:
    """As anything else in the judge's look, also where it is only what people are told."""

    async def scenario(s: Stage) -> None:
        await begin(s)
        assert s.analyst.floor is not None

        def broken(_: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(type(s.analyst.floor), part, broken if part == "gaps" else property(broken))
        await seconds(s, 2)
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.reason == "judge_failed"
        await seconds(s, 12, failed=20)
        assert s.conductor.rollout.state is State.ROLLED_BACK

    play(scenario)
