"""Distinct keys and the heaviest one's count: bounded, mergeable, and on the safe side of the truth."""

import json
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.keys import MOST_HEAVY, MOST_KEYS, KeyCounts, resume_keys

STREAMS = st.lists(st.lists(st.integers(0, 90), max_size=400), min_size=1, max_size=4)


def counted(stream: Iterable[int]) -> KeyCounts:
    counts = KeyCounts()
    for key in stream:
        counts.add(key)
    return counts


def merged(parts: Iterable[KeyCounts]) -> KeyCounts:
    total = KeyCounts()
    for part in parts:
        total.merge(part.requests, part.hashes, part.heavy.items())
    return total


def assert_within_bound(counts: KeyCounts, truth: Counter[int]) -> None:
    n = truth.total()
    assert counts.requests == n
    assert len(counts.heavy) <= MOST_HEAVY
    for key, true in truth.items():
        assert true - n / (MOST_HEAVY + 1) <= counts.heavy.get(key, 0) <= true
    least, most = counts.heaviest
    assert least <= max(truth.values(), default=0) <= most <= least + n / (MOST_HEAVY + 1)


@given(STREAMS)
def test_counters_never_say_more_than_there_was_and_little_less(streams: list[list[int]]) -> None:
    """Whatever the order and however the requests were spread over workers; distinct keys are exact."""
    parts = [counted(stream) for stream in streams]
    for part, stream in zip(parts, streams, strict=True):
        assert_within_bound(part, Counter(stream))
    truth = Counter(key for stream in streams for key in stream)
    total = merged(parts)
    assert_within_bound(total, truth)
    assert total.hashes == set(truth)


def test_few_keys_are_counted_exactly() -> None:
    """As many keys as there are counters."""
    counts = counted(key for key in range(MOST_HEAVY) for _ in range(key + 1))
    assert counts.heaviest == (MOST_HEAVY, MOST_HEAVY)
    assert not counts.is_full
    assert counted(range(MOST_HEAVY + 1)).heaviest == (0, 1)


@pytest.mark.parametrize("order", ["first", "last", "between"])
def test_a_heavy_key_is_found_among_keys_that_come_once(order: str) -> None:
    """A third of the requests, hidden before, behind or between strangers made to empty the counters."""
    heavy, strangers = [1] * 5000, list(range(10, 10_010))
    stream = {
        "first": heavy + strangers,
        "last": strangers + heavy,
        "between": [key for i in range(5000) for key in (strangers[2 * i], 1, strangers[2 * i + 1])],
    }[order]
    counts = counted(stream)
    least, most = counts.heaviest
    assert 5000 - 15_000 / (MOST_HEAVY + 1) <= least <= 5000 <= most
    assert max(counts.heavy, key=lambda key: counts.heavy[key]) == 1


def test_a_flood_of_keys_takes_no_more_memory_than_the_bounds() -> None:
    """Beyond them there are at least so many; a merge does not exceed them either."""
    parts = [counted(range(start, start + 5 * MOST_KEYS)) for start in (0, 10_000)]
    for counts in (*parts, merged(parts)):
        assert (len(counts.hashes), counts.is_full) == (MOST_KEYS, True)
        assert len(counts.heavy) <= MOST_HEAVY
    assert merged(parts).requests == 10 * MOST_KEYS


def test_a_key_that_two_workers_saw_is_one_key() -> None:
    """Its requests add up."""
    total = merged([counted([1, 1, 2]), counted([1, 3])])
    assert (total.hashes, total.heaviest, total.requests) == ({1, 2, 3}, (3, 3), 5)


def test_a_checkpoint_gives_the_same_counts() -> None:
    """Through JSON, with hashes of all 64 bits."""
    counts = counted([2**64 - 1, 2**64 - 1, *range(100)])
    again = resume_keys(json.loads(json.dumps(counts.checkpoint())))
    assert (again.requests, again.hashes, again.heavy) == (counts.requests, counts.hashes, counts.heavy)
