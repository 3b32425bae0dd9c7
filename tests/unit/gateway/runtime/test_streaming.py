"""Event streams through the whole request path: who is timed by what, and what a slow client costs nobody."""

from typing import Any

import pytest
from fakes.arms import FakeLeg
from fakes.request_path import Stage, play

from gateway.core.types import Count, Lane, Role
from gateway.runtime.call import STREAM_HIGH, Streamed
from gateway.runtime.proxy import LiveRequest

EVENT = b"data: x\n\n"
ASKS = b'{"model":"m","stream":true}'
LIMITS: dict[str, Any] = {"stream_limits_ms": (1000.0, 100.0)}


def begun(stage: Stage, *, after_s: float = 0.2, body: bytes = ASKS) -> tuple[LiveRequest, FakeLeg]:
    """A live stream of the candidate whose first event came ``after_s`` after the request."""
    live = stage.take(body=body)
    leg = stage.leg(Role.CANDIDATE)
    leg.head(200, events=True)
    stage.clock.step(after_s)
    leg.body(EVENT)
    return live, leg


@pytest.mark.parametrize("asks", [True, False])
def test_a_live_stream_is_timed_by_its_first_event_and_its_gaps(asks: bool) -> None:
    """Gaps are taken where the arm's bytes come in; total duration is in no metric."""

    async def scenario() -> None:
        stage = Stage(**LIMITS)
        _, leg = begun(stage, after_s=1.2, body=ASKS if asks else b"body")
        for gap_s in (0.05, 0.3, 0.05):
            stage.clock.step(gap_s)
            leg.body(EVENT)
        leg.complete()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {
            "OK": 1, "TTFT_N": 1, "TTFT_BAD": 1, "ITL_N": 1, "ITL_BAD": 1, "STREAMS": 1
        }  # fmt: skip
        assert stage.counted(Role.CANDIDATE, Lane.CLIENT) == {"OK": 1}

    play(scenario)


def test_a_stream_holds_no_window_and_ends_where_it_ends() -> None:
    """From its first event on windows close as if it were not there; its end is counted in the window of the end."""

    async def scenario() -> None:
        stage = Stage(**LIMITS)
        _, leg = begun(stage)
        assert stage.books.current.open_since is None
        began = int(stage.clock.wall() // 10)
        assert {window.window for window in stage.books.current.take()[0]} == {began}
        stage.clock.step(3600.0)
        leg.lose()
        ended = stage.books.current.take()[0]
        assert {(window.window, window.lane) for window in ended} == {
            (began + 360, Lane.LIVE), (began + 360, Lane.CLIENT)
        }  # fmt: skip

    play(scenario)


def test_before_its_first_event_a_stream_holds_its_window_until_the_limit() -> None:
    """The head alone settles nothing."""

    async def scenario() -> None:
        stage = Stage(**LIMITS)
        stage.take(body=ASKS)
        stage.leg(Role.CANDIDATE).head(200, events=True)
        assert stage.books.current.open_since is not None
        stage.clock.step(1.1)
        stage.books.current.sweep(stage.clock.monotonic())
        assert stage.books.current.open_since is None
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"TTFT_N": 1, "TTFT_BAD": 1}

    play(scenario)


def test_a_client_that_leaves_a_late_stream_leaves_what_was_late() -> None:
    """Its own end counts nowhere."""

    async def scenario() -> None:
        stage = Stage(**LIMITS)
        live = stage.take(body=ASKS)
        stage.clock.step(1.1)
        live.client_gone()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"CANCELLED": 1, "TTFT_N": 1, "TTFT_BAD": 1}
        live, leg = begun(stage)
        stage.clock.step(5.0)
        leg.body(EVENT)
        live.client_gone()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"CANCELLED": 2, "TTFT_N": 2, "TTFT_BAD": 1}

    play(scenario)


def test_a_client_that_reads_slowly_is_no_gap_of_the_arm() -> None:
    """While the arm is made to wait its gaps are left out, also of what had piled up meanwhile."""

    async def scenario() -> None:
        stage = Stage(**LIMITS)
        live, leg = begun(stage)
        stage.clock.step(0.05)
        leg.body(b"data: " + b"x" * STREAM_HIGH + b"\n\n")
        assert leg.paused
        stage.clock.step(30.0)
        reply = live.reply.result()
        assert isinstance(reply, Streamed)
        assert await reply.stream.read()
        assert not leg.paused
        leg.body(EVENT * 3)
        stage.clock.step(0.05)
        leg.body(EVENT)
        leg.complete()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"OK": 1, "TTFT_N": 1, "ITL_N": 1, "STREAMS": 1}

    play(scenario)


