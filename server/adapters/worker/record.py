"""What the last warm-up of this combination took, kept beside its compile cache.

It tells how much the cache saves (a first call now against the same one when it compiled), and prices catalogues for
``canary-server plan``. A record that cannot be read or written costs these figures, never the server.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

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

    def save(self, timings: Iterable[BucketTiming]) -> None:
        """These, and the earlier ones of buckets that are not declared any more."""
        reports = self._before | {str(timing.bucket): report_of(timing) for timing in timings}
        partial = self._path.with_name(NAME + ".partial")
        try:
            partial.write_bytes(msgspec.json.encode(msgspec.structs.replace(self._now, warm_up=list(reports.values()))))
            partial.replace(self._path)
        except OSError as error:
            print(f"warm-up record {self._path} is not written: {error}", file=sys.stderr)


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
