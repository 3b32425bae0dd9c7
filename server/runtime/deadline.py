"""The moment at which a caller stops waiting, around whatever is awaited for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.core.types import DeadlinePassed
from server.ports.clock import Clock


@asynccontextmanager
async def until(deadline: float | None, clock: Clock) -> AsyncIterator[None]:
    """Cancels the block at ``deadline`` (seconds of ``clock``; None is never) and raises DeadlinePassed."""
    try:
        async with asyncio.timeout(None if deadline is None else max(0.0, deadline - clock.monotonic())):
            yield
    except TimeoutError:
        raise late() from None


def late() -> DeadlinePassed:
    return DeadlinePassed("deadline: the time that the caller named has passed")
