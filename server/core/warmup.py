"""The plan of the warm-up and when a bucket counts as warm.

A first call pays for tracing, compiling and loading; it is timed apart. After it a bucket is called until the
running median of its calls moves by less than ``stable_change``, at least ``min_calls`` and at most ``max_calls``
times. The cap keeps a noisy machine from never becoming ready; the table shows who ran into it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from server.core.types import Bucket, BucketTiming


@dataclass(frozen=True, slots=True)
class StabilityRule:
    """``stable_change`` is a share of the median (0.1 = 10 %); calls do not count the first one."""

    stable_change: float = 0.1
    min_calls: int = 3
    max_calls: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.stable_change <= 1:
            raise ValueError(f"warm_up.stable_change: got {self.stable_change}, allowed is above 0 up to 1")
        if not 2 <= self.min_calls <= self.max_calls:
            raise ValueError(
                f"warm_up: got min_calls {self.min_calls} and max_calls {self.max_calls}, "
                "allowed is 2 <= min_calls <= max_calls"
            )

    def enough(self, calls: Sequence[float]) -> bool:
        """Whether a bucket with these call times (seconds, oldest first) needs no further call."""
        if len(calls) < self.min_calls:
            return False
        if len(calls) >= self.max_calls:
            return True
        before, after = median(calls[:-1]), median(calls)
        return abs(after - before) <= self.stable_change * before


def order(buckets: Sequence[Bucket]) -> list[Bucket]:
    """Largest first: what does not fit into the device's memory shows at once, not after minutes."""
    return sorted(buckets, key=lambda bucket: (bucket.cells, bucket.length), reverse=True)


def cache_gain(timings: Sequence[BucketTiming]) -> float | None:
    """How many times longer the first calls of the buckets from cache took when they were compiled; None: not known."""
    known = [each for each in timings if each.source == "cache" and each.compiled_s is not None]
    now = sum(each.first_s for each in known)
    return sum(each.compiled_s or 0.0 for each in known) / now if now else None
