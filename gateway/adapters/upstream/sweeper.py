"""One timer for all time-outs of all pools: it sleeps until the earliest is due."""

import asyncio
from typing import Final, Protocol

FOREVER: Final = float("inf")


class Monotonic(Protocol):
    def monotonic(self) -> float: ...


class Swept(Protocol):
    def sweep(self, now: float) -> float:
        """End what is overdue; when the next time-out falls."""
        ...


class Sweeper:
    """Times are monotonic seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Monotonic) -> None:
        self._loop = loop
        self.clock = clock
        self._pools: set[Swept] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = FOREVER

    def watch(self, pool: Swept) -> None:
        self._pools.add(pool)

    def forget(self, pool: Swept) -> None:
        self._pools.discard(pool)

    def due(self, at: float) -> None:
        """Something is due at monotonic time ``at``."""
        if at < self._due - 0.001:
            if self._timer is not None:
                self._timer.cancel()
            self._due = at
            self._timer = self._loop.call_later(max(at - self.clock.monotonic(), 0.001), self._sweep)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._due = None, FOREVER

    def _sweep(self) -> None:
        self._timer, self._due = None, FOREVER
        now = self.clock.monotonic() + 0.0005
        following = min([pool.sweep(now) for pool in tuple(self._pools)], default=FOREVER)
        if following < FOREVER:
            self.due(following)
