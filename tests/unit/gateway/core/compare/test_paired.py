"""Paired latency: blocks, the interval, and that order and grouping do not matter."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.paired import PairedLatency, sign_test_rank

Pair = tuple[int, float, float, bool]


def stats_of(pairs: list[Pair], max_blocks: int = 4096) -> PairedLatency:
    stats = PairedLatency(max_blocks)
    for window, baseline, candidate, first in pairs:
        stats.add(window, baseline, candidate, candidate_first=first)
    return stats


def steady(blocks: int, ratio: float, each: int = 2) -> list[Pair]:
    return [(w, 0.1, 0.1 * ratio, i % 2 == 0) for w in range(blocks) for i in range(each)]


def test_a_constant_ratio_is_found() -> None:
    """Every pair twice as slow: the interval is that point."""
    found = stats_of(steady(10, 2.0)).interval()
    assert found is not None
    assert (found.blocks, found.coverage) == (10, 1 - 2 * (1 + 10) / 2**10)
    assert found.median == found.low == found.high == pytest.approx(2.0, rel=1e-6)
    assert found.first_place == pytest.approx(1.0)


def test_six_blocks_are_needed_for_95_percent() -> None:
    """With fewer even the whole range does not cover the median often enough."""
    assert stats_of(steady(5, 2.0)).interval() is None
    assert stats_of(steady(6, 2.0)).interval() is not None
    assert PairedLatency().interval() is None


def test_what_is_taken_and_added_elsewhere_is_the_same_as_counted_there() -> None:
    """Also when the taker had joined windows already; the taken-from begins anew."""
    pairs = [(w, 0.1, 0.1 * 2000 if w == 3 else 0.3, w % 3 == 0) for w in range(40)]
    for bound in (4, 4096):
        one, other = stats_of(pairs[:25]), stats_of(pairs[25:])
        total = PairedLatency(bound)
        for part in (one, other, PairedLatency()):
            total.add_blocks(*part.take())
        assert total.checkpoint() == stats_of(pairs, bound).checkpoint()
        assert one.pairs == one.clipped == 0
        assert one.take() == (0, [])


def test_blocks_that_were_joined_are_taken_by_their_first_window() -> None:
    """The sums stay; only the windows become coarser."""
    joined = stats_of(steady(8, 2.0), max_blocks=2)
    assert [block[:3] for block in joined.take()[1]] == [(0, 4, 4), (4, 4, 4)]
    assert joined.block_windows == 1


def test_a_window_before_the_epoch_is_refused() -> None:
    """As one pair at a time is."""
    with pytest.raises(ValueError, match="window: -1 must be 0 or more"):
        PairedLatency().add_blocks(0, [(-1, 1, 0, 1, 0)])


@pytest.mark.parametrize(("each", "group"), [(1, 4), (2, 2), (3, 2), (4, 1), (9, 1)])
def test_thin_blocks_are_joined_until_most_hold_both_orders(each: int, group: int) -> None:
    """Four pairs a block on average."""
    assert stats_of(steady(20, 2.0, each)).group() == group
    assert PairedLatency().group() == 1


@pytest.mark.parametrize(
    ("n", "rank", "coverage"),
    [
        (5, None, None),
        (6, 1, 0.96875),
        (8, 1, 0.9921875),
        (9, 2, 0.9609375),
        (20, 6, 0.958610534667969),
        (100, 40, 0.9648),
    ],
)
def test_ranks_are_those_of_the_sign_test(n: int, rank: int | None, coverage: float | None) -> None:
    """The tables' order statistics."""
    found = sign_test_rank(n, 0.95)
    if rank is None or coverage is None:
        assert found is None
    else:
        assert found is not None
        assert found[0] == rank
        assert found[1] == pytest.approx(coverage, abs=1e-4)


def test_the_interval_lies_between_order_statistics() -> None:
    """Of nine blocks the second smallest and the second largest, around the fifth."""
    ratios = [1.7, 1.1, 1.9, 1.3, 1.5, 1.2, 1.8, 1.4, 1.6]
    found = stats_of([(w, 0.1, 0.1 * r, first) for w, r in enumerate(ratios) for first in (True, False)]).interval()
    assert found is not None
    assert (found.low, found.median, found.high) == pytest.approx((1.2, 1.5, 1.8), rel=1e-5)


def test_the_place_in_the_order_cancels_out() -> None:
    """Whoever is sent second is half as slow again: equal arms look equal, and the effect has its own figure."""
    pairs: list[Pair] = []
    for window in range(8):
        # Three with the baseline first and one with the candidate first: unbalanced on purpose.
        pairs += [(window, 0.1, 0.15, False)] * 3 + [(window, 0.15, 0.1, True)]
    found = stats_of(pairs).interval()
    assert found is not None
    assert found.median == pytest.approx(1.0, abs=1e-6)
    assert found.first_place == pytest.approx(1.5, rel=1e-5)


def test_blocks_with_one_order_are_counted_and_not_used() -> None:
    """They cannot be balanced."""
    stats = stats_of([*steady(6, 1.0), (99, 0.1, 0.9, True), (99, 0.1, 0.9, True)])
    found = stats.interval()
    assert found is not None
    assert (stats.one_sided, found.blocks, stats.pairs) == (1, 6, 14)
    assert found.median == pytest.approx(1.0)


def test_the_block_is_the_unit_not_the_pair() -> None:
    """A thousand pairs of one bad window weigh as much as two of another."""
    bad = [(6, 0.1, 1.0, i % 2 == 0) for i in range(1000)]
    found = stats_of([*steady(6, 1.0), *bad]).interval()
    assert found is not None
    assert found.median == pytest.approx(1.0)
    assert found.blocks == 7
    assert found.high == pytest.approx(10.0, rel=1e-5)


