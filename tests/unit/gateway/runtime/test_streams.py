"""Event streams in the books: timed by their first event, counted where they end, holding no window open."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.evidence import Evidence
from gateway.core.snapshot import Report
from gateway.core.types import Count, Lane, Outcome, Role
from gateway.runtime.tallies import StreamLimits, Tallies
from gateway.runtime.ticket import Ticket

EVENT = b"data: x\n\n"
SENT = 50.0
ARRIVED = 105.0


def book(stream_limits: StreamLimits = (1.0, 0.1)) -> Tallies:
    return Tallies(epoch=1, window_s=10.0, limits=(None, 0.5, None), stream_limits=stream_limits)


def opened(tallies: Tallies, *, asks: bool = True, role: Role = Role.CANDIDATE, lane: Lane = Lane.LIVE) -> Ticket:
    return tallies.open(role, lane, ARRIVED, SENT, asks_for_events=asks)


def streaming(tallies: Tallies, *, first_at: float | None = SENT + 0.2, asks: bool = True) -> Ticket:
    """A stream whose first event came at monotonic time ``first_at``, None: not yet."""
    ticket = opened(tallies, asks=asks)
    tallies.begin_stream(ticket, framed=True)
    if first_at is not None:
        tallies.took(ticket, EVENT, first_at)
    return ticket


def counted(tallies: Tallies) -> dict[int, dict[str, int]]:
    """What was counted since the last look: window -> name -> n, zeros left out."""
    found: dict[int, dict[str, int]] = {}
    for window in tallies.take()[0]:
        for count in Count:
            if window.tally[count]:
                names = found.setdefault(window.window, {})
                names[count.name] = names.get(count.name, 0) + window.tally[count]
    return found


@pytest.mark.parametrize("asks", [True, False])
@pytest.mark.parametrize(("took", "bad"), [(0.9, {}), (1.2, {"TTFT_BAD": 1})])
def test_the_first_event_counts_in_the_window_of_arrival(asks: bool, took: float, bad: dict[str, int]) -> None:
    """Whether the request said that it wants a stream or the answer showed it; total duration counts nowhere."""
    tallies = book()
    ticket = streaming(tallies, first_at=SENT + took, asks=asks)
    assert counted(tallies) == {10: {"TTFT_N": 1, **bad}}
    tallies.took(ticket, EVENT, SENT + took + 0.01)
    tallies.sweep(SENT + 900.0)
    assert counted(tallies) == {}


def test_a_stream_that_does_not_begin_is_late_at_once_and_once() -> None:
    """Before its head and after it; the window then waits for it no more."""
    tallies = book()
    hung, headed = opened(tallies), streaming(tallies, first_at=None)
    tallies.sweep(SENT + 0.9)
    assert counted(tallies) == {}
    tallies.sweep(SENT + 1.1)
    tallies.sweep(SENT + 1.2)
    assert counted(tallies) == {10: {"TTFT_N": 2, "TTFT_BAD": 2}}
    assert tallies.open_since == ARRIVED  # of the one without a head nobody knows yet what it will be
    tallies.begin_stream(hung, framed=True)
    assert tallies.open_since is None
    for ticket in (hung, headed):
        tallies.took(ticket, EVENT, SENT + 2.0)
    assert counted(tallies) == {}


def test_what_asked_for_a_stream_and_was_answered_whole_is_timed_as_an_answer() -> None:
    """What had been counted at once as a late first event is taken back."""
    tallies = book()
    ticket = opened(tallies)
    tallies.sweep(SENT + 1.1)
    tallies.close(ticket, Outcome.OK, SENT + 1.2)
    assert counted(tallies) == {10: {"OK": 1, "LAT95_N": 1, "LAT95_BAD": 1}}


def test_a_late_answer_that_turns_out_to_be_a_stream_leaves_the_latency_metrics() -> None:
    """Of a request that did not say what it wants."""
    tallies = book()
    ticket = opened(tallies, asks=False)
    tallies.sweep(SENT + 0.7)
    assert counted(tallies) == {10: {"LAT95_N": 1, "LAT95_BAD": 1}}
    tallies.begin_stream(ticket, framed=True)
    assert counted(tallies) == {10: {"LAT95_N": -1, "LAT95_BAD": -1}}


def test_without_a_limit_on_the_first_event_requests_are_timed_as_ever() -> None:
    """A plan without stream metrics: what asks for a stream is late like any request, until the answer shows."""
    tallies = book((None, None))
    ticket = opened(tallies)
    tallies.sweep(SENT + 0.7)
    assert counted(tallies) == {10: {"LAT95_N": 1, "LAT95_BAD": 1}}
    tallies.begin_stream(ticket, framed=True)
    assert tallies.open_since is None
    tallies.took(ticket, EVENT, SENT + 9.0)
    tallies.close(ticket, Outcome.OK, SENT + 9.0, at=131.0)
    assert counted(tallies) == {10: {"LAT95_N": -1, "LAT95_BAD": -1}, 13: {"OK": 1, "STREAMS": 1}}


def test_an_end_counts_in_the_window_of_the_end() -> None:
    """Whole or broken off; its gaps with it."""
    tallies = book()
    whole, broken = streaming(tallies), streaming(tallies)
    counted(tallies)
    tallies.took(whole, EVENT, SENT + 0.25)
    tallies.took(broken, EVENT, SENT + 7.0)
    tallies.close(whole, Outcome.OK, SENT + 3600.0, at=ARRIVED + 3600.0)
    tallies.close(broken, Outcome.FAILED, SENT + 3600.0, at=ARRIVED + 3600.0)
    ended = {"OK": 1, "FAILED": 1, "FAILED_BODY": 1, "STREAMS": 2, "STREAMS_BROKEN": 1, "ITL_N": 2, "ITL_BAD": 1}
    assert counted(tallies) == {370: ended}
    assert tallies.is_settled


@pytest.mark.parametrize(("age", "late"), [(0.3, {}), (1.3, {10: {"TTFT_N": 1, "TTFT_BAD": 1}})])
def test_a_client_that_leaves_counts_only_what_was_late(age: float, late: dict[int, dict[str, int]]) -> None:
    """Neither its gaps nor its end say anything of the arm."""
    tallies = book()
    tallies.close(streaming(tallies, first_at=None), Outcome.CANCELLED, SENT + age, at=125.0)
    assert counted(tallies) == {**late, 12: {"CANCELLED": 1}}
    begun = streaming(tallies)
    tallies.took(begun, EVENT, SENT + 9.0)
    tallies.close(begun, Outcome.CANCELLED, SENT + 9.0, at=125.0)
    assert counted(tallies) == {10: {"TTFT_N": 1}, 12: {"CANCELLED": 1}}


def test_a_stream_with_one_event_has_no_gap_to_be_judged_by() -> None:
    """No data is no event."""
    tallies = book()
    tallies.close(streaming(tallies), Outcome.OK, SENT + 1.0, at=ARRIVED)
    assert counted(tallies) == {10: {"TTFT_N": 1, "OK": 1, "STREAMS": 1}}


def test_a_stream_that_met_a_compile_is_excused_from_the_wait_and_told_at_once() -> None:
    """The stop rule does not wait for the end of a stream."""
    tallies = book()
    ticket = opened(tallies)
    tallies.sweep(SENT + 1.1)
    tallies.begin_stream(ticket, framed=True, compiles=2, compiled=("1x8",))
    assert counted(tallies) == {10: {"COMPILES": 1, "EXCUSED": 1}}
    assert tallies.take_compiled() == {"1x8": 1}
    tallies.took(ticket, EVENT, SENT + 5.0)
    tallies.close(ticket, Outcome.OK, SENT + 6.0, at=ARRIVED, compiles=2, compiled=("1x8",))
    assert counted(tallies) == {10: {"OK": 1, "STREAMS": 1}}


def test_an_arm_is_not_timed_before_it_has_the_request() -> None:
    """A first event that came earlier says nothing of the wait."""
    tallies = book()
    ticket = tallies.open(Role.CANDIDATE, Lane.LIVE, ARRIVED, None, asks_for_events=True)
    tallies.begin_stream(ticket, framed=True)
    tallies.took(ticket, EVENT, SENT + 5.0)
    assert counted(tallies) == {}


def test_a_stream_copied_to_the_baseline_is_nobodys_evidence_and_holds_no_window() -> None:
    """It is dropped when it ends."""
    tallies = book()
    ticket = opened(tallies, role=Role.BASELINE, lane=Lane.COPY)
    assert tallies.begin_stream(ticket, framed=True) is None
    assert tallies.open_since is None
    tallies.took(ticket, EVENT, SENT + 5.0)
    tallies.drop(ticket)
    assert counted(tallies) == {}
    assert tallies.is_settled


def test_an_epoch_is_kept_while_a_stream_of_it_is_open() -> None:
    """It is of the past, but its end has to be counted somewhere."""
    tallies = book()
    ticket = streaming(tallies)
    tallies.take()
    assert not tallies.is_settled
    tallies.drop(ticket)
    assert tallies.is_settled


STEPS = st.lists(st.tuples(st.sampled_from(["open", "event", "end", "report"]), st.integers(0, 9)), max_size=60)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.floats(0.1, 40.0))
def test_no_end_of_a_stream_is_ever_late(steps: list[tuple[str, int]], pace_s: float) -> None:
    """However long streams stay open and whenever reports go out: every end is judged, and windows close behind them
    as if no stream were open."""
    tallies, evidence = book((1.0, 0.1)), Evidence(epoch=1, width_s=10.0, timeout_s=1e6, first_window=10)
    now, streams, ended, closed = 100.0, [], 0, []

    def report() -> None:
        tallies.sweep(now - 55.0)
        windows, _ = tallies.take()
        evidence.add(
            Report(
                name="w0", version=1, epoch=1, at=now, windows=windows, latencies=[], open_since=tallies.open_since,
                breaker=(0.0, 0.0), seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0), connections=(0, 0),
            )
        )  # fmt: skip
        closed.extend(evidence.close(now))

    for what, which in steps:
        now += pace_s
        if what == "open":
            ticket = tallies.open(Role.CANDIDATE, Lane.LIVE, now, now - 55.0, asks_for_events=True)
            tallies.begin_stream(ticket, framed=True)
            streams.append(ticket)
        elif what == "event" and streams:
            tallies.took(streams[which % len(streams)], EVENT, now - 55.0)
        elif what == "end" and streams:
            tallies.close(streams.pop(which % len(streams)), Outcome.OK, now - 55.0, at=now)
            ended += 1
        else:
            report()
    now += 20.0
    report()
    # A wait for a first event holds its window for a second at most; then a sweep settles it.
    assert evidence.next_window == int(now // 10.0)
    assert sum(window.sum(Role.CANDIDATE, Count.STREAMS) for window in closed) == ended
    assert (evidence.late_events, evidence.incomplete_windows) == (0, 0)
