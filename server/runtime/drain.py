"""Leaving without dropping a request: not ready, a moment of lame duck, then close, finish and go."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from server.core.lifecycle import State
from server.ports.telemetry import Log
from server.runtime.supervisor import Supervisor


@dataclass(frozen=True, slots=True)
class DrainRule:
    """``delay_s`` is how long requests are accepted after readiness fell; ``limit_s`` what finishing may take."""

    delay_s: float
    limit_s: float


class Listener(Protocol):
    """A port that accepts connections."""

    async def close(self, limit_s: float) -> int:
        """Accepts no more; returns when what was accepted is answered, at the latest after ``limit_s`` (at least 1).

        The answer is how many requests were cut off.
        """
        ...

    def hurry(self) -> None:
        """Ends the waiting of ``close``, now or later."""
        ...


async def drain(
    supervisor: Supervisor,
    data: Listener,
    admin: Listener,
    rule: DrainRule,
    hurry: asyncio.Event,
    log: Log,
) -> bool:
    """Runs from the first signal to the end of the worker. ``hurry`` (a second signal) skips the waiting.

    A server that was never ready has no one to wait for and ends its worker at once. False when somebody who was
    served was let down: requests were cut off, or the worker was lost on the way.
    """
    served = supervisor.drain()
    log.info("draining", served=served, delay_s=rule.delay_s if served else 0.0)
    kept = True
    if served:
        await _unless(hurry, rule.delay_s)
        cut_off = await _close(data, rule.limit_s, hurry)
        if cut_off:
            log.error("drain_limit", detail="requests were cut off", requests=cut_off, limit_s=rule.limit_s)
        kept = cut_off == 0 and supervisor.life.state is not State.FAILED
        await supervisor.stop()
    else:
        await supervisor.stop()
        await data.close(0.0)
    await admin.close(0.0)
    log.info("stopped")
    return kept


async def _close(data: Listener, limit_s: float, hurry: asyncio.Event) -> int:
    hurrying = asyncio.create_task(_hurry(data, hurry), name="hurry")
    try:
        return await data.close(limit_s)
    finally:
        hurrying.cancel()


async def _hurry(data: Listener, hurry: asyncio.Event) -> None:
    await hurry.wait()
    data.hurry()


async def _unless(hurry: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await hurry.wait()
    except TimeoutError:
        pass
