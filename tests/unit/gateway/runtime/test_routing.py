import pytest
from fakes.arms import arm_of, snapshot_of

from gateway.core.effects import Standing
from gateway.core.types import Lane, Role
from gateway.runtime.routing import Routing

LIVE, COPY = Lane.LIVE, Lane.COPY
BASELINE, CANDIDATE = arm_of(Role.BASELINE), arm_of(Role.CANDIDATE)


def routed(**changes: object) -> Routing:
    routing = Routing()
    routing.apply(snapshot_of(**changes))
    return routing


def test_before_the_first_snapshot_nothing_may_be_written() -> None:
    """A worker without routing sends nothing anywhere."""
    assert not Routing().may_write(0, BASELINE, LIVE)


@pytest.mark.parametrize(
    "changes",
    [{"epoch": 2}, {"weight": 0}, {"judging": False}, {"candidate": None}],
)
def test_old_requests_may_not_be_written_to_the_candidate(changes: dict[str, object]) -> None:
    """From the moment a snapshot holds, no live request taken in before a rollback goes to the candidate."""
    routing = routed()
    assert routing.may_write(1, CANDIDATE, LIVE)
    routing.apply(snapshot_of(version=2, **changes))
    assert not routing.may_write(1, CANDIDATE, LIVE)
    assert routing.may_write(1, BASELINE, LIVE)


def test_copies_obey_their_own_share() -> None:
    """In a shadow step copies may be written and live requests may not; without a share it is the other way."""
    shadowing = routed(weight=0, copies=500)
    assert (shadowing.may_write(1, CANDIDATE, COPY), shadowing.may_write(1, CANDIDATE, LIVE)) == (True, False)
    stepping = routed(weight=100, copies=0)
    assert (stepping.may_write(1, CANDIDATE, COPY), stepping.may_write(1, CANDIDATE, LIVE)) == (False, True)


def test_a_tripped_breaker_lasts_until_the_next_epoch() -> None:
    """Another version of the same epoch does not let the candidate back in."""
    routing = routed()
    routing.tripped = True
    assert routing.candidate_standing(0) is Standing.TRIPPED
    assert not routing.may_write(1, CANDIDATE, LIVE)
    assert routing.apply(snapshot_of(version=2)) is False
    assert routing.tripped
    assert routing.apply(snapshot_of(version=3, epoch=2)) is True
    assert routing.candidate_standing(0) is Standing.ABLE


@pytest.mark.parametrize(
    ("changes", "in_flight", "standing"),
    [
        ({}, 7, Standing.ABLE),
        ({}, 8, Standing.FULL),
        ({"candidate": {"ready": False}}, 0, Standing.UNREADY),
        ({"candidate": {"ready": False}, "candidate_was_ready": False}, 0, Standing.ABSENT),
        ({"candidate": None}, 0, Standing.ABSENT),
        ({"judging": False}, 0, Standing.ABSENT),
    ],
)
def test_standing_of_the_candidate(changes: dict[str, object], in_flight: int, standing: Standing) -> None:
    """Absent is nobody's fault; unready after having been ready, tripped and full are the candidate's."""
    assert routed(**changes).candidate_standing(in_flight) is standing


def test_standing_of_the_baseline() -> None:
    """Below its limit or not; readiness only says whether it is to be bothered with copies."""
    assert routed().baseline_standing(7) is Standing.ABLE
    assert routed().baseline_standing(8) is Standing.FULL
    assert routed(baseline={"ready": False}).baseline_standing(0) is Standing.ABLE
    assert [routed(baseline={"ready": ready}).baseline_is_ready for ready in (True, False)] == [True, False]


def test_an_arm_that_lost_its_role_gets_nothing_more_in_it() -> None:
    """Roles swapped, an arm moved: it is the arm that counts, not the role it was sent to."""
    routing = routed(baseline={"name": "tpu", "port": 2}, candidate={"name": "gpu", "port": 1})
    assert routing.may_write(1, arm_of(Role.BASELINE, name="tpu", port=2), LIVE)
    assert not routing.may_write(1, BASELINE, LIVE)
    assert not routing.may_write(1, BASELINE, COPY)
    assert not routing.may_write(1, CANDIDATE, LIVE)
    assert not routed(baseline={"port": 9}).may_write(1, BASELINE, LIVE)


def test_the_baseline_was_ready_once_is_remembered() -> None:
    """A passing outage of the baseline does not take the gateway out of its service."""
    routing = routed(baseline={"ready": False})
    assert not routing.baseline_was_ready
    routing.apply(snapshot_of(version=2))
    routing.apply(snapshot_of(version=3, baseline={"ready": False}))
    assert routing.baseline_was_ready


def test_limits_are_prepared_in_seconds() -> None:
    """Milliseconds of the plan become seconds once, not per request."""
    route = routed(lat_limits_ms=(100.0, None, 2500.0)).route
    assert route is not None
    assert (route.limits, route.slowest_limit_s) == ((0.1, None, 2.5), 2.5)
    assert routed(lat_limits_ms=(None, None, None)).route.slowest_limit_s == 0.0  # type: ignore[union-attr]  # applied above


def test_the_limits_on_streams_are_prepared_too() -> None:
    """The wait for a first event may be the longest that the plan calls in time."""
    route = routed(stream_limits_ms=(2500.0, 80.0)).route
    assert route is not None
    assert (route.stream_limits, route.slowest_limit_s) == ((2.5, 0.08), 2.5)
