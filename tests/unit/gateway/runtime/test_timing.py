"""Latency of a request beside that of its copy, from the request path to what the control process adds up."""

from typing import Any

import pytest
from fakes.arms import FakeLeg
from fakes.control import PLAN, no_compare
from fakes.request_path import HOLD, Stage, play

from gateway.adapters.channel import Frames, encode
from gateway.core.classify import Loss
from gateway.core.run import Run
from gateway.core.snapshot import PairedCounts, Report
from gateway.core.types import Lane, Role
from gateway.runtime.analyst import Analyst
from gateway.runtime.call import STREAM_HIGH

TO_CANDIDATE: dict[str, Any] = {"weight": 0, "copies": 10_000}
TO_BASELINE: dict[str, Any] = {"weight": 10_000, "reverse_copies": 10_000}


def legs(stage: Stage, routing: dict[str, Any]) -> tuple[FakeLeg, FakeLeg]:
    """(live, copy) of the latest request."""
    served = Role.BASELINE if routing is TO_CANDIDATE else Role.CANDIDATE
    return stage.leg(served), stage.leg(served.other, Lane.COPY)


def noted(stage: Stage) -> list[tuple[int, int]]:
    """(pairs baseline first, pairs candidate first) by window."""
    return [(block[1], block[2]) for block in stage.books.current.take_paired().blocks]


