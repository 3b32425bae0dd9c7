"""Honest in-memory stand-ins for the gateway's ports. Each says how to steer it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.core.events import JournalEntry
from gateway.core.run import Rollout, Run
from gateway.core.snapshot import ArmSnapshot, Snapshot, ToWorker
from gateway.core.types import Role
from gateway.ports import EvidenceRow, JournalLine, StoreUnavailable


@dataclass
class FakeClock:
    """Time stands still until ``advance``."""

    now: float = 1000.0

    def wall(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


@dataclass
class FakeStore:
    """State, journal and recording in lists. ``down = True`` makes every call raise StoreUnavailable."""

    down: bool = False
    rollout: Rollout = field(default_factory=Rollout)
    lines: list[JournalLine] = field(default_factory=list)
    saved: list[Rollout] = field(default_factory=list)
    judge: dict[str, Any] | None = None
    asked: int = 0
    """How often a line of a decision was asked for."""
    rows: list[EvidenceRow] = field(default_factory=list)

    def _check(self) -> None:
        if self.down:
            raise StoreUnavailable("the fake store is down")

    async def load(self) -> tuple[Rollout, dict[str, Any] | None]:
        self._check()
        return self.rollout, self.judge

    async def save(self, rollout: Rollout, lines: Sequence[JournalEntry], at: float) -> None:
        self._check()
        if rollout.epoch >= self.rollout.epoch:  # as the real one: what is late overwrites no newer epoch
            self.rollout = rollout
        self.saved.append(rollout)
        for line in lines:
            self.lines.append(
                JournalLine(
                    seq=len(self.lines) + 1,
                    at=at,
                    run_id=rollout.run.run_id if rollout.run else None,
                    epoch=rollout.epoch,
                    kind=line.kind,
                    who=line.who,
                    text=line.text,
                    data=line.data,
                )
            )

    async def checkpoint(self, epoch: int, state: dict[str, Any]) -> None:
        self._check()
        self.judge = state

    async def run(self, run_id: str) -> Run | None:
        self._check()
        runs = [rollout.run for rollout in self.saved if rollout.run is not None and rollout.run.run_id == run_id]
        return runs[-1] if runs else None

    async def record(self, rows: Sequence[EvidenceRow]) -> None:
        self._check()
        for row in rows:
            places = [(each.run_id, each.part, each.position) for each in self.rows]
            if (key := (row.run_id, row.part, row.position)) in places:
                self.rows[places.index(key)] = row
            else:
                self.rows.append(row)

    async def outline(self, run_id: str) -> tuple[int, list[EvidenceRow]]:
        self._check()
        mine = [row for row in self.rows if row.run_id == run_id]
        return len(mine), [row for row in mine if row.position == 0]

    async def tape(self, run_id: str, *, after: int, limit: int) -> list[tuple[int, EvidenceRow]]:
        self._check()
        mine = [(place, row) for place, row in enumerate(self.rows, 1) if row.run_id == run_id]
        return [each for each in mine if each[0] > after][:limit]

    async def history(self, *, limit: int, run_id: str | None) -> list[JournalLine]:
        self._check()
        return [line for line in self.lines if run_id in (None, line.run_id)][-limit:]

    async def decision(self, *, run_id: str, kinds: Sequence[str], newest: bool) -> JournalLine | None:
        self.asked += 1
        self._check()
        found = [line for line in self.lines if line.run_id == run_id and line.kind in kinds]
        return found[-1 if newest else 0] if found else None


@dataclass
class FakeWorker:
    """A worker link that keeps what it was sent."""

    name: str = "w0"
    sent: list[ToWorker] = field(default_factory=list)

    def send(self, message: ToWorker) -> None:
        self.sent.append(message)

    def last_snapshot(self) -> Snapshot:
        return next(m for m in reversed(self.sent) if isinstance(m, Snapshot))


def arm(role: Role, name: str, *, ready: bool = False) -> ArmSnapshot:
    """An arm with production-like limits."""
    return ArmSnapshot(
        name=name, role=role, host="127.0.0.1", port=8000 if role is Role.BASELINE else 8001, base_path="",
        profile="ours", ready=ready, max_in_flight=64, max_connections=16, connect_s=1.0, first_byte_s=5.0, idle_s=5.0,
        total_s=10.0, keepalive_s=5.0,
    )  # fmt: skip
