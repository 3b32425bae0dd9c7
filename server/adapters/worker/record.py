"""What the last warm-up of this combination took, kept beside its compile cache.

It tells how much the cache saves (a first call now against the same one when it compiled), and prices catalogues for
``canary-server plan``. A record that cannot be read or written costs these figures, never the server.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from server.core.pricing import Measured
from server.core.types import BucketTiming
from wire.health import BucketReport, WarmUpRecord

NAME: Final = "warm_up.json"


class Record:
    """The seconds of the buckets of one model, by the SHA-256 of its weights. Others' are not ours to compare with."""

    def __init__(self, folder: Path, revision: str, device: str, dtype: str, matmul_precision: str) -> None:
        self._path = folder / NAME
        self._now = WarmUpRecord(revision=revision, device=device, dtype=dtype, matmul_precision=matmul_precision)
        self._before: dict[str, BucketReport] = {}
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=WarmUpRecord)
        except FileNotFoundError:
            return
        except (OSError, msgspec.MsgspecError) as error:
            print(f"warm-up record {self._path} is not used: {error}", file=sys.stderr)
            return
        if found.revision == revision:
            self._before = {report.bucket: report for report in found.warm_up}

    def compiled_s(self, bucket: str) -> float | None:
        """What the bucket's first call took when it was last compiled."""
        before = self._before.get(bucket)
        return None if before is None else before.compiled_s

    def expected_s(self, buckets: Iterable[str]) -> float | None:
        """What the warm-up of these took the last time; None where one of them was not measured."""
        reports = [self._before.get(bucket) for bucket in buckets]
        known = [each.first_s + (each.calls - 1) * each.warm_s for each in reports if each is not None]
        return sum(known) if len(known) == len(reports) else None

    def save(self, timings: Iterable[BucketTiming]) -> None:
        """These, and the earlier ones of buckets that are not declared any more."""
        reports = self._before | {str(timing.bucket): report_of(timing) for timing in timings}
        partial = self._path.with_name(NAME + ".partial")
        try:
            partial.write_bytes(msgspec.json.encode(msgspec.structs.replace(self._now, warm_up=list(reports.values()))))
            partial.replace(self._path)
        except OSError as error:
            print(f"warm-up record {self._path} is not written: {error}", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Found:
    """A record on disk."""

    path: Path
    revision: str
    measured: dict[str, Measured]


def latest(cache_dir: Path, device: str, dtype: str, matmul_precision: str) -> Found | None:
    """The newest record below a cache folder for this device, dtype and precision."""
    found: list[tuple[float, Path, WarmUpRecord]] = []
    for path in cache_dir.glob(f"*/{NAME}"):
        try:
            record = msgspec.json.decode(path.read_bytes(), type=WarmUpRecord)
            changed = path.stat().st_mtime
        except (OSError, msgspec.MsgspecError):
            continue
        if (record.device, record.dtype, record.matmul_precision) == (device, dtype, matmul_precision):
            found.append((changed, path, record))
    if not found:
        return None
    _, path, record = max(found, key=lambda each: each[:2])
    return Found(path, record.revision, _measured(record.warm_up))


class _Report(msgspec.Struct):
    """The body of a health endpoint, or a record."""

    warm_up: list[BucketReport]


def read_report(path: Path) -> dict[str, Measured]:
    """What a saved body of /livez, or a record, says of each bucket. Raises OSError."""
    try:
        return _measured(msgspec.json.decode(path.read_bytes(), type=_Report).warm_up)
    except msgspec.MsgspecError as error:
        raise OSError(str(error)) from error


def _measured(reports: Iterable[BucketReport]) -> dict[str, Measured]:
    return {
        each.bucket: Measured(
            compiled_s=each.first_s if each.source == "eager" else each.compiled_s,
            cached_s=None if each.source == "compiled" else each.first_s,
            steady_s=(each.calls - 1) * each.warm_s,
            memory_bytes=each.memory_bytes,
        )
        for each in reports
    }


def report_of(timing: BucketTiming) -> BucketReport:
    return BucketReport(
        bucket=str(timing.bucket),
        first_s=timing.first_s,
        warm_s=timing.warm_s,
        calls=timing.calls,
        compiles=timing.compiles,
        source=timing.source,
        tier=timing.tier,
        compiled_s=timing.compiled_s,
        memory_bytes=timing.memory_bytes,
    )
