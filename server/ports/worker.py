"""The worker process as the runtime sees it: commands go out, events come back.

Commands and events are plain values; the adapter encodes them. One worker owns one device for one model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from server.core.types import Bucket, BucketTiming, DeviceKind, DtypeName, EngineFacts, MatmulPrecision, ModelFormat
from server.core.warmup import StabilityRule


@dataclass(frozen=True, slots=True)
class Lenient:
    """Undeclared shapes are compiled on the request path. ``programs``: how many shapes there can be, all together."""

    largest: Bucket
    programs: int


@dataclass(frozen=True, slots=True)
class Start:
    """First command. ``compile`` None leaves the choice to the device; ``sha256`` is of the one file of weights.

    ``buckets`` are the declared ones, to be warmed. ``lenient`` None is strict: after them nothing compiles any more.
    ``parallel``: programs may be compiled side by side where the device can.
    ``factory`` is module:function, for the format that is built by one.
    """

    model_path: str
    sha256: str | None
    device: DeviceKind
    emulator_allowed: bool
    dtype: DtypeName
    matmul_precision: MatmulPrecision
    compile: bool | None
    threads: int
    buckets: tuple[Bucket, ...]
    stability: StabilityRule
    cache_dir: str
    front_pid: int
    lenient: Lenient | None = None
    parallel: bool = True
    model_format: ModelFormat = "sentence-transformers"
    factory: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One batch: int32 ids and mask, row-major [bucket.batch, bucket.length]."""

    number: int
    bucket: Bucket
    ids: bytes
    mask: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """Weights are on the device and passed acceptance. ``warm_up_s``: what the warm-up took the last time, if known."""

    facts: EngineFacts
    warm_up_s: float | None = None


@dataclass(frozen=True, slots=True)
class BucketBegan:
    """This shape has its first calls: in the warm-up, or with a Run of an undeclared shape that must be compiled."""

    bucket: Bucket


@dataclass(frozen=True, slots=True)
class BucketWarm:
    timing: BucketTiming


@dataclass(frozen=True, slots=True)
class Warmed:
    """Every declared bucket is warm, caches are on disk; unless lenient, nothing compiles any more."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Answer to a Run: float32 rows [bucket.batch, dim]; ``device_s`` ends with the copy to the host.

    ``compiles`` is how many programs this batch had built, from scratch or with the help of the compile cache on disk:
    both stall everybody. 0 is the promise of a warmed shape.
    """

    number: int
    vectors: bytes
    device_s: float
    compiles: int


@dataclass(frozen=True, slots=True)
class RunFailed:
    """This batch failed; the worker goes on."""

    number: int
    error: str
    compiles: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The worker gives up."""

    reason: str


@dataclass(frozen=True, slots=True)
class Beat:
    """A sign of life, each second."""


WorkerEvent = Loaded | BucketBegan | BucketWarm | Warmed | Finished | RunFailed | Failed | Beat


class WorkerLink(Protocol):
    """One worker process at a time. ``receive`` and ``lost`` are called in the event loop."""

    async def spawn(self, start: Start, receive: Callable[[WorkerEvent], None], lost: Callable[[str], None]) -> None:
        """Starts the process, for the first time or after ``kill``.

        ``lost`` is called once, with the reason, when it is gone unasked.
        """
        ...

    def run(self, command: Run) -> None:
        """Sends a batch; its answer comes as Finished or RunFailed."""
        ...

    async def kill(self) -> None:
        """Ends the process and reaps it; safe to call twice."""
        ...
