import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import MOST_SHAPES, Count, Lane, Outcome, Role
from gateway.runtime.tallies import Tallies
from gateway.runtime.ticket import Ticket

LIMITS = (0.1, 0.5, 1.0)
LATENCY = (
    Count.LAT50_N, Count.LAT50_BAD, Count.LAT95_N, Count.LAT95_BAD, Count.LAT99_N, Count.LAT99_BAD
)  # fmt: skip

STREAM = (Count.TTFT_N, Count.TTFT_BAD, Count.ITL_N, Count.ITL_BAD, Count.STREAMS, Count.STREAMS_BROKEN)


def tallies(limits: tuple[float | None, float | None, float | None] = LIMITS) -> Tallies:
    return Tallies(epoch=1, window_s=10.0, limits=limits)


def opened(book: Tallies, *, role: Role = Role.CANDIDATE, lane: Lane = Lane.LIVE, arrived: float = 105.0) -> Ticket:
    return book.open(role, lane, arrived, 50.0)


def latency(book: Tallies) -> tuple[int, ...]:
    """Everything counted in the latency metrics since the last look."""
    windows, _ = book.take()
    return tuple(sum(w.tally[c] for w in windows) for c in LATENCY)


def test_an_outcome_is_counted_in_the_window_of_arrival() -> None:
    """Wherever it ends, a request belongs to the window, arm and lane in which it arrived."""
    book = tallies()
    book.close(opened(book, arrived=119.9), Outcome.OK, 99.0)
    book.close(opened(book, role=Role.BASELINE, lane=Lane.COPY, arrived=120.0), Outcome.SHED, 99.0)
    first, second = book.take()[0]
    assert (first.window, first.role, first.lane) == (11, Role.CANDIDATE, Lane.LIVE)
    assert first.tally[Count.OK] == 1
    assert (second.window, second.role, second.lane) == (12, Role.BASELINE, Lane.COPY)
    assert second.tally[Count.SHED] == 1


@pytest.mark.parametrize(
    ("took", "expected"),
    [(0.05, (1, 0, 1, 0, 1, 0)), (0.3, (1, 1, 1, 0, 1, 0)), (0.5, (1, 1, 1, 0, 1, 0)), (2.0, (1, 1, 1, 1, 1, 1))],
)
def test_a_good_answer_counts_once_in_every_latency_metric(took: float, expected: tuple[int, ...]) -> None:
    """It is bad in those whose limit it exceeded."""
    book = tallies()
    book.close(opened(book), Outcome.OK, 50.0 + took)
    assert latency(book) == expected


def test_unused_metrics_count_nothing() -> None:
    """A metric without a limit has no events."""
    book = tallies((None, 0.5, None))
    book.close(opened(book), Outcome.OK, 60.0)
    assert latency(book) == (0, 0, 1, 1, 0, 0)


def test_an_open_request_is_late_at_once_and_only_once() -> None:
    """The sweep counts it when it passes a limit; its end adds only the metrics not yet counted."""
    book = tallies()
    ticket = opened(book)
    book.sweep(50.05)
    assert latency(book) == (0, 0, 0, 0, 0, 0)
    book.sweep(50.2)
    book.sweep(50.3)
    assert latency(book) == (1, 1, 0, 0, 0, 0)
    book.sweep(50.6)
    assert latency(book) == (0, 0, 1, 1, 0, 0)
    book.close(ticket, Outcome.OK, 50.7)
    assert latency(book) == (0, 0, 0, 0, 1, 0)


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.CANCELLED, Outcome.REFUSED])
def test_without_a_good_answer_only_limits_already_passed_count(outcome: Outcome) -> None:
    """The denominator of a latency metric is good answers, but what was late stays late."""
    book = tallies()
    book.close(opened(book), outcome, 50.05)
    assert latency(book) == (0, 0, 0, 0, 0, 0)
    book.close(opened(book), outcome, 50.6)
    assert latency(book) == (1, 1, 1, 1, 0, 0)


def test_a_cut_for_the_clients_deadline_is_late_everywhere() -> None:
    """It is bad in every latency metric, however early the cut."""
    book = tallies()
    book.close(opened(book), Outcome.TIMED_OUT_BY_CLIENT_DEADLINE, 50.05)
    assert latency(book) == (1, 1, 1, 1, 1, 1)


