"""What operators watch."""

from typing import Literal, Protocol

from server.core.batch import Batch
from server.core.lifecycle import Life
from server.core.types import DeviceMemory


class Telemetry(Protocol):
    def life_changed(self, life: Life) -> None: ...

    def queue_changed(self, rows: int) -> None: ...

    def left_queue(self, why: Literal["gone", "deadline"]) -> None:
        """A request left before it reached the device: its caller is gone, or was told that its time is up."""
        ...

    def batch_done(self, batch: Batch, *, batch_s: float, device_s: float, compiles: int) -> None:
        """``batch_s`` from leaving the queue to the vectors' arrival, ``device_s`` the worker's share of it."""
        ...

    def batch_failed(self, *, compiles: int) -> None:
        """The device could not run a batch; ``compiles`` is what it compiled before it gave up."""
        ...

    def memory_changed(self, memory: DeviceMemory) -> None:
        """What the device holds; never told where it does not count."""
        ...

    def request_done(self, route: str, status: int, reason: str, seconds: float, queue_s: float | None) -> None: ...


class AccessLog(Protocol):
    @property
    def kept(self) -> bool:
        """Whether what is written is kept; otherwise nobody need put it together."""
        ...

    def write(self, fields: dict[str, object]) -> None:
        """One answered inference request: names and numbers, never its content."""
        ...


class Log(Protocol):
    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...

    def error(self, event: str, **fields: object) -> None: ...
