"""Bodies of the health endpoints and the identity of a server.

Status alone decides for a probe; the body is for people, the gateway's warm-up display and tests.
"""

import hashlib
from typing import Literal

import msgspec

ServerState = Literal["starting", "loading", "warming", "ready", "draining", "stopped", "failed", "stuck"]


class BucketReport(msgspec.Struct, frozen=True, kw_only=True):
    """One warmed bucket. Times in seconds; ``warm_s`` is the median of the steady calls.

    ``tier``: which cache the program came from; ``compiled_s``: the first call when it was last compiled;
    ``memory_bytes``: the most that the device held while the bucket ran. None: not known.
    """

    bucket: str
    first_s: float
    warm_s: float
    calls: int
    compiles: int
    source: Literal["compiled", "cache", "eager"]
    tier: Literal["", "pytorch", "host", "shared"] = ""
    compiled_s: float | None = None
    memory_bytes: int | None = None


class WarmUpRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The last warm-up of one model on one device, as it stays on disk."""

    revision: str
    device: str
    dtype: str
    matmul_precision: str
    warm_up: list[BucketReport] = []


class HealthBody(msgspec.Struct, frozen=True, kw_only=True):
    """``bucket`` of ``buckets`` are warmed; ``elapsed_s`` counts from process start.

    ``cache_gain``: how many times longer the first calls of the buckets from cache took when they were compiled.
    ``restarts`` counts how often the device worker was lost and started again. ``run_id`` is of the process, as in each
    of its log lines.
    """

    state: ServerState
    elapsed_s: float
    detail: str = ""
    bucket: int = 0
    buckets: int = 0
    current: str = ""
    cold_s: float | None = None
    cache_gain: float | None = None
    restarts: int = 0
    run_id: str = ""
    warm_up: list[BucketReport] = []


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may change an answer. Two arms are compared field by field."""

    model: str
    revision: str
    tokenizer: str
    truncation: str
    output: str
    dtype: str
    matmul_precision: str
    catalogue: str
    device: str
    emulated: bool
    compiled: bool
    strict: bool
    torch: str
    torch_tpu: str | None = None
    libtpu: str | None = None
    topology: str | None = None

    def digest(self) -> str:
        """Sixteen hex digits over all fields, in field order."""
        return hashlib.blake2b(msgspec.json.encode(self), digest_size=8).hexdigest()