def test_a_fault_of_the_client_leaves_the_latency_metrics() -> None:
    """Nobody's answer: what the sweep had counted at once is taken back."""
    book = tallies()
    ticket = opened(book)
    book.sweep(50.6)
    book.close(ticket, Outcome.CLIENT_FAULT, 50.7)
    assert latency(book) == (0, 0, 0, 0, 0, 0)


def test_an_arm_is_not_timed_while_the_client_sends() -> None:
    """Its time starts with the end of the request; an answer that comes before says nothing about latency."""
    book = tallies()
    uploading, early = (book.open(Role.CANDIDATE, Lane.LIVE, 105.0, None) for _ in range(2))
    book.sweep(90.0)
    book.close(early, Outcome.OK, 90.0)
    assert latency(book) == (0, 0, 0, 0, 0, 0)
    uploading.start(90.0)
    book.close(uploading, Outcome.OK, 90.3)
    assert latency(book) == (1, 1, 1, 0, 1, 0)


def test_what_leaves_the_latency_metrics_leaves_them_altogether() -> None:
    """A compile takes back what the sweep had counted at once."""
    book = tallies()
    ticket = opened(book)
    book.sweep(50.6)
    assert latency(book) == (1, 1, 1, 1, 0, 0)
    book.close(ticket, Outcome.OK, 55.0, compiles=3)
    windows, latencies = book.take()
    (window,) = windows
    assert [window.tally[c] for c in LATENCY] == [-1, -1, -1, -1, 0, 0]
    assert window.tally[Count.OK] == 1
    assert (window.tally[Count.COMPILES], window.tally[Count.EXCUSED]) == (1, 1)
    assert latencies == []


def test_shapes_are_kept_for_the_candidate_and_taken_once() -> None:
    """Whatever the outcome and the lane; what the baseline compiles is nobody's evidence."""
    book = tallies()
    book.close(opened(book), Outcome.OK, 51.0, compiles=2, compiled=("4x128", "1x128"))
    book.close(opened(book, lane=Lane.COPY), Outcome.FAILED, 51.0, compiles=1, compiled=("4x128",))
    book.close(opened(book, role=Role.BASELINE), Outcome.OK, 51.0, compiles=1, compiled=("8x8",))
    assert book.take_compiled() == {"4x128": 2, "1x128": 1}
    assert book.take_compiled() == {}


def test_no_more_than_sixteen_shapes_are_remembered_in_an_epoch() -> None:
    """An arm that names ever new ones fills no memory; those known are still counted, also after a report."""
    book = tallies()
    for n in range(1, 100):
        book.close(opened(book), Outcome.OK, 51.0, compiles=1, compiled=(f"{n}x8",))
    assert len(book.take_compiled()) == MOST_SHAPES
    book.close(opened(book), Outcome.OK, 51.0, compiles=2, compiled=("1x8", "777x8"))
    assert book.take_compiled() == {"1x8": 1}


def test_a_dropped_request_was_never_there() -> None:
    """What was not written to the arm leaves no count behind."""
    book = tallies()
    ticket = opened(book)
    book.sweep(50.2)
    book.drop(ticket)
    book.drop(ticket)
    assert latency(book) == (0, 0, 0, 0, 0, 0)
    assert book.open_since is None


def test_closing_twice_counts_once() -> None:
    """A ticket is closed by whoever comes first."""
    book = tallies()
    ticket = opened(book)
    book.close(ticket, Outcome.FAILED, 51.0)
    book.close(ticket, Outcome.OK, 52.0)
    (window,) = book.take()[0]
    assert (window.tally[Count.FAILED], window.tally[Count.OK]) == (1, 0)


def test_copies_to_the_baseline_are_no_evidence() -> None:
    """They keep their window open for the pair, and are never late."""
    book = tallies()
    ticket = opened(book, role=Role.BASELINE, lane=Lane.COPY)
    book.sweep(60.0)
    assert book.open_since == 105.0
    book.drop(ticket)
    assert book.take() == ([], [])


