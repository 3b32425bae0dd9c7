"""Ends, all at once, the waits for callers: a body that is still coming when the server leaves."""

import asyncio
from types import TracebackType

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
            # One whose own time is up in this very moment cannot be set again, and finds the reason when it ends.
            if not wait.expired():
                wait.reschedule(asyncio.get_running_loop().time())
        return len(self._waits)

    def heeded(self, within_s: float) -> "Wait":
        """Around a wait: raises Draining, with the reason, when the call comes, and TimeoutError after ``within_s``."""
        return Wait(self, within_s)

    def refusal(self) -> Draining | None:
        """For who comes after the call."""
        return None if self._reason is None else Draining(self._reason)

    def enter(self, wait: asyncio.Timeout) -> None:
        self._waits.add(wait)

    def leave(self, wait: asyncio.Timeout) -> None:
        self._waits.discard(wait)


class Wait:
    """One block of ``LastCall.heeded``."""

    def __init__(self, last_call: LastCall, within_s: float) -> None:
        self.within_s = within_s
        self._last_call = last_call
        self._timeout = asyncio.timeout(within_s)

    async def __aenter__(self) -> None:
        refusal = self._last_call.refusal()
        if refusal is not None:
            raise refusal
        await self._timeout.__aenter__()
        self._last_call.enter(self._timeout)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._last_call.leave(self._timeout)
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            refusal = self._last_call.refusal()
            if refusal is None:
                raise
            raise refusal from None
