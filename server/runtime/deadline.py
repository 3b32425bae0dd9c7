"""The moment at which a caller stops waiting, around whatever is awaited for it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

from server.core.types import DeadlinePassed, Phase
from server.ports.clock import Clock

_FOR_EVER: Final = nullcontext()


def until(deadline: float | None, clock: Clock, phase: Callable[[], Phase]) -> AbstractAsyncContextManager[None]:
    """Cancels the block at ``deadline`` (seconds of ``clock``; None is never) and raises DeadlinePassed.

    ``phase`` is asked at that moment.
    """
    return _FOR_EVER if deadline is None else _limited(deadline, clock, phase)


@asynccontextmanager
async def _limited(deadline: float, clock: Clock, phase: Callable[[], Phase]) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(max(0.0, deadline - clock.monotonic())):
            yield
    except TimeoutError:
        raise DeadlinePassed(phase()) from None
