"""Content codings, and bodies that are small until they are decoded."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wire.coding import CODINGS, BadCoding, Coding, Decoder, TooLong, accepted, encode

# A slow machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# gzip -n of "hello" and its zlib form, as other programs write them.
HELLO: dict[Coding, bytes] = {
    "gzip": bytes.fromhex("1f8b0800000000000003cb48cdc9c907008 6a6103605000000".replace(" ", "")),
    "deflate": bytes.fromhex("789ccb48cdc9c90700062c0215"),
}


def decoded(coding: Coding, *pieces: bytes, limit: int = 100) -> bytes:
    decoder = Decoder(coding, limit)
    for piece in pieces:
        decoder.feed(piece)
    return decoder.whole()


@pytest.mark.parametrize("coding", CODINGS)
def test_what_others_wrote_is_read(coding: Coding) -> None:
    """In one piece or byte by byte."""
    assert decoded(coding, HELLO[coding]) == b"hello"
    assert decoded(coding, *(HELLO[coding][at : at + 1] for at in range(len(HELLO[coding])))) == b"hello"


def test_others_read_what_is_written() -> None:
    """By Python's own readers."""
    assert gzip.decompress(encode("gzip", b"hello")) == b"hello"
    assert zlib.decompress(encode("deflate", b"hello")) == b"hello"


@pytest.mark.parametrize("coding", CODINGS)
def test_the_limit_is_of_what_is_decoded(coding: Coding) -> None:
    """The limit itself is allowed, one byte more is not."""
    assert len(decoded(coding, encode(coding, b"x" * 100))) == 100
    with pytest.raises(TooLong):
        decoded(coding, encode(coding, b"x" * 101))


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_is_given_up_where_it_passes_the_limit(coding: Coding) -> None:
    """A hundred megabytes in a hundred kilobytes take no more than the limit and a bit."""
    bomb = encode(coding, bytes(100_000_000))
    assert len(bomb) < 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLong):
            decoded(coding, bomb, limit=1_000_000)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("broken", ["nothing", "plain", "short", "longer", "again"])
def test_what_is_no_such_data_is_refused(coding: Coding, broken: str) -> None:
    """Empty, not encoded, cut off, and followed by something."""
    whole = HELLO[coding]
    raw = {"nothing": b"", "plain": b"{}", "short": whole[:-1], "longer": whole + b"x", "again": whole + whole}[broken]
    with pytest.raises(BadCoding):
        decoded(coding, raw)
    with pytest.raises(BadCoding):
        decoded(coding, *(raw[at : at + 1] for at in range(len(raw))))


@unhurried
@given(st.sampled_from(CODINGS), st.lists(st.binary(max_size=20), max_size=5))
def test_any_bytes_are_decoded_or_refused(coding: Coding, pieces: list[bytes]) -> None:
    """No other exception."""
    try:
        assert len(decoded(coding, *pieces, limit=50)) <= 50
    except (BadCoding, TooLong):
        pass


@pytest.mark.parametrize(
    ("header", "coding"),
    [
        ("", None),
        ("identity", None),
        ("br, zstd", None),
        ("*", None),
        ("gzip", "gzip"),
        ("x-gzip", "gzip"),
        ("deflate", "deflate"),
        ("gzip, deflate, br", "gzip"),
        ("deflate, gzip", "deflate"),
        ("gzip;q=0.5, deflate", "deflate"),
        ("GZIP ; q=0.5", "gzip"),
        ("gzip;q=0, deflate;q=0.0", None),
        ("gzip;q=x", None),
        ("gzip;q=nan", None),
        ("gzip;q=7", None),
        (";,;q=,", None),
    ],
)
def test_the_caller_says_what_it_likes(header: str, coding: Coding | None) -> None:
    """What is not named is not wanted."""
    assert accepted(header) == coding
