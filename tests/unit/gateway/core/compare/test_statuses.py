"""Which statuses form a pair, and which decide it."""

import pytest

from gateway.core.compare.result import PairKind
from gateway.core.compare.statuses import compare_statuses, is_pair


@pytest.mark.parametrize(("baseline", "candidate"), [(200, 400), (200, 422), (404, 200), (204, 413)])
def test_success_beside_refusal_is_a_failed_pair(baseline: int, candidate: int) -> None:
    """2xx on one side and 4xx on the other differ, whichever side it is."""
    result = compare_statuses(baseline, candidate)
    assert result is not None
    assert (result.ok, result.kind) == (False, PairKind.STATUS)
    assert result.detail == f"status: baseline {baseline}, candidate {candidate}"


def test_two_successes_leave_it_to_the_bodies() -> None:
    """With 2xx on both sides the status decides nothing."""
    assert compare_statuses(200, 200) is None


@pytest.mark.parametrize(
    ("baseline", "candidate"), [(400, 400), (200, 500), (503, 200), (200, 429), (408, 200), (200, 302), (500, 500)]
)
def test_what_is_booked_elsewhere_makes_no_pair(baseline: int, candidate: int) -> None:
    """Failures and overload of an arm, and refusals by both, are no comparison of outputs."""
    assert not is_pair(baseline, candidate)
    with pytest.raises(ValueError, match=f"status: baseline {baseline}, candidate {candidate}"):
        compare_statuses(baseline, candidate)
