import pytest

from gateway.core.types import Outcome, Role
from gateway.runtime.pulse import Pulse


def second(pulse: Pulse, at: float, *, baseline: tuple[int, int] = (0, 0), candidate: tuple[int, int] = (0, 0)) -> bool:
    """One second of (attempts, failed) for each arm, closed at ``at``."""
    for role, (attempts, failed) in ((Role.BASELINE, baseline), (Role.CANDIDATE, candidate)):
        for i in range(attempts):
            pulse.count(role, Outcome.FAILED if i < failed else Outcome.OK)
    return pulse.advance(at)


def test_three_seconds_of_a_sick_candidate_trip() -> None:
    """The candidate's score must have been at the threshold for three seconds on end."""
    pulse = Pulse(100.0)
    assert [second(pulse, 101.0 + i, candidate=(10, 10)) for i in range(3)] == [False, False, True]


def test_a_failure_now_and_then_does_not_trip() -> None:
    """Less than half failing never scores."""
    pulse = Pulse(100.0)
    assert not any(second(pulse, 101.0 + i, candidate=(10, 4)) for i in range(20))
    assert pulse.scores == (0.0, 0.0)


def test_a_shared_outage_does_not_trip() -> None:
    """When the baseline is as sick and nothing could be failed over, moving traffic would help nobody."""
    pulse = Pulse(100.0)
    assert not any(second(pulse, 101.0 + i, baseline=(10, 10), candidate=(10, 10)) for i in range(5))


def test_a_shared_outage_with_failovers_trips() -> None:
    """What the baseline could answer in the candidate's place shows whose outage it is."""
    pulse = Pulse(100.0)
    pulse.failed_over()
    assert second(pulse, 101.0, baseline=(10, 10), candidate=(10, 10))


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (Outcome.OK, (1, 0)),
        (Outcome.FAILED, (1, 1)),
        (Outcome.TIMED_OUT_BY_CLIENT_DEADLINE, (1, 1)),
        (Outcome.UNAVAILABLE, (1, 1)),
        (Outcome.REFUSED, (1, 0)),
        (Outcome.REFUSED_UNCHECKED, (1, 0)),
        (Outcome.CLIENT_FAULT, (1, 0)),
        (Outcome.CANCELLED, (0, 0)),
        (Outcome.SHED, (0, 0)),
    ],
)
def test_what_an_outcome_says_about_an_arm(outcome: Outcome, counts: tuple[int, int]) -> None:
    """Failures, cuts and absence are failed attempts; a cancelled request and a shed copy are none."""
    pulse = Pulse(100.0)
    pulse.count(Role.CANDIDATE, outcome)
    pulse.advance(101.0)
    assert pulse.take_seconds() == [(0, 0, *counts)]


def test_every_full_second_is_reported_once() -> None:
    """Seconds come in order, also those in which nothing happened or the worker was held up."""
    pulse = Pulse(100.0)
    pulse.count(Role.BASELINE, Outcome.OK)
    assert not pulse.advance(100.9)
    assert pulse.take_seconds() == []
    pulse.advance(103.2)
    assert pulse.take_seconds() == [(1, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)]
    assert pulse.take_seconds() == []


def test_failovers_are_remembered_for_ten_seconds() -> None:
    """The eleventh second forgets them."""
    pulse = Pulse(100.0)
    pulse.failed_over()
    pulse.advance(110.0)
    assert pulse.recent_failovers == 1
    pulse.advance(111.0)
    assert pulse.recent_failovers == 0


def test_a_new_epoch_starts_from_nothing() -> None:
    """Scores, seconds and failovers of the old epoch are gone."""
    pulse = Pulse(100.0)
    pulse.failed_over()
    second(pulse, 101.0, candidate=(10, 10))
    pulse.reset()
    assert (pulse.scores, pulse.recent_failovers, pulse.take_seconds()) == ((0.0, 0.0), 0, [])
    assert not second(pulse, 102.0, candidate=(10, 10))
