"""Ends, all at once, the waits for callers: a body that is still coming when the server leaves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from server.core.types import Draining


class LastCall:
    """Who waits for its caller waits inside ``heeded``; ``call`` refuses them, and whoever comes later."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Timeout] = set()
        self._reason: str | None = None

    def call(self, reason: str) -> int:
        """How many were waiting."""
        self._reason = reason
        for wait in self._waits:
            wait.reschedule(asyncio.get_running_loop().time())
        return len(self._waits)

    @asynccontextmanager
    async def heeded(self) -> AsyncIterator[None]:
        """Raises Draining, with the reason, inside a block that is being waited in."""
        if self._reason is not None:
            raise Draining(self._reason)
        try:
            async with asyncio.timeout(None) as wait:
                self._waits.add(wait)
                try:
                    yield
                finally:
                    self._waits.discard(wait)
        except TimeoutError:
            raise Draining(self._reason or "server: stopping") from None
