"""Counts in the form of Triton's statistics extension, taken from what telemetry is told on its way to the metrics."""

from dataclasses import dataclass, field
from typing import Literal

from server.core.batch import Batch
from server.core.lifecycle import Life
from server.core.types import DeviceMemory
from server.ports.clock import Clock
from server.ports.telemetry import Telemetry
from wire.statistics import BatchStatistics, Duration, InferStatistics, ModelStatistics


@dataclass(slots=True)
class _Sum:
    """How often, and how many seconds."""

    count: int = 0
    seconds: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        self.count += count
        self.seconds += seconds * count

    def wire(self) -> Duration:
        return Duration(self.count, round(self.seconds * 1e9))


@dataclass(slots=True)
class _Compute:
    """A batch's time: on the device, and on the way there and back, of which the parts are not told apart."""

    way: _Sum = field(default_factory=_Sum)
    device: _Sum = field(default_factory=_Sum)

    def add(self, batch_s: float, device_s: float, count: int = 1) -> None:
        self.way.add(max(0.0, batch_s - device_s), count)
        self.device.add(device_s, count)


class Statistics:
    """A Telemetry (see ports) that passes everything on to the next one. Requests for other models are not counted."""

    def __init__(self, following: Telemetry, clock: Clock) -> None:
        self._following = following
        self._clock = clock
        self._last = 0
        self._rows = 0
        self._batches = 0
        self._success, self._fail, self._queue = _Sum(), _Sum(), _Sum()
        self._compute = _Compute()
        self._by_rows: dict[int, _Compute] = {}

    def of(self, name: str, version: str) -> ModelStatistics:
        """So far."""
        return ModelStatistics(
            name=name,
            version=version,
            last_inference=self._last,
            inference_count=self._rows,
            execution_count=self._batches,
            inference_stats=InferStatistics(
                success=self._success.wire(),
                fail=self._fail.wire(),
                queue=self._queue.wire(),
                compute_input=self._compute.way.wire(),
                compute_infer=self._compute.device.wire(),
                compute_output=Duration(),
            ),
            batch_stats=[
                BatchStatistics(rows, compute.way.wire(), compute.device.wire(), Duration())
                for rows, compute in sorted(self._by_rows.items())
            ],
        )

    def life_changed(self, life: Life) -> None:
        self._following.life_changed(life)

    def queue_changed(self, rows: int) -> None:
        self._following.queue_changed(rows)

    def left_queue(self, why: Literal["gone", "deadline"]) -> None:
        self._following.left_queue(why)

    def batch_done(self, batch: Batch, *, batch_s: float, device_s: float, compiles: int) -> None:
        self._rows += batch.rows
        self._batches += 1
        self._last = round(self._clock.wall() * 1000)
        self._compute.add(batch_s, device_s, len(batch.members))
        self._by_rows.setdefault(batch.rows, _Compute()).add(batch_s, device_s)
        self._following.batch_done(batch, batch_s=batch_s, device_s=device_s, compiles=compiles)

    def batch_failed(self, *, compiles: int) -> None:
        self._following.batch_failed(compiles=compiles)

    def memory_changed(self, memory: DeviceMemory) -> None:
        self._following.memory_changed(memory)

    def request_done(self, route: str, status: int, reason: str, seconds: float, queue_s: float | None) -> None:
        if reason != "model_not_found":
            (self._success if status == 200 else self._fail).add(seconds)
        if queue_s is not None:
            self._queue.add(queue_s)
        self._following.request_done(route, status, reason, seconds, queue_s)
