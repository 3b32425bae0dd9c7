"""A caller that leaves while its request is worked on.

HTTP servers do not cancel an application whose client is gone. ASGI's way to notice is to receive once more, in a task
of its own for every request; the connection knows it, and its word costs nothing.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

T = TypeVar("T")
EXTENSION: Final = "canary.leaving"


class CallerGone(Exception):
    """The connection was closed by the other side: there is nobody to answer."""


class Leaving:
    """Of one request. The connection calls ``tell``; whoever works for the caller works ``unless_gone``."""

    def __init__(self) -> None:
        self._gone = False
        self._working: asyncio.Task[Any] | None = None

    @classmethod
    def of(cls, scope: Mapping[str, Any]) -> "Leaving":
        """What the connection put there; one that is never told where another server runs the application."""
        found = (scope.get("extensions") or {}).get(EXTENSION)
        return found if isinstance(found, cls) else cls()

    def is_gone(self) -> bool:
        return self._gone

    def tell(self) -> None:
        self._gone = True
        if self._working is not None:
            self._working.cancel()

    async def unless_gone(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work``, which is cancelled when the caller leaves before it. Raises CallerGone."""
        if self.is_gone():
            work.close()
            raise CallerGone
        working = self._working = asyncio.current_task()
        assert working is not None, "a coroutine runs in a task"
        try:
            return await work
        except asyncio.CancelledError:
            # Whoever else cancelled this task is not to be kept from it.
            if self.is_gone() and working.uncancel() == 0:
                raise CallerGone from None
            raise
        finally:
            self._working = None
