import itertools

import pytest

from loadtest.schedule import Gaps, arrivals


@pytest.mark.parametrize("gaps", ["exponential", "fixed"])
def test_rate_is_met(gaps: Gaps) -> None:
    """Arrivals rise, stay within the time and come at the rate that was asked for."""
    due = list(arrivals(rate=20.0, seconds=200.0, seed=1, gaps=gaps))
    assert len(due) == pytest.approx(4000, rel=0.05)
    assert all(a < b for a, b in itertools.pairwise(due))
    assert due[0] >= 0.0
    assert due[-1] < 200.0


def test_fixed_gaps_are_equal() -> None:
    """Fixed gaps are 1 / rate each and do not drift."""
    assert list(arrivals(rate=4.0, seconds=1.0, seed=9, gaps="fixed")) == [0.0, 0.25, 0.5, 0.75]


def test_exponential_gaps_vary_like_poisson() -> None:
    """Exponential gaps have a standard deviation as large as their mean."""
    due = list(arrivals(rate=10.0, seconds=500.0, seed=2, gaps="exponential"))
    gaps = [b - a for a, b in itertools.pairwise(due)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation / mean == pytest.approx(1.0, abs=0.1)


def test_seed_repeats() -> None:
    """One seed gives one schedule."""
    first, again, other = (list(arrivals(rate=5, seconds=20, seed=s, gaps="exponential")) for s in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize(("rate", "seconds", "name"), [(0.0, 1.0, "rate"), (1.0, 0.0, "seconds"), (-1, 1, "rate")])
def test_impossible_schedule(rate: float, seconds: float, name: str) -> None:
    """A rate or length of nothing is refused by name."""
    with pytest.raises(ValueError, match=name):
        next(arrivals(rate=rate, seconds=seconds, seed=1, gaps="fixed"))
