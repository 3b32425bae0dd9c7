"""How much of an answer is JSON."""

import pytest

from wire.framing import framed_type, json_part, media_type

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