def test_an_answered_request_is_not_late_while_it_is_compared() -> None:
    """A refusal that waits for the other arm's answer is no slow arm."""
    book = tallies()
    ticket = opened(book)
    ticket.end(50.05)
    ticket.end(59.0)
    book.sweep(60.0)
    book.close(ticket, Outcome.REFUSED, 60.0)
    assert latency(book) == (0, 0, 0, 0, 0, 0)


def test_open_since_is_the_oldest_arrival() -> None:
    """Windows before it are complete on this worker."""
    book = tallies()
    assert book.open_since is None
    late, early = opened(book, arrived=130.0), opened(book, arrived=110.0)
    assert book.open_since == 110.0
    book.close(early, Outcome.OK, 51.0)
    assert book.open_since == 130.0
    book.close(late, Outcome.OK, 51.0)
    assert book.open_since is None


def test_a_request_keeps_its_window_open_until_it_leaves() -> None:
    """What the client finally saw is counted in it, long after the first arm's part was."""
    book = tallies()
    request = object()
    book.enter(request, 104.0)
    book.close(opened(book), Outcome.FAILED, 51.0)
    book.take()
    assert (book.open_since, book.is_settled) == (104.0, False)
    book.leave(request)
    book.leave(request)
    assert (book.open_since, book.is_settled) == (None, True)


def test_latencies_of_good_answers_go_into_the_histogram() -> None:
    """One histogram per arm and lane, taken with the counts."""
    book = tallies()
    for took in (0.1, 0.1, 0.4):
        book.close(opened(book), Outcome.OK, 50.0 + took)
    book.close(opened(book), Outcome.FAILED, 51.0)
    _, (counts,) = book.take()
    assert (counts.role, counts.lane, sum(n for _, n in counts.bins)) == (Role.CANDIDATE, Lane.LIVE, 3)
    assert book.take() == ([], [])


def test_settled_when_nothing_is_open_or_waits() -> None:
    """Only then may an epoch be forgotten."""
    book = tallies()
    assert book.is_settled
    ticket = opened(book)
    assert not book.is_settled
    book.close(ticket, Outcome.OK, 51.0)
    assert not book.is_settled
    book.take()
    assert book.is_settled


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(Outcome)),
            st.floats(0.0, 3.0),
            st.sampled_from(["whole", "asked", "events", "both"]),
            st.integers(0, 1),
        ),
        max_size=20,
    ),
    st.lists(st.floats(50.0, 53.0), max_size=5),
)
def test_events_are_never_fewer_than_bad_events(
    ends: list[tuple[Outcome, float, str, int]], sweeps: list[float]
) -> None:
    """However requests end and sweeps fall, 0 <= bad <= n <= requests in every metric, and each outcome counts once."""
    book = Tallies(epoch=1, window_s=10.0, limits=LIMITS, stream_limits=(0.7, 0.1))
    waiting = []
    for outcome, took, kind, compiles in ends:
        ticket = book.open(Role.CANDIDATE, Lane.LIVE, 105.0, 50.0, asks_for_events=kind in ("asked", "both"))
        waiting.append((50.0 + took, ticket, outcome, kind in ("events", "both"), compiles))
    begins = [(50.0 + (w[0] - 50.0) * share, (w[1], share)) for w in waiting if w[3] for share in (0.3, 0.6, 0.9)]
    moments = sorted([(at, None) for at in sweeps] + begins + [(w[0], w) for w in waiting], key=lambda m: m[0])
    totals = [0] * len(Count)
    for at, end in moments:
        if end is None:
            book.sweep(at)
        elif len(end) == 2:
            ticket, share = end
            if share == 0.3:
                book.begin_stream(ticket, framed=True)
            else:
                book.took(ticket, b"data: x\n\n", at)
        else:
            book.close(end[1], end[2], at, at=160.0, compiles=end[4])
        for window in book.take()[0]:
            totals = [a + b for a, b in zip(totals, window.tally, strict=True)]
    for n, bad in zip((*LATENCY, *STREAM)[::2], (*LATENCY, *STREAM)[1::2], strict=True):
        assert 0 <= totals[bad] <= totals[n] <= len(ends)
    assert sum(totals[c] for c in Count if c <= Count.SHED) == len(ends)
    assert book.open_since is None
