"""The connections to both arms, live and copies apart, following the routing snapshot."""

from collections.abc import Callable

from gateway.core.leg import Upstream
from gateway.core.snapshot import ArmSnapshot, Snapshot
from gateway.core.types import Lane, Role

MakePool = Callable[[ArmSnapshot], Upstream]


class Arms:
    """One pool per arm and lane, so that a copy never takes a connection from a client."""

    __slots__ = ("_make", "_pools")

    def __init__(self, make: MakePool) -> None:
        self._make = make
        self._pools: dict[tuple[Role, Lane], Upstream] = {}

    def apply(self, snapshot: Snapshot) -> None:
        """Point every pool at its arm. A pool whose arm has moved finishes what it has and takes nothing more."""
        for role, arm in ((Role.BASELINE, snapshot.baseline), (Role.CANDIDATE, snapshot.candidate)):
            for lane in (Lane.LIVE, Lane.COPY):
                self._follow(role, lane, arm)
        self.recheck()

    def _follow(self, role: Role, lane: Lane, arm: ArmSnapshot | None) -> None:
        pool = self._pools.get((role, lane))
        if pool is not None and (arm is None or not pool.reconfigure(arm)):
            del self._pools[role, lane]
            pool.retire()
            pool = None
        if pool is None and arm is not None:
            self._pools[role, lane] = self._make(arm)

    def pool(self, role: Role, lane: Lane) -> Upstream:
        """LookupError when there is no such arm."""
        return self._pools[role, lane]

    def in_flight(self, role: Role, *lanes: Lane) -> int:
        return sum(pool.in_flight for lane in lanes if (pool := self._pools.get((role, lane))) is not None)

    def connections(self, role: Role) -> int:
        return sum(pool.connections for (r, _), pool in self._pools.items() if r is role)

    def recheck(self) -> None:
        """Routing changed: what waits for a connection and must not be written any more ends now."""
        for pool in self._pools.values():
            pool.recheck()

    def retire(self) -> None:
        for pool in self._pools.values():
            pool.retire()
        self._pools.clear()
