"""What is written to the store, in order, and never at the cost of anything that has to happen now.

Two kinds of writes. *Owed* ones (a rollback) are already routed; they are kept and tried until they are in. *Asked*
ones (a step up, a pause) are awaited by their caller and must be in before anything follows from them. One write is
under way at a time; a store that hangs holds up writes and nothing else.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.core.events import JournalEntry
from gateway.core.run import Rollout
from gateway.ports import Store, StoreUnavailable

log = logging.getLogger("gateway.ledger")

WRITE_WITHIN_S = 5.0
TRY_AGAIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Entry:
    """One state with its journal lines."""

    rollout: Rollout
    lines: Sequence[JournalEntry]
    at: float


class Ledger:
    """The only writer of rollout state. ``detail`` says how the last write went."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._owed: list[Entry] = []
        self._writing: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self.detail = "ok"

    @property
    def is_behind(self) -> bool:
        """Something that is routed is not written yet."""
        return bool(self._owed)

    def owe(self, entry: Entry) -> None:
        """Takes what is routed already; ``run`` writes it."""
        self._owed.append(entry)
        self._wake.set()

    async def write(self, entry: Entry) -> None:
        """Writes now, after everything owed. Raises StoreUnavailable; the write may then still end later."""
        await self.settle(WRITE_WITHIN_S)
        await self._write(entry, WRITE_WITHIN_S)

    async def settle(self, limit_s: float) -> None:
        """Writes everything owed, oldest first. Raises StoreUnavailable when that does not end within ``limit_s``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        while self._writing is not None or self._owed:
            if self._writing is not None:
                await self._await(self._writing, deadline - loop.time())
                continue
            await self._write(self._owed[0], deadline - loop.time())

    async def run(self) -> None:
        """Writes what is owed until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.settle(WRITE_WITHIN_S)
            except StoreUnavailable:
                await asyncio.sleep(TRY_AGAIN_S)
                self._wake.set()

    async def _write(self, entry: Entry, limit_s: float) -> None:
        if self._writing is not None:
            raise StoreUnavailable("the write before has not ended")
        self._writing = asyncio.ensure_future(self._store.save(entry.rollout, entry.lines, entry.at))
        self._writing.add_done_callback(lambda writing: self._ended(writing, entry))
        await self._await(self._writing, limit_s)

    async def _await(self, writing: "asyncio.Task[None]", limit_s: float) -> None:
        """Waits for a write without cancelling it: what has been handed to the store may still get there."""
        done, _ = await asyncio.wait((writing,), timeout=max(0.0, limit_s))
        if not done:
            self.detail = "the store does not answer"
            raise StoreUnavailable(self.detail)
        if (error := writing.exception()) is not None:
            raise error

    def _ended(self, writing: "asyncio.Task[None]", entry: Entry) -> None:
        """Also for a write that nobody waits for any more, so that what is in is not written twice."""
        self._writing = None
        error = None if writing.cancelled() else writing.exception()
        if error is None:
            self.detail = "ok"
            if self._owed and self._owed[0] is entry:
                self._owed.pop(0)
            return
        self.detail = str(error)
        log.error("store unavailable", extra={"fields": {"event": "store_unavailable", "detail": self.detail}})
