"""Pools and a clock that a test holds in its hand, for everything that runs above the connections."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.core.classify import Loss
from gateway.core.leg import Head, Outgoing, Owner, Patience
from gateway.core.snapshot import ArmSnapshot, Snapshot
from gateway.core.types import Role


@dataclass
class HandClock:
    """Both clocks stand still until the test moves them."""

    now: float = 1000.0
    epoch: float = 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> float:
        return self.epoch + self.now

    def step(self, seconds: float) -> None:
        self.now += seconds


class FakeLeg:
    """A leg that ends when the test says so. ``written`` is asked for as a real pool does: at the last moment."""

    def __init__(self, pool: "FakePool", request: Outgoing, patience: Patience, owner: Owner) -> None:
        self.pool = pool
        self.request = request
        self.patience = patience
        self.owner = owner
        self.fate: str | None = None
        self.paused = False
        self.is_written = False
        self.is_total_lifted = False
        self.fed: list[bytes] = []

    def write(self) -> None:
        """The connection is there. What may not be written is lost as stale."""
        if self.owner.may_write():
            self.is_written = True
            self.owner.on_written()
        else:
            self.lose(Loss.STALE)

    def answer(self, status: int = 200, body: bytes = b"{}", *, compiles: int = 0) -> None:
        self.head(status, length=len(body), compiles=compiles)
        self.body(body)
        self.complete()

    def head(
        self,
        status: int = 200,
        *,
        length: int | None = None,
        compiles: int = 0,
        events: bool = False,
        encoded: bool = False,
        compiled: tuple[str, ...] = (),
    ) -> None:
        content_type = "text/event-stream" if events else "application/json"
        self.owner.on_head(Head(status, [], content_type, length, compiles, events, encoded, compiled))

    def body(self, data: bytes) -> None:
        if self.fate is None:
            self.owner.on_body(data)

    def complete(self) -> None:
        if self.fate is None:
            self._end("complete")
            self.owner.on_complete()

    def lose(self, loss: Loss = Loss.RESET) -> None:
        if self.fate is None:
            self._end(str(loss))
            self.owner.on_lost(loss)

    def _end(self, fate: str) -> None:
        self.fate = fate
        self.pool.open.discard(self)

    # What the owner may do.

    def cancel(self) -> None:
        if self.fate is None:
            self._end("cancelled")

    def discard(self) -> None:
        if self.fate is None:
            self._end("discarded")

    def lift_total(self) -> None:
        self.is_total_lifted = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    async def feed(self, data: bytes, *, last: bool) -> bool:
        if self.fate is not None:
            return False
        self.fed.append(data)
        return True


@dataclass(eq=False)
class FakePool:
    """Writes every leg at once unless ``connected`` is False; then the test does."""

    arm: ArmSnapshot
    connected: bool = True
    legs: list[FakeLeg] = field(default_factory=list)
    open: set[FakeLeg] = field(default_factory=set)
    retired: bool = False
    rechecks: int = 0

    @property
    def in_flight(self) -> int:
        return len(self.open)

    @property
    def connections(self) -> int:
        return len(self.open)

    def send(self, request: Outgoing, patience: Patience, owner: Owner) -> FakeLeg:
        leg = FakeLeg(self, request, patience, owner)
        self.legs.append(leg)
        self.open.add(leg)
        if self.connected:
            leg.write()
        return leg

    def reconfigure(self, arm: ArmSnapshot) -> bool:
        same_place = (arm.host, arm.port) == (self.arm.host, self.arm.port)
        if same_place:
            self.arm = arm
        return same_place

    def recheck(self) -> None:
        self.rechecks += 1

    def retire(self) -> None:
        self.retired = True
        for leg in self.open:
            if not leg.is_written:
                asyncio.get_running_loop().call_soon(leg.lose, Loss.STALE)


def arm_of(role: Role, **changes: Any) -> ArmSnapshot:
    """An arm that is ready, roomy and patient."""
    values: dict[str, Any] = {
        "name": "gpu" if role is Role.BASELINE else "tpu",
        "role": role,
        "host": "127.0.0.1",
        "port": 1 if role is Role.BASELINE else 2,
        "base_path": "",
        "profile": "ours",
        "ready": True,
        "max_in_flight": 8,
        "max_connections": 8,
        "connect_s": 1.0,
        "first_byte_s": 10.0,
        "idle_s": 10.0,
        "total_s": 30.0,
        "keepalive_s": 60.0,
    }
    return ArmSnapshot(**{**values, **changes})


def snapshot_of(**changes: Any) -> Snapshot:
    """A judging snapshot of epoch 1; ``baseline`` and ``candidate`` are changes to the arms (None: no candidate)."""
    one = arm_of(Role.BASELINE, **changes.pop("baseline", {}))
    other = changes.pop("candidate", {})
    values: dict[str, Any] = {
        "version": 1,
        "epoch": 1,
        "run_id": "r1",
        "secret": b"secret",
        "window_s": 10.0,
        "weight": 10_000,
        "copies": 0,
        "reverse_copies": 0,
        "lat_limits_ms": (None, 500.0, None),
        "baseline": one,
        "candidate": None if other is None else arm_of(Role.CANDIDATE, **other),
        "candidate_was_ready": True,
        "model": "m",
        "key_header": None,
        "judging": True,
    }
    return Snapshot(**{**values, **changes})


Made = Callable[[ArmSnapshot], FakePool]
