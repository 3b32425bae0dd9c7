"""The shared nouns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.types import COUNTS, OUTCOME_COUNT, Count, Outcome, Role, empty_tally, window_of


def test_each_role_has_another() -> None:
    """Baseline and candidate are one another's other."""
    assert Role.BASELINE.other is Role.CANDIDATE
    assert Role.CANDIDATE.other is Role.BASELINE


def test_every_outcome_is_counted_in_a_place_of_its_own() -> None:
    """No two outcomes share a count, and none has no count."""
    assert set(OUTCOME_COUNT) == set(Outcome)
    assert len(set(OUTCOME_COUNT.values())) == len(Outcome)


def test_counts_index_a_tally_without_holes() -> None:
    """Every count is an index of a tally, and every index a count."""
    assert sorted(Count) == list(range(COUNTS))
    assert empty_tally() == [0] * COUNTS


def test_tallies_are_not_shared() -> None:
    """Adding to one empty tally leaves the next one empty."""
    empty_tally()[Count.OK] += 1
    assert empty_tally()[Count.OK] == 0


@pytest.mark.parametrize(
    ("wall", "width", "window"),
    [(0.0, 10.0, 0), (9.999, 10.0, 0), (10.0, 10.0, 1), (1_700_000_005.5, 1.0, 1_700_000_005)],
)
def test_window_of_known_times(wall: float, width: float, window: int) -> None:
    """A window begins at a multiple of its width and ends before the next."""
    assert window_of(wall, width) == window


@given(st.floats(min_value=0, max_value=4e9), st.sampled_from([1.0, 10.0]))
def test_a_time_lies_in_its_window(wall: float, width: float) -> None:
    """Start of the window <= time < start of the next."""
    window = window_of(wall, width)
    assert window * width <= wall < (window + 1) * width
