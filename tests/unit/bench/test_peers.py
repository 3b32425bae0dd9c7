import numpy as np
import pytest

from bench.counts import Minutes
from bench.outcome import Outcome
from bench.peers import Argo, Flagger, Kayenta, argo, flagger, is_high, kayenta

GOOD = ((300, 1), (300, 0), (130, 0))
SLOW = ((300, 30), (300, 0), (130, 0))
FAILING = ((300, 1), (300, 9), (130, 0))
DIFFERING = ((300, 1), (300, 0), (130, 13))
EMPTY = ((0, 0), (0, 0), (0, 0))

Rates = tuple[tuple[int, int], tuple[int, int], tuple[int, int]]


def seen(*rates: Rates) -> Minutes:
    return Minutes(
        rates=np.asarray(rates, dtype=np.int64),
        quantiles=np.full((len(rates), 2, 3), np.nan),
        errors=np.full((len(rates), 2), np.nan),
    )


def test_flagger_counts_failed_checks_over_the_whole_run() -> None:
    """Five bad minutes far apart are as bad as five in a row; the fifth rolls back."""
    scattered = [SLOW if minute % 4 == 3 else GOOD for minute in range(60)]
    assert flagger(seen(*scattered), Flagger()) == Outcome(rolled_back_at=1200, passed_at=780, metric="lat_p99")
    assert flagger(seen(*[FAILING] * 60), Flagger()) == Outcome(rolled_back_at=300, passed_at=None, metric="error")


def test_flagger_counts_a_minute_once_however_many_metrics_fail_in_it() -> None:
    """A failed check is a minute, not a metric."""
    both = (SLOW[0], FAILING[1], DIFFERING[2])
    assert flagger(seen(*[both] * 4, *[GOOD] * 9), Flagger()).rolled_back_at is None


def test_flagger_takes_a_missing_value_for_a_failure() -> None:
    """No traffic rolls back."""
    assert flagger(seen(*[EMPTY] * 10), Flagger()).rolled_back_at == 300


def test_flagger_promotes_after_enough_good_checks() -> None:
    """Ten good minutes pass; failed ones before that only delay it."""
    assert flagger(seen(*[GOOD] * 20), Flagger()) == Outcome(rolled_back_at=None, passed_at=600)
    assert flagger(seen(SLOW, SLOW, *[GOOD] * 20), Flagger()).passed_at == 720


def test_argo_counts_failures_metric_by_metric() -> None:
    """More than three failures of one metric roll back; failures of different metrics do not add up."""
    assert argo(seen(*[SLOW] * 10), Argo()) == Outcome(rolled_back_at=240, passed_at=None, metric="lat_p99")
    one_of_each = [GOOD, SLOW, GOOD, FAILING, GOOD, DIFFERING, GOOD, GOOD, GOOD, GOOD]
    assert argo(seen(*one_of_each), Argo()).passed_at == 600


def test_argo_looks_at_the_last_two_minutes() -> None:
    """One very bad minute fails the two measurements that see it."""
    assert argo(seen(GOOD, SLOW, GOOD, GOOD, SLOW, GOOD, GOOD), Argo()).rolled_back_at == 360
    assert argo(seen(GOOD, SLOW, GOOD, GOOD, GOOD, GOOD, GOOD), Argo()).rolled_back_at is None


def test_argo_takes_nothing_from_a_measurement_without_data() -> None:
    """No traffic neither fails a metric nor delays the end of the analysis."""
    assert argo(seen(*[EMPTY] * 10), Argo()) == Outcome(rolled_back_at=None, passed_at=600)


def test_a_shift_of_every_minute_is_high_and_none_is_not() -> None:
    """The interval of the shift must lie above a quarter of the shift itself."""
    rng = np.random.default_rng(1)
    baseline = 100.0 + rng.standard_normal(20)
    assert is_high(baseline + 10.0, baseline)
    assert not is_high(baseline[::-1], baseline)
    assert not is_high(baseline - 10.0, baseline)


def test_rare_and_few_minutes_are_not_high() -> None:
    """A rank test is blind to a metric that is bad in three minutes of twenty, and says nothing of a pair of values."""
    baseline = np.zeros(20)
    rare = np.where(np.arange(20) < 3, 0.2, 0.0)
    assert not is_high(rare, baseline)
    assert not is_high(np.asarray([5.0]), np.asarray([1.0]))
    assert not is_high(np.full(20, np.nan), baseline)


def test_the_interval_is_that_of_the_rank_sum_tables() -> None:
    """With ten minutes against ten the lower bound is the 19th smallest of the hundred differences."""
    baseline = np.zeros(10)
    ninety = np.repeat([0.0, 1.0], (1, 9))
    # One of ten candidate minutes without a shift makes 10 zero differences, two make 20: the bound is then 0.
    assert is_high(ninety, baseline)
    assert not is_high(np.repeat([0.0, 1.0], (2, 8)), baseline)


@pytest.mark.parametrize(("begins", "back_at"), [(0, 600), (10, 2400), (60, None)])
def test_kayenta_sees_a_shift_at_its_next_looks_and_passes_at_the_end(begins: int, back_at: int | None) -> None:
    """A shift from the tenth minute on is High only once most minutes show it; without one the last look passes."""
    rng = np.random.default_rng(2)
    quantiles = 100.0 + rng.standard_normal((60, 2, 3))
    quantiles[begins:, 1] += 50.0
    minutes = Minutes(rates=np.zeros((60, 3, 2), dtype=np.int64), quantiles=quantiles, errors=np.zeros((60, 2)))
    outcome = kayenta(minutes, Kayenta())
    assert outcome.rolled_back_at == back_at
    assert outcome.passed_at == (3600 if back_at is None else None)
