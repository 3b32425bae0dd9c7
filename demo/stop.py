"""The wish to end: SIGINT, SIGTERM or SIGHUP, whenever it comes, also while nothing can be cancelled."""

import asyncio
import signal
from types import FrameType, TracebackType
from typing import Any, Final, Self

_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """Somebody asked to end."""


class Stop:
    """Heeds the signals while it is entered. Python runs its handlers in the main thread, in synchronous code too.

    ``check`` raises Interrupted once one has come; a task under ``cancels`` is cancelled as well.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: dict[signal.Signals, Any] = {}
        self._task: asyncio.Task[Any] | None = None

    def __enter__(self) -> Self:
        for number in _NUMBERS:
            self._before[number] = signal.signal(number, self._heard)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def cancels(self, task: asyncio.Task[Any] | None) -> None:
        """From now on a signal cancels ``task``; None: nothing. One that has come already does so at once."""
        self._task = task
        if self.asked and task is not None:
            task.cancel()

    def check(self) -> None:
        if self.asked:
            raise Interrupted

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self._task is not None:
            # The handler may run in the middle of anything, so the loop itself has to do it.
            self._task.get_loop().call_soon_threadsafe(self._task.cancel)
