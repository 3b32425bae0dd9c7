"""How much of an answer is JSON."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wire.framing import BadFrame, framed_type, json_part, media_type, pieces

# A slow machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

BINARY = "application/octet-stream"


def test_an_answer_is_cut_where_its_header_says() -> None:
    """The type says it, so a difference in framing is a difference of types; without the header nothing is cut."""
    assert framed_type(BINARY, " 2 ") == "application/octet-stream; inference-header-content-length=2"
    assert json_part(framed_type(BINARY, "2"), b"{}\x00\x01") == (b"{}", b"\x00\x01")
    assert json_part(framed_type(BINARY + "; a=b", "0"), b"x") == (b"", b"x")
    assert json_part(framed_type("", "1"), b"x") == (b"x", b"")
    assert json_part(BINARY, b"{}") is None


@pytest.mark.parametrize("value", ["", "-1", "1.0", "x", "5", "9" * 5000, "\u0663", "1; a=2"])
def test_a_length_that_does_not_fit_is_an_error(value: str) -> None:
    """More than there is, none at all, or no number in digits."""
    with pytest.raises(ValueError, match="allowed is a number of bytes up to the 4 of the body"):
        json_part(framed_type(BINARY, value), b"{}ab")


def test_media_types() -> None:
    """Without parameters and in lower case."""
    assert media_type("Application/JSON; charset=utf-8") == "application/json"
    assert media_type(framed_type(BINARY, "2")) == BINARY


def test_tensors_are_taken_in_their_order() -> None:
    """Those whose data is in the JSON take no bytes; a size of 0 is an empty tensor."""
    found = pieces([2, None, 0, 1], b"abc")
    assert [None if each is None else bytes(each) for each in found] == [b"ab", None, b"", b"c"]


@pytest.mark.parametrize("sizes", [[], [2], [4], [-1, 4], [True, 2], ["3"], [3.0], [None], [1 << 90]])
def test_sizes_that_do_not_add_up_are_refused(sizes: list[object]) -> None:
    """Too few, left-over bytes, and what is no number of bytes."""
    with pytest.raises(BadFrame):
        pieces(sizes, b"abc")


@unhurried
@given(st.lists(st.none() | st.integers(-2, 9) | st.booleans() | st.text(max_size=2)), st.binary(max_size=20))
def test_any_sizes_fit_or_are_refused(sizes: list[object], binary: bytes) -> None:
    """No other exception, and no byte is given twice or lost."""
    try:
        found = pieces(sizes, binary)
    except BadFrame:
        return
    assert b"".join(each for each in found if each is not None) == binary
