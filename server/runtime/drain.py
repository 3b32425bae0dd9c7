"""Leaving without dropping a request: not ready, a moment of lame duck, then close, finish and go."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from server.ports.telemetry import Log
from server.runtime.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class DrainRule:
    """``delay_s`` is how long requests are accepted after readiness fell; ``limit_s`` what finishing may take."""

    delay_s: float
    limit_s: float


class Listener(Protocol):
    """A port that accepts connections."""

    async def close(self, limit_s: float) -> None:
        """Accepts no more; returns when what was accepted is answered, at the latest after ``limit_s`` (at least 1)."""
        ...


async def drain(
    supervisor: Supervisor,
    data: Listener,
    admin: Listener,
    rule: DrainRule,
    hurry: asyncio.Event,
    log: Log,
    *,
    busy: Callable[[], bool],
) -> None:
    """Runs from the first signal to the end of the worker. ``hurry`` (a second signal) skips the waiting.

    A server that was never ready has no one to wait for and ends its worker at once.
    """
    served = supervisor.drain()
    log.info("draining", served=served, delay_s=rule.delay_s if served else 0.0)
    if served:
        await _unless(hurry, rule.delay_s)
        await data.close(0.0 if hurry.is_set() else rule.limit_s)
        if busy():
            log.error("drain_limit", detail="requests were cut off", limit_s=rule.limit_s)
        await supervisor.stop()
    else:
        await supervisor.stop()
        await data.close(0.0)
    await admin.close(0.0)
    log.info("stopped")


async def _unless(hurry: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await hurry.wait()
    except TimeoutError:
        pass
