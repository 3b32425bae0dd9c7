"""The warm-up of one session: every declared bucket until stable, and where each program came from."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Protocol

from server.adapters.worker.engine import Ahead, Device, EngineFailed
from server.adapters.worker.record import Record
from server.adapters.worker.torch_device import cache_hits
from server.core.acceptance import Acceptance
from server.core.tensors import Tensors
from server.core.types import Bucket, BucketTiming, CacheTier, Source
from server.core.warmup import order
from server.ports.worker import BucketBegan, BucketWarm, Start, WorkerEvent

Call = Callable[[Tensors, Bucket], Tensors]


class Checks(Protocol):
    """Inputs for a bucket's calls, and whether the answers are right."""

    def inputs(self, bucket: Bucket, turn: int) -> Tensors: ...

    def check(self, outputs: Tensors, bucket: Bucket, turn: int) -> Acceptance: ...


@dataclass(frozen=True, slots=True)
class _Counts:
    """The counters of device and caches at one moment."""

    compiles: int
    from_pytorch: int
    from_host: int
    from_shared: int

    @classmethod
    def of(cls, device: Device) -> "_Counts":
        host, shared = device.tier_hits()
        return cls(device.compiles(), cache_hits(), host, shared)

    def since(self, before: "_Counts") -> "_Counts":
        return _Counts(
            self.compiles - before.compiles,
            self.from_pytorch - before.from_pytorch,
            self.from_host - before.from_host,
            self.from_shared - before.from_shared,
        )

    def tier(self) -> CacheTier:
        """Of the cache that saved a compile, the outermost one first: it had the whole artifact."""
        if self.from_pytorch:
            return "pytorch"
        if self.compiles:
            return ""
        return "host" if self.from_host else "shared" if self.from_shared else ""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """What a bucket cost before its first call."""

    seconds: float = 0.0
    counts: _Counts = _Counts(0, 0, 0, 0)


_NOTHING = _Ahead()


class WarmUp:
    """``call`` runs one batch; ``ahead`` is there where compilations may run side by side."""

    def __init__(
        self,
        start: Start,
        device: Device,
        call: Call,
        checks: Checks,
        tell: Callable[[WorkerEvent], None],
        *,
        compiled: bool,
        ahead: Ahead | None,
        record: Record | None,
    ) -> None:
        self._start = start
        self._device = device
        self._call = call
        self._checks = checks
        self._tell = tell
        self._compiled = compiled
        self._ahead = ahead
        self._record = record

    def run(self) -> list[BucketTiming]:
        """Raises EngineFailed."""
        planned = order(self._start.buckets)
        begun = {} if self._ahead is None else self._compile_together(planned, self._ahead)
        timings = []
        for bucket in planned:
            self._tell(BucketBegan(bucket))
            timings.append(self._one(bucket, begun.get(bucket, _NOTHING)))
            self._tell(BucketWarm(timings[-1]))
        if self._record is not None:
            self._record.save(timings)
        return timings

    def _compile_together(self, planned: list[Bucket], ahead: Ahead) -> dict[Bucket, _Ahead]:
        """Traces one bucket after the other while the programs of those before it compile in the background.

        Whether a program came from PyTorch's cache shows while it is traced; the compile of one that did not is
        counted whenever it ends, so it is the bucket's by that.
        """
        traced: dict[Bucket, tuple[float, _Counts, Callable[[], None]]] = {}
        for bucket in planned:
            self._tell(BucketBegan(bucket))
            began, hits = time.perf_counter(), cache_hits()
            wait = ahead.submit(lambda bucket=bucket: self._call(self._checks.inputs(bucket, 0), bucket))  # type: ignore[misc]  # mypy infers no type for a lambda with a default
            found = cache_hits() - hits
            counts = _Counts(compiles=0 if found else 1, from_pytorch=found, from_host=0, from_shared=0)
            traced[bucket] = time.perf_counter() - began, counts, wait
        done: dict[Bucket, _Ahead] = {}
        for bucket, (seconds, counts, wait) in traced.items():
            # Each program is a step with a limit of its own: all of them together may take longer than one may.
            self._tell(BucketBegan(bucket))
            began = time.perf_counter()
            wait()
            done[bucket] = _Ahead(seconds + time.perf_counter() - began, counts)
        return done

    def _one(self, bucket: Bucket, ahead: _Ahead) -> BucketTiming:
        before = _Counts.of(self._device)
        self._device.watch_memory()
        calls: list[float] = []
        while not calls or not self._start.stability.enough(calls[1:]):
            turn = len(calls)
            inputs = self._checks.inputs(bucket, turn)
            began = time.perf_counter()
            outputs = self._call(inputs, bucket)
            calls.append(time.perf_counter() - began)
            acceptance = self._checks.check(outputs, bucket, turn)
            if not acceptance.passed:
                raise EngineFailed(f"warm-up: bucket {bucket} differs from the CPU in float32: {acceptance}")
        counts = _Counts.of(self._device).since(before)
        tier = ahead.counts.tier() or ("" if ahead.counts.compiles else counts.tier())
        source = self._source(tier)
        first_s = ahead.seconds + calls[0]
        return BucketTiming(
            bucket=bucket,
            first_s=first_s,
            warm_s=median(calls[1:]),
            calls=len(calls),
            compiles=counts.compiles + ahead.counts.compiles,
            source=source,
            tier=tier,
            compiled_s=first_s if source == "compiled" else self._compiled_before(bucket),
            memory_bytes=self._device.peak_memory(),
        )

    def _source(self, tier: CacheTier) -> Source:
        if not self._compiled:
            return "eager"
        return "cache" if tier else "compiled"

    def _compiled_before(self, bucket: Bucket) -> float | None:
        if not self._compiled or self._record is None:
            return None
        return self._record.compiled_s(str(bucket))
