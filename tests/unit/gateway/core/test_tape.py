"""Rows of a recording: what was told comes back as it was told, and foreign bytes are said to be that."""

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.evidence import ClosedWindow
from gateway.core.findings import BreakerCounts, Gap
from gateway.core.histogram import BINS
from gateway.core.keys import KeyCounts
from gateway.core.plan import MetricId
from gateway.core.tape import (
    MOST_BYTES,
    Began,
    Beside,
    Closed,
    Kept,
    Looked,
    Second,
    Stepped,
    Told,
    digest_of,
    pack,
    unpack,
)
from gateway.core.types import COUNTS, Count, Lane, Role, empty_tally

TERMS = {"weight_bp": 1000, "next_weight_bp": 5000, "window": 7, "now": 70.1, "control": True, "sticky": False}
TRIP = BreakerCounts(
    baseline=(9, 0), candidate=(10, 9), seconds=4, scores=(0.0, 8.0), bar=8.0, worker="w1", workers=2
)  # fmt: skip


def keys(*hashes: int) -> KeyCounts:
    found = KeyCounts()
    for each in hashes:
        found.add(each)
    return found


def as_values(told: Told) -> Any:
    """Key counts have no equality of their own; what they hold has."""
    if not isinstance(told, Closed):
        return told
    window = told.window
    counted = {role: (k.requests, k.hashes, k.heavy) for role, k in window.keys.items()}
    return (told.at, window.window, window.tallies, window.strata, counted, told.shapes, told.latencies)


tallies = st.dictionaries(
    st.tuples(st.sampled_from(Role), st.sampled_from(Lane)),
    st.lists(st.integers(-5, 10**9), min_size=COUNTS, max_size=COUNTS),
)
bins = st.dictionaries(st.integers(0, BINS - 1), st.integers(1, 10**6)).map(lambda found: tuple(sorted(found.items())))
stamps = st.integers(0, 2**46).map(lambda ms: ms / 1000)
windows = st.builds(
    ClosedWindow,
    st.integers(0, 2**40),
    tallies,
    st.lists(tallies, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(Role), st.lists(st.integers(0, 2**64 - 1)).map(lambda h: keys(*h))),
)
pairs = st.tuples(st.integers(0, 99), st.integers(0, 99))
gaps = st.builds(
    Gap,
    reason=st.just("noise_floor"),
    text=st.text(max_size=9),
    metric=st.none() | st.sampled_from(MetricId),
    stratum=st.none() | st.text(max_size=9),
)
everything = st.one_of(
    st.builds(
        Began,
        st.floats(0, 2**37),
        st.integers(0, 2**40),
        st.none() | st.text(max_size=16),
        st.dictionaries(st.text(max_size=9), st.floats(0, 1e6)),
    ),
    st.builds(Second, stamps, pairs, pairs, st.booleans()),
    st.builds(Closed, stamps, windows, st.lists(st.text(max_size=9)).map(tuple), bins),
    st.builds(Kept, st.text(max_size=16)),
    st.builds(Beside, stamps, st.lists(gaps, max_size=2).map(tuple)),
    st.floats(0, 2**37).flatmap(
        lambda at: st.sampled_from([Stepped(at, TERMS), Looked(at, "w1", TRIP), Looked(at), Looked(at, "w0")])
    ),
)


@given(st.lists(everything, max_size=8))
def test_what_is_told_comes_back_to_the_last_bit(told: list[Told]) -> None:
    """Times of looks and steps included: the judge's verdict depends on them."""
    assert [as_values(each) for each in unpack(pack(told))] == [as_values(each) for each in told]


def test_counts_go_by_name_so_that_a_new_one_moves_no_old_one() -> None:
    """A row names what it counts; a name that is not known is refused, not passed over."""
    tally = empty_tally()
    tally[Count.OK], tally[Count.PAIRS] = 3, 2
    row = pack([Closed(1.0, ClosedWindow(7, {(Role.CANDIDATE, Lane.COPY): tally}))])
    text = zlib.decompress(row).decode()
    assert '{"candidate copy":{"OK":3,"PAIRS":2}}' in text
    with pytest.raises(ValueError, match="TEA_POTS"):
        unpack(zlib.compress(text.replace("PAIRS", "TEA_POTS").encode()))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no zlib",
        pack([Kept("a")])[:-3],
        zlib.compress(b"[1]"),
        zlib.compress(b'[["kept"]]'),
        zlib.compress(b'[["sung", 1]]'),
        zlib.compress(b'[["second", 1, 2]]'),
        zlib.compress(b'{"a": 1}'),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b"\xff"),
        zlib.compress(b" " * (MOST_BYTES + 1)),
        zlib.compress(b'[["closed", 1, 1, {"nobody live": {}}, [], {}, [], []]]'),
        zlib.compress(b'[["closed", 1, 1, {"nobody": {}}, [], {}, [], []]]'),
        zlib.compress(b'[["closed", 1, Infinity, {}, [], {}, [], []]]'),
        zlib.compress(b'[["closed", 1, 1, [], [], {}, [], []]]'),
        zlib.compress(b'[["began", 1, 1, null, []]]'),
        zlib.compress(b'[["closed", 1, 1, {"baseline live": {"OK": 1e30}}, [], {}, [], []]]'),
        zlib.compress(b'[["closed", 1, 1, {}, [], {}, [], [5, 1, -9, 1]]]'),
        zlib.compress(b'[["looked", NaN, null, null]]'),
        zlib.compress(b'[["looked", 1e400, null, null]]'),
        zlib.compress(b'[["looked", -1, null, null]]'),
    ],
)
def test_foreign_bytes_are_one_error(data: bytes) -> None:
    """Whatever stands in the row."""
    with pytest.raises(ValueError):
        unpack(data)


@given(st.binary(max_size=200))
def test_any_bytes_unpack_or_raise_the_one_error(data: bytes) -> None:
    """Also behind a valid compression."""
    for row in (data, zlib.compress(data)):
        try:
            unpack(row)
        except ValueError:
            pass


def test_a_state_has_one_digest_before_and_after_it_was_stored() -> None:
    """Pairs become lists, and a number that JSON does not have becomes nothing."""
    state = {"a": [(1, 2.5)], "b": float("inf"), "c": {Role.CANDIDATE: 1}}
    stored = json.loads('{"a": [[1, 2.5]], "b": null, "c": {"candidate": 1}}')
    assert digest_of(state) == digest_of(stored)
    assert digest_of(state) != digest_of({**stored, "b": 1.0})
