"""The circuit breaker: the vectors of the reference, and both arms together."""

import json
from typing import Any

import pytest
from decision_cases import VECTORS
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.breaker import Breaker, BreakerWatch, Pulse

SICK, FINE = (5, 5), (5, 0)


@pytest.mark.parametrize("vector", VECTORS["breaker"])
def test_score_and_trip(vector: dict[str, Any]) -> None:
    """Score after each second and the second in which one arm fires are those of the reference."""
    breaker = Breaker(threshold=vector["threshold"], hold_s=vector["hold_s"])
    fires_at = None
    for second, ((attempts, failed), score) in enumerate(zip(vector["seconds"], vector["score"], strict=True), start=1):
        assert breaker.second(attempts, failed) == score
        fires_at = second if fires_at is None and breaker.fires else fires_at
    assert fires_at == vector["fires_at_second"]


@pytest.mark.parametrize(("attempts", "failed"), [(1, 2), (0, 1), (3, -1)])
def test_impossible_counts_are_refused(attempts: int, failed: int) -> None:
    """Failures lie between none and all attempts."""
    with pytest.raises(ValueError, match=f"failed: {failed} must lie between 0 and the attempts"):
        Breaker().second(attempts, failed)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda s: (max(s), min(s) // 2)), max_size=40))
def test_an_arm_that_mostly_answers_never_trips(seconds: list[tuple[int, int]]) -> None:
    """While at most half of each second fails the score never leaves zero."""
    breaker = Breaker()
    for attempts, failed in seconds:
        assert breaker.second(attempts, failed) == 0.0


def test_seconds_without_attempts_change_nothing() -> None:
    """Silence is neither sickness nor recovery of the score."""
    breaker = Breaker()
    breaker.second(6, 6)
    assert breaker.second(0, 0) == 6.0


def pulses(*seconds: tuple[tuple[int, int], tuple[int, int]], failed_over: bool = False) -> list[Pulse]:
    watch = BreakerWatch()
    return [watch.second(baseline=b, candidate=c, failed_over_recently=failed_over) for b, c in seconds]


def test_a_sick_candidate_beside_a_healthy_baseline_is_taken_out_after_three_seconds() -> None:
    """The candidate alone at or above the threshold for three seconds on end."""
    assert pulses(*[(FINE, SICK)] * 5) == [Pulse.QUIET] * 3 + [Pulse.CANDIDATE_SICK] * 2


def test_a_candidate_that_recovers_in_time_stays() -> None:
    """Two sick seconds are not three."""
    assert Pulse.CANDIDATE_SICK not in pulses(*[(FINE, SICK)] * 3, (FINE, (9, 0)), (FINE, SICK))


def test_both_sick_is_a_shared_outage() -> None:
    """When both arms fail the candidate is not to blame."""
    assert pulses(*[(SICK, SICK)] * 4) == [Pulse.QUIET, *[Pulse.BOTH_SICK] * 3]


def test_both_sick_after_a_failover_is_the_candidates_fault() -> None:
    """Its failures are what loads the baseline: it is taken out at once."""
    assert pulses(*[(SICK, SICK)] * 2, failed_over=True) == [Pulse.QUIET, Pulse.CANDIDATE_SICK]


def test_the_seconds_of_a_shared_outage_do_not_count_against_the_candidate() -> None:
    """When the baseline recovers first, the candidate still gets its three seconds."""
    shared, alone = [(SICK, SICK)] * 4, [((500, 0), SICK)] * 3
    assert pulses(*shared, *alone)[4:] == [Pulse.QUIET, Pulse.QUIET, Pulse.CANDIDATE_SICK]


def test_a_sick_baseline_beside_a_healthy_candidate_is_no_reason_to_take_the_candidate_out() -> None:
    """Only the candidate can be rolled back."""
    assert pulses(*[(SICK, FINE)] * 6) == [Pulse.QUIET] * 6


def test_quiet_means_neither_arm_is_sick() -> None:
    """A watch is quiet exactly while both scores are below the threshold."""
    watch = BreakerWatch()
    assert watch.is_quiet
    watch.second(baseline=(10, 10), candidate=FINE, failed_over_recently=False)
    assert not watch.is_quiet


def test_a_checkpoint_goes_on_where_it_was_taken() -> None:
    """A candidate sick for two seconds is taken out in the third, restart or not."""
    first, second = BreakerWatch(), BreakerWatch()
    for _ in range(3):
        first.second(baseline=FINE, candidate=SICK, failed_over_recently=False)
    second.restore(json.loads(json.dumps(first.checkpoint())))
    assert second.checkpoint() == first.checkpoint()
    assert second.second(baseline=FINE, candidate=SICK, failed_over_recently=False) is Pulse.CANDIDATE_SICK


def test_a_broken_checkpoint_is_refused() -> None:
    """Fewer numbers than a breaker has are not a checkpoint."""
    with pytest.raises(ValueError, match="breaker: 2 numbers, must be 5"):
        BreakerWatch().restore([1.0, 2.0])
