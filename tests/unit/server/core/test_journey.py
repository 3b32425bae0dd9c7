"""The steps of a way follow one another, whatever is said of them."""

import pytest

from server.core.journey import Journey, Shared
from server.core.types import Bucket

SHARED = Shared(7, Bucket(2, 4), requests=2, rows=2, padding=0.5)


def test_each_step_ends_where_the_next_begins() -> None:
    """And the last one where the request does, with the reason that it ended the way for."""
    journey = Journey()
    journey.enters("tokenise", 1.0)
    journey.enters("queue", 2.0)
    journey.ends(5.0, "deadline")
    journey.ends(6.0, "late")
    assert [(step.leg, step.began, step.ended, step.why) for step in journey.steps] == [
        ("tokenise", 1.0, 2.0, ""),
        ("queue", 2.0, 5.0, "deadline"),
    ]


@pytest.mark.parametrize(
    ("began", "device"),
    [(3.25, (3.25, 3.75)), (0.0, (3.5, 4.0)), (99.0, (3.5, 4.0)), (1.0, (3.0, 3.5))],
    ids=["told", "not told", "after the end", "before the batch"],
)
def test_the_devices_part_lies_inside_its_batch(began: float, device: tuple[float, float]) -> None:
    """Clocks of two processes may differ; a span outside its parent helps nobody."""
    journey = Journey()
    journey.enters("batch", 3.0, SHARED)
    journey.ran(4.0, began, 0.5, compiles=1)
    (step,) = journey.steps
    assert (step.device, step.ended, step.compiles, step.batch) == (device, 4.0, 1, SHARED)


def test_a_batch_that_ran_longer_than_it_was_away_fills_it() -> None:
    """The device's time is the worker's word, too."""
    journey = Journey()
    journey.enters("batch", 3.0, SHARED)
    journey.ran(4.0, 0.0, 5.0, compiles=0)
    assert journey.steps[0].device == (3.0, 4.0)


def test_what_ran_after_its_request_was_over_is_not_noted() -> None:
    """The caller left, or its deadline passed, while the batch was on the device."""
    journey = Journey()
    journey.enters("batch", 3.0, SHARED)
    journey.ends(3.5, "caller_gone")
    journey.ran(4.0, 3.1, 0.5, compiles=0)
    assert (journey.steps[0].ended, journey.steps[0].device) == (3.5, None)
