from typing import Any

import pytest

from demo.sizing import size

SHARES = {"1x16": 0.75, "1x128": 0.25}
LARGEST = {"cpu": "8x128", "tpu": "8x128"}


def test_limit_and_rate_follow_the_slower_arm(make: Any) -> None:
    """L is ten times the slower median of the largest bucket, the rate a quarter of the slower arm's capacity."""
    sized = size({"cpu": make.health(0.01), "tpu": make.health(0.02)}, shares=SHARES, largest=LARGEST)
    assert sized.limit_ms == 4000.0
    assert sized.slower == "tpu"
    # One request in four takes 80 ms, the others 20 ms: 35 ms on average.
    assert sized.capacity["tpu"] == pytest.approx(1 / 0.035)
    assert sized.rate == pytest.approx(0.25 / 0.035, abs=0.01)


def test_limit_takes_the_slower_arm_of_the_largest_bucket(make: Any) -> None:
    """The arm that is slower in the largest bucket sets L, whoever is slower on the mix."""
    tables = {"cpu": make.health(0.01), "tpu": make.health(0.001)}
    assert size(tables, shares=SHARES, largest=LARGEST).limit_ms == 2000.0


def test_missing_median_is_named(make: Any) -> None:
    """A bucket without a measured median stops the demo by arm and name."""
    with pytest.raises(ValueError, match="tpu: warm-up reported no warm median for bucket 1x64"):
        size({"tpu": make.health()}, shares={"1x64": 1.0}, largest=LARGEST)
    with pytest.raises(ValueError, match=r"cpu: .* 1x16"):
        size({"cpu": make.health(0.0)}, shares={"1x16": 1.0}, largest=LARGEST)


def test_several_texts_count_by_their_length_alone(make: Any) -> None:
    """The rate is predicted from batch-1 medians, whatever batches the texts come in."""
    arms = {"cpu": make.health(0.01)}
    alone = size(arms, shares={"1x16": 1.0}, largest=LARGEST)
    assert size(arms, shares={"1x16": 0.5, "4x16": 0.5}, largest=LARGEST).rate == alone.rate


def test_each_arm_has_a_largest_bucket_of_its_own(make: Any) -> None:
    """An arm that declares less is measured by the largest that it has."""
    arms = {"cpu": make.health(0.001), "tpu": make.health(0.02)}
    sized = size(arms, shares={"1x16": 1.0}, largest={"cpu": "8x128", "tpu": "1x128"})
    assert sized.limit_ms == 800.0