def test_grouped_blocks() -> None:
    """Neighbours joined by three: a third as many, and wider when they differ."""
    pairs = [(w, 0.1, 0.1 * (2.0 if w % 3 == 0 else 1.0), first) for w in range(30) for first in (True, False)]
    found = stats_of(pairs).interval(group=3)
    assert found is not None
    assert found.blocks == 10
    assert found.median == pytest.approx(2 ** (1 / 3), rel=1e-5)


def test_a_ratio_is_bounded() -> None:
    """A stalled answer counts as a factor of 1000, and is counted."""
    stats = stats_of([(w, 1e-6, 1e6, i == 0) for w in range(6) for i in range(2)])
    found = stats.interval()
    assert found is not None
    assert stats.clipped == 12
    assert found.median == pytest.approx(1000.0, rel=1e-5)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_durations_are_positive_and_finite(value: float) -> None:
    """Anything else is named and refused, and nothing is counted."""
    stats = PairedLatency()
    with pytest.raises(ValueError, match="baseline_s: "):
        stats.add(0, value, 1.0, candidate_first=True)
    with pytest.raises(ValueError, match="candidate_s: "):
        stats.add(0, 1.0, value, candidate_first=True)
    with pytest.raises(ValueError, match="window: -1 must be 0 or more"):
        stats.add(-1, 1.0, 1.0, candidate_first=True)
    assert stats.pairs == 0


@pytest.mark.parametrize(
    ("confidence", "group", "field"), [(0.0, 1, "confidence"), (1.0, 1, "confidence"), (0.9, 0, "group")]
)
def test_questions_out_of_range(confidence: float, group: int, field: str) -> None:
    """Field, value, what is allowed."""
    with pytest.raises(ValueError, match=f"{field}: "):
        PairedLatency().interval(confidence, group)


def test_the_interval_keeps_its_promise_on_skewed_blocks() -> None:
    """Of 1,000 runs with 20 independent, skewed blocks at least 94 % cover the median."""
    draw = random.Random(11)
    covered = 0
    for _ in range(1000):
        stats = PairedLatency()
        for window in range(20):
            ratio = math.exp(draw.expovariate(1.0))
            for first in (True, False):
                stats.add(window, 0.1, 0.1 * ratio, candidate_first=first)
        found = stats.interval()
        assert found is not None
        covered += found.low <= 2.0 <= found.high
    assert 940 <= covered < 1000


def test_memory_is_bounded() -> None:
    """However many windows, as many blocks as allowed; no pair is lost."""
    stats = stats_of([(w, 0.1, 0.1, w % 3 == 0) for w in range(1000)], max_blocks=16)
    saved = stats.checkpoint()
    assert isinstance(saved["blocks"], list)
    assert len(saved["blocks"]) <= 16
    assert (stats.pairs, stats.block_windows) == (1000, 64)


pairs_ = st.lists(
    st.tuples(st.integers(0, 200), st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.booleans()), max_size=30
)


@given(pairs_, st.randoms(use_true_random=False), st.integers(0, 30), st.integers(1, 12))
def test_order_and_grouping_do_not_matter(pairs: list[Pair], chance: random.Random, at: int, max_blocks: int) -> None:
    """Shuffled, split, merged either way, and coarsened on the way: bit for bit the same."""
    whole = stats_of(pairs, max_blocks)
    shuffled = pairs.copy()
    chance.shuffle(shuffled)
    assert stats_of(shuffled, max_blocks).checkpoint() == whole.checkpoint()
    parts = [stats_of(shuffled[:at], max_blocks), stats_of(shuffled[at:], max_blocks)]
    for order in (parts, parts[::-1]):
        merged = PairedLatency(max_blocks)
        for part in order:
            merged.merge(part)
        assert merged.checkpoint() == whole.checkpoint()
        assert merged.interval(0.5) == whole.interval(0.5)


@given(pairs_)
def test_swapping_the_arms_inverts_the_ratio(pairs: list[Pair]) -> None:
    """Neither arm is privileged: the interval turns round."""
    there = stats_of(pairs).interval(0.5)
    back = stats_of([(w, c, b, not first) for w, b, c, first in pairs]).interval(0.5)
    assert (there is None) is (back is None)
    if there and back:
        assert there.low == pytest.approx(1 / back.high, rel=1e-5)
        assert there.median == pytest.approx(1 / back.median, rel=1e-5)


@given(pairs_, st.integers(1, 12))
def test_a_checkpoint_holds_everything(pairs: list[Pair], max_blocks: int) -> None:
    """Through JSON and back, and counting goes on as if nothing had happened."""
    stats = stats_of(pairs, max_blocks)
    again = PairedLatency.restore(json.loads(json.dumps(stats.checkpoint())))
    for side in (stats, again):
        side.add(777, 0.1, 0.2, candidate_first=True)
    assert again.checkpoint() == stats.checkpoint()


def test_foreign_checkpoints_and_bounds_are_refused() -> None:
    """More blocks than allowed, another bound, no room at all."""
    saved = stats_of(steady(3, 1.0)).checkpoint()
    with pytest.raises(ValueError, match="blocks: 3 at level 0, at most 2"):
        PairedLatency.restore({**saved, "max_blocks": 2})
    with pytest.raises(ValueError, match="must be equal"):
        PairedLatency(2).merge(PairedLatency(3))
    with pytest.raises(ValueError, match="max_blocks: 0"):
        PairedLatency(0)
