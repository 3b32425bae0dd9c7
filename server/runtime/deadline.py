"""The moment at which a caller stops waiting, around whatever is awaited for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from server.core.types import DeadlinePassed, Phase
from server.ports.clock import Clock


@asynccontextmanager
async def until(deadline: float | None, clock: Clock, phase: Callable[[], Phase]) -> AsyncIterator[None]:
    """Cancels the block at ``deadline`` (seconds of ``clock``; None is never) and raises DeadlinePassed.

    ``phase`` is asked at that moment.
    """
    try:
        async with asyncio.timeout(None if deadline is None else max(0.0, deadline - clock.monotonic())):
            yield
    except TimeoutError:
        raise DeadlinePassed(phase()) from None
