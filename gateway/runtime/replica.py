"""One replica seen from its control process: the data workers, the routing snapshot and who acknowledged it."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.core.snapshot import Ack, Report, Snapshot
from gateway.ports import Clock, WorkerLink

SILENT_AFTER_S = 10.0
"""A worker without word for this long keeps its weight but counts as silent: no advance, not live."""


@dataclass(slots=True)
class Worker:
    """``sent`` and ``acknowledged`` are snapshot versions."""

    link: WorkerLink
    pid: int
    heard_at: float
    acknowledged: int = 0
    in_flight: tuple[int, int] = (0, 0)
    breaker: tuple[float, float] = (0.0, 0.0)


@dataclass(slots=True)
class Replica:
    """Publishes snapshots with a rising version and waits for their acknowledgement."""

    clock: Clock
    snapshot: Snapshot
    workers: dict[str, Worker] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def attach(self, link: WorkerLink, pid: int) -> None:
        """A worker is up: it gets the present snapshot at once."""
        self.workers[link.name] = Worker(link, pid, self.clock.monotonic())
        self.seen.add(link.name)
        link.send(self.snapshot)

    def detach(self, name: str) -> None:
        """A worker is gone; nothing waits for its acknowledgement any more."""
        if self.workers.pop(name, None) is not None:
            self._wake()

    def acknowledge(self, ack: Ack) -> None:
        """A worker follows a snapshot from here on."""
        if worker := self.workers.get(ack.name):
            worker.acknowledged = max(worker.acknowledged, ack.version)
            worker.heard_at = self.clock.monotonic()
            self._wake()

    def heard(self, report: Report) -> None:
        """A worker's report is also its heartbeat."""
        if worker := self.workers.get(report.name):
            worker.heard_at = self.clock.monotonic()
            worker.in_flight, worker.breaker = report.in_flight, report.breaker

    def publish(self, **changes: Any) -> int:
        """Replaces the snapshot and tells every worker. Returns the version to wait for."""
        following = replace(self.snapshot, **changes)
        if following == self.snapshot:
            return self.snapshot.version
        self.snapshot = replace(following, version=self.snapshot.version + 1)
        for worker in self.workers.values():
            worker.link.send(self.snapshot)
        return self.snapshot.version

    async def acknowledged(self, version: int, timeout_s: float) -> tuple[list[str], list[str]]:
        """Waits until every live worker follows ``version``: (names that do, names that do not in time)."""
        deadline = self.clock.monotonic() + timeout_s
        while missing := [n for n, w in self.workers.items() if w.acknowledged < version]:
            self._changed.clear()
            left = deadline - self.clock.monotonic()
            if left <= 0:
                return sorted(set(self.workers) - set(missing)), missing
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                continue
        return sorted(self.workers), []

    def silent(self) -> list[str]:
        """Workers that said nothing for ten seconds."""
        now = self.clock.monotonic()
        return [n for n, w in self.workers.items() if now - w.heard_at > SILENT_AFTER_S]

    def missing(self) -> list[str]:
        """Workers that were there and are not: between death and restart, or given up."""
        return sorted(self.seen - set(self.workers))

    def routed(self) -> bool:
        """Every worker has a routing snapshot."""
        return bool(self.workers) and all(w.acknowledged > 0 for w in self.workers.values())

    def _wake(self) -> None:
        self._changed.set()
