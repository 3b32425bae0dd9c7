"""The plan of the warm-up and its stability rule."""

import pytest

from server.core.types import Bucket
from server.core.warmup import StabilityRule, order

RULE = StabilityRule(stable_change=0.1, min_calls=3, max_calls=6)


def test_too_few_calls_are_never_enough() -> None:
    """Equal times do not help below the minimum."""
    assert not RULE.enough([1.0, 1.0])


def test_a_steady_median_is_enough() -> None:
    """One late outlier moves the mean, not the median."""
    assert RULE.enough([1.0, 1.0, 1.0])
    assert RULE.enough([1.0, 1.0, 1.0, 9.0])


def test_a_moving_median_is_not_enough() -> None:
    """Times that still fall by more than the rule allows go on."""
    assert not RULE.enough([9.0, 5.0, 1.0])


def test_the_cap_ends_a_warm_up_that_never_settles() -> None:
    """A noisy machine becomes ready all the same."""
    falling = [32.0, 16.0, 8.0, 4.0, 2.0, 1.0]
    assert not RULE.enough(falling[:5])
    assert RULE.enough(falling)


@pytest.mark.parametrize("change", [0.0, -0.1, 1.1])
def test_a_senseless_change_cannot_be_built(change: float) -> None:
    """The share lies above 0 and at most at 1."""
    with pytest.raises(ValueError, match="stable_change"):
        StabilityRule(stable_change=change)


@pytest.mark.parametrize(("least", "most"), [(1, 5), (6, 5)])
def test_senseless_call_counts_cannot_be_built(least: int, most: int) -> None:
    """A median that can move needs two calls, and the cap is not below the minimum."""
    with pytest.raises(ValueError, match="min_calls"):
        StabilityRule(min_calls=least, max_calls=most)


def test_the_largest_bucket_is_warmed_first() -> None:
    """What does not fit shows at once; every bucket is in the plan once."""
    buckets = [Bucket(1, 16), Bucket(8, 16), Bucket(1, 128), Bucket(8, 128)]
    planned = order(buckets)
    assert planned[0] == Bucket(8, 128)
    assert planned[-1] == Bucket(1, 16)
    assert sorted(planned) == sorted(buckets)
