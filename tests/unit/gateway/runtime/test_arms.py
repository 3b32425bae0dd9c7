from fakes.arms import FakePool, snapshot_of

from gateway.core.snapshot import ArmSnapshot
from gateway.core.types import Lane, Role
from gateway.runtime.arms import Arms


class Made:
    """Pools in the order in which they were made."""

    def __init__(self) -> None:
        self.pools: list[FakePool] = []
        self.arms = Arms(self.make)

    def make(self, arm: ArmSnapshot) -> FakePool:
        self.pools.append(FakePool(arm))
        return self.pools[-1]


def test_each_arm_and_lane_has_a_pool_of_its_own() -> None:
    """A copy can never take a connection from a client."""
    made = Made()
    made.arms.apply(snapshot_of())
    pools = {id(made.arms.pool(role, lane)) for role in Role for lane in (Lane.LIVE, Lane.COPY)}
    assert len(pools) == len(made.pools) == 4


def test_a_snapshot_with_the_same_places_keeps_the_connections() -> None:
    """New limits reach the pools; what waits in them is asked again."""
    made = Made()
    made.arms.apply(snapshot_of())
    made.arms.apply(snapshot_of(version=2, candidate={"max_in_flight": 3}))
    assert len(made.pools) == 4
    assert {pool.arm.max_in_flight for pool in made.pools if pool.arm.role is Role.CANDIDATE} == {3}
    assert [pool.rechecks for pool in made.pools] == [2] * 4


def test_an_arm_that_moves_or_goes_retires_its_pools() -> None:
    """Pools of the old place take nothing more."""
    made = Made()
    made.arms.apply(snapshot_of())
    made.arms.apply(snapshot_of(version=2, candidate={"port": 9}))
    assert [pool.retired for pool in made.pools] == [False, False, True, True, False, False]
    made.arms.apply(snapshot_of(version=3, candidate=None))
    assert [pool.retired for pool in made.pools[2:]] == [True] * 4
    assert made.arms.in_flight(Role.CANDIDATE, Lane.LIVE) == made.arms.connections(Role.CANDIDATE) == 0


def test_retiring_everything() -> None:
    """At the end no pool is left."""
    made = Made()
    made.arms.apply(snapshot_of())
    made.arms.retire()
    assert all(pool.retired for pool in made.pools)
    assert made.arms.connections(Role.BASELINE) == 0
