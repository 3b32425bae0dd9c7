"""Fakes of the runtime's ports: each is steered by its attributes and records what it was told."""

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from server.core.batch import Batch
from server.core.lifecycle import Life
from server.core.signature import embedding
from server.core.types import Bucket, DeviceMemory, EngineFacts
from server.core.warmup import StabilityRule
from server.ports.worker import Run, Start, WorkerEvent


class FakeClock:
    """Stands still until ``now`` is set; tells ``on_read`` each time it is looked at."""

    def __init__(self) -> None:
        self.now = 100.0
        self.on_read: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        self.on_read()
        return self.now

    def wall(self) -> float:
        return self.now


class FakeTelemetry:
    """Keeps everything it is told."""

    def __init__(self) -> None:
        self.lives: list[Life] = []
        self.queue: list[int] = []
        self.batches: list[tuple[Batch, int]] = []
        self.failed: list[int] = []
        self.left: list[str] = []
        self.memory: list[DeviceMemory] = []

    def life_changed(self, life: Life) -> None:
        self.lives.append(life)

    def queue_changed(self, rows: int) -> None:
        self.queue.append(rows)

    def left_queue(self, why: str) -> None:
        self.left.append(why)

    def batch_done(self, batch: Batch, *, batch_s: float, device_s: float, compiles: int) -> None:
        self.batches.append((batch, compiles))

    def batch_failed(self, *, compiles: int) -> None:
        self.failed.append(compiles)

    def memory_changed(self, memory: DeviceMemory) -> None:
        self.memory.append(memory)

    def request_done(self, route: str, status: int, reason: str, seconds: float, queue_s: float | None) -> None: ...


class FakeLog:
    """Keeps events by name."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **fields: object) -> None:
        self.events.append((event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.events.append((event, fields))

    def error(self, event: str, **fields: object) -> None:
        self.events.append((event, fields))


class FakeLink:
    """A worker that says what the test makes it say. ``refuses`` makes the start fail."""

    def __init__(self) -> None:
        self.refuses: Exception | None = None
        self.receive: Callable[[WorkerEvent], None] = lambda event: None
        self.lost: Callable[[str], None] = lambda reason: None
        self.runs: list[Run] = []
        self.kills = 0
        self.on_kill: Callable[[], None] = lambda: None

    async def spawn(self, start: Start, receive: Callable[[WorkerEvent], None], lost: Callable[[str], None]) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.receive, self.lost = receive, lost

    def run(self, command: Run) -> None:
        self.runs.append(command)

    async def kill(self) -> None:
        self.kills += 1
        self.on_kill()


@pytest.fixture
def fakes() -> SimpleNamespace:
    """A clock, telemetry, log and link of one test."""
    return SimpleNamespace(clock=FakeClock(), telemetry=FakeTelemetry(), log=FakeLog(), link=FakeLink())


@pytest.fixture
def facts() -> EngineFacts:
    """A model of 100 tokens and vectors of two numbers."""
    return EngineFacts("rev", vocabulary=100, dim=2, max_length=512, compiled=True, emulated=False, torch="2.13.0",
                       signature=embedding(2))  # fmt: skip


@pytest.fixture
def start() -> Start:
    """Two buckets."""
    return Start(
        model_path="/model",
        sha256=None,
        device="cpu",
        emulator_allowed=False,
        dtype="float32",
        matmul_precision="highest",
        compile=None,
        threads=1,
        buckets=(Bucket(1, 4), Bucket(2, 4)),
        stability=StabilityRule(),
        cache_dir="/cache",
        front_pid=1,
    )
