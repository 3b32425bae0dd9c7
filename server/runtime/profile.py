"""One window of profiling at a time, on the line between supervisor and worker."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from server.core.lifecycle import Life
from server.ports.worker import Profile, Profiled, ProfileEnd, Run, Start, WorkerEvent, WorkerLink

# From the end of the window to the file: the worker finishes its batch and writes.
WRITE_S: Final = 60.0


class ProfileRefused(Exception):
    """Nothing was begun, or nothing came of it; the text is for people. ``busy``: another time it may be different."""

    def __init__(self, message: str, *, busy: bool) -> None:
        super().__init__(message)
        self.busy = busy


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a window left."""

    file: Path
    batches: int
    seconds: float
    size: int


class ProfileWindows:
    """A WorkerLink (see ports) that takes the worker's words about windows out of the line.

    ``next_file`` names the file of a window, or raises ProfileRefused.
    """

    def __init__(self, link: WorkerLink, life: Callable[[], Life], next_file: Callable[[], Path]) -> None:
        self._link = link
        self._life = life
        self._next_file = next_file
        self._number = 0
        self._waiting: asyncio.Future[Profiled] | None = None

    async def record(self, seconds: float) -> Recorded:
        """Records the batches of the next ``seconds``, or fewer where they are many. Raises ProfileRefused."""
        life = self._life()
        if not life.ready:
            raise ProfileRefused(f"server: {life.state}: allowed is a server that is ready", busy=True)
        if self._waiting is not None:
            raise ProfileRefused("profile: one is being recorded, allowed is one at a time", busy=True)
        file = self._next_file()
        self._number += 1
        number = self._number
        waiting = self._waiting = asyncio.get_running_loop().create_future()
        try:
            self._link.run(Profile(number, str(file)))
            await asyncio.wait({waiting}, timeout=seconds)
            self._link.run(ProfileEnd(number))
            await asyncio.wait({waiting}, timeout=WRITE_S)
            if not waiting.done():
                raise ProfileRefused(f"worker: wrote no profile within {WRITE_S:g} s", busy=False)
            return _recorded(file, waiting.result())
        finally:
            self._waiting = None
            if not waiting.done():
                # Whoever asked is gone: the worker must not go on recording.
                self._link.run(ProfileEnd(number))

    async def spawn(self, start: Start, receive: Callable[[WorkerEvent], None], lost: Callable[[str], None]) -> None:
        """See WorkerLink."""

        def hears(event: WorkerEvent) -> None:
            if isinstance(event, Profiled):
                self._ended(event)
            else:
                receive(event)

        def loses(reason: str) -> None:
            self._broken(reason)
            lost(reason)

        await self._link.spawn(start, hears, loses)

    def run(self, command: Run | Profile | ProfileEnd) -> None:
        """See WorkerLink."""
        self._link.run(command)

    async def kill(self) -> None:
        """See WorkerLink."""
        self._broken("it was ended")
        await self._link.kill()

    def _ended(self, event: Profiled) -> None:
        waiting = self._waiting
        if waiting is not None and event.number == self._number and not waiting.done():
            waiting.set_result(event)

    def _broken(self, reason: str) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ProfileRefused(f"worker: {reason}", busy=False))


def _recorded(file: Path, event: Profiled) -> Recorded:
    if event.error:
        raise ProfileRefused(f"profile: {event.error}", busy=False)
    return Recorded(file, event.batches, event.seconds, event.size)
