import random

import pytest

from loadtest.tally import Histogram, Tally


def test_quantiles_within_two_percent() -> None:
    """Quantiles of many values are within 2 % of the exact ones and never above the largest."""
    draw = random.Random(1)
    values = sorted(draw.lognormvariate(3.0, 1.0) for _ in range(5000))
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    for q in (0.5, 0.95, 0.99):
        assert histogram.quantile(q) == pytest.approx(values[int(q * 5000) - 1], rel=0.021)
    assert histogram.quantile(1.0) == values[-1]


def test_no_values_no_quantile() -> None:
    """Nothing observed has no percentile, not zero."""
    assert Histogram().quantile(0.5) is None
    assert Histogram().view().max is None


def test_every_request_is_accounted_for() -> None:
    """Sent requests are in flight until answered or failed; arms and buckets add up to all answers."""
    tally = Tally()
    tally.planned = 4
    for late in (0.0, 0.01, 0.2):
        tally.started(late)
    tally.succeeded(10.0, arm="cpu", bucket="1x16", failover=False)
    tally.succeeded(20.0, arm="", bucket="", failover=True)
    assert tally.in_flight == 1
    tally.failed("status_500", "boom")
    stats = tally.stats(state="running", elapsed_s=1.0, seed=1, rate=3.0)
    assert (stats.in_flight, stats.answered, stats.failures, stats.late, stats.failovers) == (0, 2, 1, 1, 1)
    assert stats.sent_ratio == 0.75
    assert stats.failures_by_code == {"status_500": 1}
    assert {name: group.answered for name, group in stats.by_arm.items()} == {"cpu": 1, "none": 1}


def test_wrong_answers_are_counted_apart() -> None:
    """A wrong answer is no failure; the smallest cosine is kept."""
    tally = Tally()
    tally.compared_with_reference(0.999, wrong=False)
    tally.compared_with_reference(0.2, wrong=True)
    stats = tally.stats(state="done", elapsed_s=1.0, seed=1, rate=1.0)
    assert (stats.compared, stats.wrong_answers, stats.min_cosine, stats.failures) == (2, 1, 0.2, 0)


def test_moment_of_the_second_mix() -> None:
    """The statistics say when the second mix began, and nothing before it has."""
    tally = Tally()
    assert tally.stats(state="running", elapsed_s=1.0, seed=1, rate=1.0).switched_after_s is None
    tally.switched_after_s = 7.5
    assert tally.stats(state="running", elapsed_s=8.0, seed=1, rate=1.0).switched_after_s == 7.5
