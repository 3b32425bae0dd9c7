"""First event, and gaps beyond a limit, from bytes that come in any pieces."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.pace import Pace

EVENT = b"data: x\n\n"


def paced(*pieces: tuple[float, bytes], limit_s: float | None = 0.1, framed: bool = True) -> Pace:
    pace = Pace(limit_s, framed=framed)
    for at, data in pieces:
        pace.took(data, at)
    return pace


def test_the_first_event_is_told_once() -> None:
    """Neither a head nor a comment nor half an event begins a stream."""
    pace = Pace(0.1, framed=True)
    told = [pace.took(data, 1.0) for data in (b": ping\n\n", b"event: go\n\n", b"data: x\n", b"\n", EVENT)]
    assert told == [False, False, False, True, False]


def test_gaps_are_between_events_and_beyond_the_limit_when_longer() -> None:
    """A gap as long as the limit is within it; a comment in between ends no gap."""
    pace = paced((1.0, EVENT), (1.05, EVENT), (1.15, EVENT), (1.2, b": ping\n\n"), (1.3, EVENT))
    assert (pace.gaps, pace.too_long) == (3, 1)


def test_slow_is_more_than_one_gap_in_twenty() -> None:
    """That is what a 95th percentile beyond the limit says."""
    calm = [(1.0 + i / 100, EVENT) for i in range(20)]
    assert not paced(*calm, (1.5, EVENT)).is_slow
    assert paced(*calm[1:], (1.5, EVENT)).is_slow
    assert not paced((1.0, EVENT)).is_slow


def test_events_that_come_together_have_no_gap() -> None:
    """Of a piece with several events only the first one was waited for."""
    pace = paced((1.0, EVENT * 2), (2.0, EVENT * 3))
    assert (pace.gaps, pace.too_long) == (4, 1)


def test_a_pause_of_the_reader_is_in_no_gap() -> None:
    """Nor is what had piled up meanwhile; the gap after it counts again."""
    pace = paced((1.0, EVENT), (1.05, EVENT))
    pace.excuse()
    pace.took(EVENT * 5, 60.0)
    assert (pace.gaps, pace.too_long) == (1, 0)
    pace.took(EVENT, 61.0)
    assert (pace.gaps, pace.too_long) == (2, 1)


def test_without_a_limit_no_gap_is_counted() -> None:
    """The first event is told all the same."""
    pace = Pace(None, framed=True)
    assert pace.took(EVENT, 1.0)
    pace.took(EVENT, 9.0)
    assert (pace.gaps, pace.too_long) == (0, 0)


def test_what_cannot_be_read_counts_piece_by_piece() -> None:
    """A compressed stream shows no events, so every piece is one."""
    pace = Pace(0.1, framed=False)
    assert pace.took(b"\x1f\x8b", 1.0)
    pace.took(b"\x00", 2.0)
    assert (pace.gaps, pace.too_long) == (1, 1)


LINES = st.lists(
    st.tuples(
        st.sampled_from([b"data: x", b"data:", b"data", b"datax: 1", b"dat", b": c", b"event: e", b"", b"", b"id: 1"]),
        st.sampled_from([b"\n", b"\r\n", b"\r"]),
    ),
    max_size=12,
)


@given(LINES, st.lists(st.integers(0, 120), max_size=8))
def test_any_cut_finds_the_same_events(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    """However lines end and pieces are cut, an event is a block with a field data before an empty line."""
    expected, has_data = 0, False
    raw = b"".join(text + end for text, end in lines)
    for line in raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")[:-1]:
        if not line:
            expected, has_data = expected + has_data, False
        elif line == b"data" or line.startswith(b"data:"):
            has_data = True
    pace = Pace(1e9, framed=True)
    edges = sorted({0, len(raw), *(min(cut, len(raw)) for cut in cuts)})
    for at, (start, stop) in enumerate(itertools.pairwise(edges)):
        pace.took(raw[start:stop], float(at))
    assert pace.gaps + pace.has_begun == expected


def test_a_line_without_end_is_not_kept() -> None:
    """A stream of one endless line holds no memory."""
    pace = Pace(0.1, framed=True)
    for _ in range(100):
        pace.took(b"x" * 10_000, 1.0)
    assert len(pace._line) <= 5
