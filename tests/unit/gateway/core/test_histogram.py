"""Latency histograms: accuracy, order, conservation."""

import itertools
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.histogram import ACCURACY, BINS, LONGEST, SHORTEST, Histogram, bin_of, value_of

durations = st.floats(min_value=SHORTEST, max_value=LONGEST)
samples = st.lists(durations, max_size=60)


def filled(values: list[float]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    return histogram


@settings(max_examples=200)
@given(durations)
def test_a_bin_stands_for_its_durations_within_one_percent(seconds: float) -> None:
    """The value of a duration's bin differs from the duration by at most one percent."""
    assert value_of(bin_of(seconds)) == pytest.approx(seconds, rel=ACCURACY * (1 + 1e-9))


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 1e-9, SHORTEST, math.nextafter(SHORTEST, 1), math.nan])
def test_too_short_falls_into_the_first_bin(seconds: float) -> None:
    """What is shorter than the shortest bin, or no duration at all, is counted in the first bin."""
    assert bin_of(seconds) == 0


@pytest.mark.parametrize("seconds", [math.nextafter(LONGEST, 0), LONGEST, 1e6, math.inf])
def test_too_long_falls_into_the_last_bin(seconds: float) -> None:
    """What is longer than the longest bin is counted in the last bin."""
    assert bin_of(seconds) == BINS - 1


@given(durations, durations)
def test_longer_never_falls_into_an_earlier_bin(a: float, b: float) -> None:
    """Bins rise with the duration."""
    assert bin_of(min(a, b)) <= bin_of(max(a, b))


def test_values_of_bins_rise() -> None:
    """Every bin stands for a longer duration than the bin before it."""
    values = [value_of(b) for b in range(BINS)]
    assert all(a < b for a, b in itertools.pairwise(values))


@pytest.mark.parametrize("bin_", [-1, BINS])
def test_a_bin_that_does_not_exist_is_refused(bin_: int) -> None:
    """Unknown bins are named with the allowed range, in reading and in adding."""
    with pytest.raises(ValueError, match=f"bin: {bin_} must lie between 0 and {BINS - 1}"):
        value_of(bin_)
    with pytest.raises(ValueError, match=f"bin: {bin_} must lie between"):
        Histogram().add_bin(bin_, 1)


def test_a_negative_count_is_refused() -> None:
    """Counts only grow."""
    with pytest.raises(ValueError, match="count: -1 must be 0 or more"):
        Histogram().add_bin(3, -1)


@given(samples, samples, samples)
@settings(max_examples=50)
def test_the_order_of_merging_changes_nothing(a: list[float], b: list[float], c: list[float]) -> None:
    """Merging three histograms in either order gives the histogram of all durations."""
    left, right = filled(a), filled(c)
    left.merge(filled(b))
    left.merge(filled(c))
    right.merge(filled(b))
    right.merge(filled(a))
    assert left.bins() == right.bins() == filled([*a, *b, *c]).bins()


@given(samples)
def test_take_hands_over_everything_once(values: list[float]) -> None:
    """What take gives builds the same histogram elsewhere, and leaves nothing behind."""
    histogram = filled(values)
    before = histogram.bins()
    taken = histogram.take()
    assert taken == before
    assert sum(count for _, count in taken) == len(values)
    assert (histogram.count, histogram.take()) == (0, [])
    assert Histogram(taken).bins() == before


def test_an_empty_histogram_has_no_quantile() -> None:
    """Nothing counted gives no percentile, not zero."""
    assert Histogram().quantile(0.5) is None


def test_adding_zero_counts_leaves_it_empty() -> None:
    """A bin with no count is no bin."""
    histogram = Histogram([(5, 0)])
    assert (histogram.bins(), histogram.quantile(1.0)) == ([], None)


@given(st.lists(durations, min_size=1, max_size=80), st.floats(min_value=0.0, max_value=1.0))
@settings(max_examples=100)
def test_quantiles_are_those_of_the_durations(values: list[float], q: float) -> None:
    """A quantile is the nearest-rank quantile of the raw durations within one percent."""
    rank = max(1, math.ceil(q * len(values)))
    expected = sorted(values)[rank - 1]
    assert filled(values).quantile(q) == pytest.approx(expected, rel=ACCURACY * (1 + 1e-9))


def test_percentiles_of_a_known_mixture() -> None:
    """One slow request in a hundred moves p99 only beyond its rank."""
    draw = random.Random(7)
    values = [0.010] * 990 + [1.0] * 10
    draw.shuffle(values)
    histogram = filled(values)
    assert histogram.quantile(0.99) == pytest.approx(0.010, rel=0.01)
    assert histogram.quantile(0.991) == pytest.approx(1.0, rel=0.01)


@pytest.mark.parametrize("q", [-0.1, 1.1])
def test_a_quantile_outside_zero_to_one_is_refused(q: float) -> None:
    """The share is named with its allowed range."""
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        Histogram([(1, 1)]).quantile(q)
