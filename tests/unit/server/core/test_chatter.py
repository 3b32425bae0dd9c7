"""Lines and their number are bounded, whatever comes."""

from hypothesis import given
from hypothesis import strategies as st

from server.core.chatter import Allowance, Lines


@given(st.lists(st.binary(max_size=40)))
def test_lines_come_whole_however_they_are_cut(pieces: list[bytes]) -> None:
    """As if all of it had come at once; what is white space alone is no line."""
    lines = Lines(most=10)
    found = [line for piece in pieces for line in lines.feed(piece)] + lines.end()
    assert found == [line[:10] for line in b"".join(pieces).split(b"\n") if line[:10].strip()]


@given(st.lists(st.binary(min_size=1, max_size=40).filter(lambda piece: b"\n" not in piece)))
def test_a_line_without_end_costs_no_memory(pieces: list[bytes]) -> None:
    """Beyond what is shown of it nothing is kept."""
    lines = Lines(most=10)
    for piece in pieces:
        assert lines.feed(piece) == []
        assert len(lines._rest) <= 11


def test_an_allowance_fills_up_again_and_counts_what_it_refused() -> None:
    """Never above its burst."""
    allowance = Allowance(burst=2, per_s=1.0)
    assert [allowance.take(5.0) for _ in range(4)] == [True, True, False, False]
    assert (allowance.left_out(), allowance.left_out()) == (2, 0)
    assert [allowance.take(6.0), allowance.take(6.0)] == [True, False]
    assert [allowance.take(1000.0) for _ in range(3)] == [True, True, False]
