"""The worker process as the runtime sees it: commands go out, events come back.

Commands and events are plain values; the adapter encodes them. One worker owns one device for one model.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from server.core.catalog import TEXT
from server.core.tensors import Raw
from server.core.types import (
    Bucket,
    BucketTiming,
    DeviceKind,
    DeviceMemory,
    DtypeName,
    EngineFacts,
    MatmulPrecision,
    ModelFormat,
)
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
    ``factory`` is module:function, for the format that is built by one. ``dimensions`` name the sizes of a bucket.
    ``profile``: there may be windows of it.
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
    dimensions: tuple[str, ...] = TEXT
    profile: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """One batch: every input of the signature, of the bucket's shape. Whole numbers may come narrower than declared."""

    number: int
    bucket: Bucket
    inputs: dict[str, Raw]


@dataclass(frozen=True, slots=True)
class Profile:
    """From now on batches are recorded, for ``file``."""

    number: int
    file: str


@dataclass(frozen=True, slots=True)
class ProfileEnd:
    """Answered with Profiled, unless the window was over before."""

    number: int


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
    """Answer to a Run: every output, bucket.batch rows each; ``device_s`` ends with the copy to the host.

    ``compiles`` is how many programs this batch had built, from scratch or with the help of the compile cache on disk:
    both stall everybody. 0 is the promise of a warmed shape. ``began``: of the device's part, seconds of the monotonic
    clock, which the processes of a machine share; 0: not told.
    """

    number: int
    outputs: dict[str, Raw]
    device_s: float
    compiles: int
    began: float = 0.0


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
    """A sign of life, each second, with what the device held after its latest batch."""

    memory: DeviceMemory | None = None


@dataclass(frozen=True, slots=True)
class Profiled:
    """A window is over and its file written, ``size`` bytes; with an ``error`` there is none."""

    number: int
    batches: int
    seconds: float
    size: int
    error: str = ""


WorkerEvent = Loaded | BucketBegan | BucketWarm | Warmed | Finished | RunFailed | Failed | Beat | Profiled


class WorkerLink(Protocol):
    """One worker process at a time. ``receive`` and ``lost`` are called in the event loop."""

    async def spawn(self, start: Start, receive: Callable[[WorkerEvent], None], lost: Callable[[str], None]) -> None:
        """Starts the process, for the first time or after ``kill``.

        ``lost`` is called once, with the reason, when it is gone unasked.
        """
        ...

    def run(self, command: Run | Profile | ProfileEnd) -> None:
        """Sends a batch, whose answer comes as Finished or RunFailed, or a word about a window of profiling."""
        ...

    async def kill(self) -> None:
        """Ends the process and reaps it; safe to call twice."""
        ...
