"""Leaving without dropping a request: not ready, a moment of lame duck, then close, finish and go."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from server.core.lifecycle import State
from server.ports.telemetry import Log
from server.runtime.last_call import LastCall
from server.runtime.supervisor import Supervisor

# Before the limit: time for the refusals to leave.
NOTICE_S = 0.5
LEAVING = "server: stopping, the time to finish has passed"


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
    bodies: LastCall,
) -> bool:
    """Runs from the first signal to the end of the worker. ``hurry`` (a second signal) skips the waiting.

    A server that serves nobody has no one to wait for and ends its worker at once. Who still waits for the device, or
    for the rest of its body, when the limit or a second signal comes is refused in words; only who is stuck elsewhere,
    as in reading its answer, is cut off. False when somebody who was served was let down in either way, or the worker
    was lost.
    """
    served = supervisor.drain()
    log.info("draining", served=served, delay_s=rule.delay_s if served else 0.0)
    kept = True
    if served:
        await _unless(hurry, rule.delay_s)
        refused, cut_off = await _close(supervisor, data, rule.limit_s, hurry, bodies)
        if refused or cut_off:
            log.error(
                "drain_limit",
                detail="requests were refused or cut off",
                requests=refused + cut_off,
                cut_off=cut_off,
                limit_s=rule.limit_s,
            )
        kept = not refused and not cut_off and supervisor.life.state is not State.FAILED
        await supervisor.stop()
    else:
        await supervisor.stop()
        bodies.call(LEAVING)
        await data.close(0.0)
    await admin.close(0.0)
    log.info("stopped")
    return kept


async def _close(
    supervisor: Supervisor, data: Listener, limit_s: float, hurry: asyncio.Event, bodies: LastCall
) -> tuple[int, int]:
    """How many were refused at the end of the wait, and how many were cut off."""
    closing = asyncio.create_task(data.close(limit_s), name="close")
    hurried = asyncio.create_task(hurry.wait(), name="hurry")
    try:
        notice_s = limit_s - min(NOTICE_S, limit_s / 2)
        await asyncio.wait({closing, hurried}, timeout=notice_s, return_when=asyncio.FIRST_COMPLETED)
        refused = 0 if closing.done() else supervisor.give_up_waiting(LEAVING) + bodies.call(LEAVING)
        await asyncio.wait({closing, hurried}, return_when=asyncio.FIRST_COMPLETED)
        if hurried.done():
            data.hurry()
        return refused, await closing
    finally:
        closing.cancel()
        hurried.cancel()


async def _unless(hurry: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await hurry.wait()
    except TimeoutError:
        pass
