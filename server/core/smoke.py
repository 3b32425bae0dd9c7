"""What the processes of a smoke report, before it is judged."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from server.core.signature import ModelSignature
from server.core.types import Bucket, Source

Mode = Literal["eager", "compiled"]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Difference:
    """All outputs of one bucket against the CPU in float32: the worst row and element, never a mean.

    ``used``: the largest share that an element takes of what the tolerance allows it; ``beyond`` counts those above 1.
    """

    cosine_min: float
    length_rel: float
    max_abs: float
    used: float
    beyond: int
    elements: int
    finite: bool


@dataclass(frozen=True, slots=True)
class BucketRun:
    """Seconds. ``warm_calls`` do not count the first call; ``steady`` was taken after nothing may compile any more."""

    bucket: Bucket
    first_s: float
    warm_calls: int
    warm_s: float
    steady_s: float
    steady_max_s: float
    steady_calls: int
    compiles: int
    compiles_after: int
    source: Source
    difference: Difference


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Weights from the device to a safetensors file and back: the tensors that differ, and whether the answer does."""

    tensors: int
    bytes: int
    differing: int
    same_answer: bool


@dataclass(frozen=True, slots=True)
class Audit:
    """Of the exported graph. ``error`` says why there is none."""

    operators: int = 0
    kinds: int = 0
    custom: tuple[str, ...] = ()
    cuda_only: tuple[str, ...] = ()
    cuda_sources: tuple[str, ...] = ()
    hooks: int = 0
    data_dependent: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """The CPU's part: ``whole_batches`` names buckets whose rows could not be computed alone."""

    revision: str
    signature: ModelSignature
    vocabulary: int
    inputs: str
    parameters: int
    weight_bytes: int
    audit: Audit
    whole_batches: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """One mode on the device. ``memory_why`` is there without ``device_memory``; ``fallback`` None: no such switch."""

    mode: Mode
    load_s: float
    emulated: bool
    topology: str | None
    buckets: tuple[BucketRun, ...]
    device_memory: int | None
    memory_why: str
    host_memory: int
    fallback: bool | None
    checkpoint: Checkpoint | None = None


@dataclass(frozen=True, slots=True)
class Part(Generic[Result]):
    """What one process left: its result, or why there is none; and the warnings that it met."""

    result: Result | None
    error: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServedBucket:
    """One bucket asked over HTTP, one request after the other. Medians in milliseconds."""

    bucket: Bucket
    requests: int
    failed: int
    request_ms: float
    device_ms: float
    source: Source | None

    @property
    def host_overhead(self) -> float:
        return 1.0 - self.device_ms / self.request_ms


@dataclass(frozen=True, slots=True)
class Service:
    """The server itself: ``requests`` of one row each for ``seconds``, ``connections`` at a time."""

    ready_s: float
    buckets: tuple[ServedBucket, ...]
    requests: int
    failed: int
    seconds: float
    connections: int
    per_s: float
    p50_ms: float
    p99_ms: float
    compiles_after: int