@pytest.mark.parametrize(("arm_s", "bad"), [(0.1, {}), (0.6, {"LAT95_BAD": 1})])
def test_a_client_that_reads_a_large_answer_slowly_is_no_latency_of_the_arm(arm_s: float, bad: dict[str, int]) -> None:
    """An answer too large to be held is timed while the gateway reads it, and not while it cannot."""

    async def scenario() -> None:
        stage = Stage()
        live = stage.take()
        leg = stage.leg(Role.CANDIDATE)
        leg.head(200, length=2 * STREAM_HIGH)
        stage.clock.step(arm_s)
        leg.body(b"x" * (STREAM_HIGH + 1))
        stage.clock.step(30.0)
        stage.books.current.sweep(stage.clock.monotonic())
        assert stage.counted(Role.CANDIDATE, Lane.LIVE).get("LAT95_BAD", 0) == bad.get("LAT95_BAD", 0)
        reply = live.reply.result()
        assert isinstance(reply, Streamed)
        assert await reply.stream.read()
        stage.clock.step(0.1)
        leg.body(b"x" * (STREAM_HIGH - 1))
        leg.complete()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"OK": 1, "LAT95_N": 1, **bad}

    play(scenario)


def test_what_the_baseline_streams_in_the_candidates_place_is_not_timed() -> None:
    """It holds no window open either; what the client saw is counted where the stream ends."""

    async def scenario() -> None:
        stage = Stage(**LIMITS)
        stage.take(body=ASKS)
        stage.leg(Role.CANDIDATE).lose()
        second = stage.leg(Role.BASELINE)
        second.head(200, events=True)
        assert stage.books.current.open_since is None
        stage.clock.step(50.0)
        second.body(EVENT)
        second.complete()
        assert stage.counted(Role.CANDIDATE, Lane.LIVE) == {"FAILED": 1, "FAILED_FIRST_BYTE": 1, "FAILED_OVER": 1}
        assert stage.counted(Role.BASELINE, Lane.LIVE) == {}
        assert stage.counted(Role.BASELINE, Lane.CLIENT) == {"OK": 1}

    play(scenario)


@pytest.mark.parametrize("failure", ["lost", "unready"])
def test_a_stream_in_the_candidates_place_is_told_where_it_ends(failure: str) -> None:
    """Its window of arrival is long closed by then, and the epoch may be over: neither loses what is counted last."""

    async def scenario() -> None:
        stage = Stage(**LIMITS, candidate={"ready": failure == "lost"})
        stage.take(body=ASKS)
        if failure == "lost":
            stage.leg(Role.CANDIDATE).lose()
        second = stage.leg(Role.BASELINE)
        second.head(200, events=True)
        began = int(stage.clock.wall() // 10)
        tallies = stage.books.current
        tallies.take()
        stage.follow(epoch=2, version=2)
        stage.books.forget_settled()
        assert stage.books.past == [tallies]
        stage.clock.step(3600.0)
        second.body(EVENT)
        second.complete()
        ended = tallies.take()[0]
        counted = {(window.role, window.lane): window.tally for window in ended}
        assert {window.window for window in ended} == {began + 360}
        assert counted[Role.CANDIDATE, Lane.LIVE][Count.FAILED_OVER] == 1
        assert counted[Role.BASELINE, Lane.CLIENT][Count.OK] == 1
        stage.books.forget_settled()
        assert stage.books.past == []

    play(scenario)


def test_a_copied_stream_counts_the_same_way() -> None:
    """Read to its end, in the lane of copies."""

    async def scenario() -> None:
        stage = Stage(weight=0, copies=10_000, **LIMITS)
        stage.take(body=ASKS)
        copy = stage.leg(Role.CANDIDATE, Lane.COPY)
        copy.head(200, events=True)
        stage.clock.step(1.5)
        copy.body(EVENT)
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == {"TTFT_N": 1, "TTFT_BAD": 1}
        stage.leg(Role.BASELINE).answer(200)
        assert stage.books.current.open_since is None
        copy.body(EVENT)
        copy.lose()
        assert stage.counted(Role.CANDIDATE, Lane.COPY) == {
            "TTFT_N": 1, "TTFT_BAD": 1, "FAILED": 1, "FAILED_BODY": 1, "STREAMS": 1, "STREAMS_BROKEN": 1, "ITL_N": 1
        }  # fmt: skip

    play(scenario)


def test_a_stream_copied_to_the_baseline_counts_nowhere() -> None:
    """It is there for the comparison of answers."""

    async def scenario() -> None:
        stage = Stage(weight=10_000, reverse_copies=10_000, **LIMITS)
        stage.take(body=ASKS)
        copy = stage.leg(Role.BASELINE, Lane.COPY)
        copy.head(200, events=True)
        copy.body(EVENT)
        copy.complete()
        stage.leg(Role.CANDIDATE).answer(200)
        assert stage.counted(Role.BASELINE, Lane.COPY) == {}

    play(scenario)