@pytest.mark.parametrize("copy_first", [False, True])
@pytest.mark.parametrize("routing", [TO_CANDIDATE, TO_BASELINE])
def test_each_side_is_measured_from_its_own_sending(routing: dict[str, Any], copy_first: bool) -> None:
    """In both directions and orders: the candidate took twice as long, whoever served and whoever was sent first."""

    async def scenario() -> None:
        stage = Stage(**routing)
        stage.take(copy_first=copy_first)
        live, copy = legs(stage, routing)
        base, other = (live, copy) if routing is TO_CANDIDATE else (copy, live)
        stage.clock.step(0.1)
        base.answer(200)
        stage.clock.step(0.1)
        other.answer(200)
        (block,) = stage.books.current.take_paired().blocks
        candidate_first = copy_first is (routing is TO_CANDIDATE)
        assert (block[1], block[2]) == ((0, 1) if candidate_first else (1, 0))
        assert block[3] + block[4] == pytest.approx(693_147, abs=2)
        assert block[0] == int(stage.clock.wall() // 10)
        assert noted(stage) == []

    play(scenario)


def test_a_copy_that_goes_first_leaves_in_the_same_turn() -> None:
    """Nothing is waited for in between; the request follows before the loop turns."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take(copy_first=True)
        stage.take()
        wrote = [line.split('"lane":"')[1].split('"')[0] for line in stage.lines if '"lane"' in line]
        assert wrote == ["copy", "live", "live", "copy"]

    play(scenario)


@pytest.mark.parametrize("copy_first", [False, True])
@pytest.mark.parametrize("late", ["live", "copy"])
def test_a_side_that_waited_for_a_connection_is_left_out(late: str, copy_first: bool) -> None:
    """The two were not sent at one moment, and not in the order that was drawn."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        lane = stage.pool(Role.BASELINE) if late == "live" else stage.pool(Role.CANDIDATE, Lane.COPY)
        lane.connected = False
        stage.take(copy_first=copy_first)
        lane.legs[-1].write()
        live, copy = legs(stage, TO_CANDIDATE)
        stage.clock.step(0.1)
        live.answer(200)
        copy.answer(200)
        assert len(stage.pairs) == 1
        assert noted(stage) == []

    play(scenario)


def test_a_side_that_is_sent_again_is_left_out() -> None:
    """Its first connection had died."""

    async def scenario() -> None:
        for which in (0, 1):
            stage = Stage(**TO_CANDIDATE)
            stage.take()
            both = legs(stage, TO_CANDIDATE)
            both[which].write()
            stage.clock.step(0.1)
            for leg in both:
                leg.answer(200)
            assert noted(stage) == []

    play(scenario)


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("fault", ["500", "400", "lost", "compile", "events"])
def test_only_two_successes_without_a_compile_are_a_pair(fault: str, side: int) -> None:
    """What failed, refused, compiled or streams events says nothing about who is faster."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        both = legs(stage, TO_CANDIDATE)
        stage.clock.step(0.1)
        both[1 - side].answer(200)
        bad = both[side]
        match fault:
            case "lost":
                bad.lose(Loss.RESET)
            case "compile":
                bad.answer(200, compiles=1)
            case "events":
                bad.head(200, events=True)
                bad.complete()
            case status:
                bad.answer(int(status))
        assert noted(stage) == []

    play(scenario)


@pytest.mark.parametrize("kind", ["encoded", "large copy", "large live"])
def test_answers_that_cannot_be_compared_still_have_latencies(kind: str) -> None:
    """Compressed ones, and those that are too large to be kept."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        live, copy = legs(stage, TO_CANDIDATE)
        stage.clock.step(0.1)
        for leg, large in ((live, "large live"), (copy, "large copy")):
            leg.head(200, encoded=kind == "encoded")
            leg.body(b"x" * (HOLD + 1 if kind == large else 1))
            leg.complete()
        assert stage.pairs == []
        assert noted(stage) == [(1, 0)]

    play(scenario)


def test_an_answer_that_a_slow_client_holds_up_is_left_out() -> None:
    """Its time is the client's."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE)
        stage.take()
        live, copy = legs(stage, TO_CANDIDATE)
        stage.clock.step(0.1)
        live.head(200, length=STREAM_HIGH + 1)
        live.body(b"x" * (STREAM_HIGH + 1))
        live.complete()
        copy.answer(200)
        assert noted(stage) == []

    play(scenario)


def test_what_the_baseline_answers_in_the_candidates_place_is_no_pair() -> None:
    """Failed over: the second leg is not the one that was copied."""

    async def scenario() -> None:
        stage = Stage(**TO_BASELINE)
        stage.take()
        live, copy = legs(stage, TO_BASELINE)
        stage.clock.step(0.1)
        live.lose()
        stage.leg(Role.BASELINE).answer(200)
        copy.answer(200)
        assert noted(stage) == []

    play(scenario)


def test_the_order_is_drawn_evenly_and_not_by_the_key_alone() -> None:
    """About half of the copies go first, also of one sticky key, and nobody without the secret knows which."""

    async def scenario() -> None:
        stage = Stage(**TO_CANDIDATE, key_header="x-tenant")
        firsts = []
        for number in range(400):
            live = stage.take(key=b"tenant", request_id=f"id-{number}")
            firsts.append(live.exchange.terms.copy_first)
            for leg in legs(stage, TO_CANDIDATE):
                leg.answer(200)
        assert 160 < sum(firsts) < 240

    play(scenario)


def news(name: str, paired: PairedCounts, epoch: int = 1) -> Report:
    """What the control process reads when a worker reports ``paired``."""
    report = Report(
        name=name, version=1, epoch=epoch, at=1001.0, windows=[], latencies=[], open_since=None, breaker=(0.0, 0.0),
        seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0), connections=(0, 0), paired=paired,
    )  # fmt: skip
    (read,) = Frames().feed(encode(report))
    assert isinstance(read, Report)
    return read


def test_two_workers_blocks_of_one_window_are_one_block() -> None:
    """One worker saw one order, the other the other one; of another epoch nothing is added, and a start begins anew."""
    run = Run(run_id="r", plan=PLAN, plan_digest="d", started_at=1000.0, who="", reason="")
    analyst = Analyst(no_compare, epoch=1, answer_timeout_s=10.0, now=1000.0)
    analyst.judge(run, epoch=1, now=1000.0, fresh=True, resume=None)
    for window in range(1001, 1007):
        analyst.report(news("w0", PairedCounts(clipped=0, blocks=[(window, 2, 0, 2 * 693_147, 0)])))
        analyst.report(news("w1", PairedCounts(clipped=1, blocks=[(window, 0, 2, 0, 2 * 693_147)])))
        analyst.report(news("w1", PairedCounts(clipped=0, blocks=[(window, 9, 9, 0, 0)]), epoch=2))
    found = analyst.paired.interval()
    assert found is not None
    assert (found.blocks, round(found.median, 3), analyst.paired.clipped) == (6, 2.0, 6)
    analyst.judge(run, epoch=2, now=1010.0, fresh=True, resume=None)
    assert analyst.paired.pairs == 0
