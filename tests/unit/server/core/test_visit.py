"""What a request met on its way."""

import pytest

from server.core.types import Bucket
from server.core.visit import Compiles, Visit


def test_compiles_add_up_and_name_each_bucket_once() -> None:
    """The newest last; a batch that compiled nothing names nothing."""
    met = Compiles().plus(0, Bucket(1, 4)).plus(1, Bucket(2, 8)).plus(2, Bucket(1, 8)).plus(1, Bucket(2, 8))
    assert met == Compiles(4, (Bucket(1, 8), Bucket(2, 8)))


MET = Compiles(6, tuple(Bucket(1, length) for length in range(1, 7)))


@pytest.mark.parametrize(
    ("own", "named"),
    [
        (Bucket(1, 1), [1, 6, 5, 4]),
        (Bucket(1, 6), [6, 5, 4, 3]),
        (Bucket(9, 9), [6, 5, 4, 3]),
        (None, [6, 5, 4, 3]),
    ],
)
def test_its_own_bucket_and_the_newest_are_named(own: Bucket | None, named: list[int]) -> None:
    """Each once, at most as many as asked; its own only if it was compiled."""
    assert MET.named(own, 4) == tuple(Bucket(1, length) for length in named)
    assert len(MET.named(own, 9)) == 6


def test_a_visit_that_met_nothing_says_so() -> None:
    """And waits for ever unless told otherwise."""
    assert Visit(1.0) == Visit(1.0, None, Compiles(0, ()))


def test_the_shortest_time_that_a_caller_names_is_its_deadline() -> None:
    """Named in a header and again in the body; either may be missing."""
    visit = Visit(arrived=10.0, deadline=11.0)
    visit.within(2000)
    assert visit.deadline == 11.0
    visit.within(0.5)
    assert visit.deadline == 10.0005
    open_end = Visit(arrived=10.0)
    open_end.within(2000)
    assert open_end.deadline == 12.0
