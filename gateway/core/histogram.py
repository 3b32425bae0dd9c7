"""Latency histograms that merge: fixed logarithmic bins, the same in every worker and replica.

Percentiles shown to people come from here; no decision does (the rule counts events beyond a limit). Bins are
fixed so that two histograms add bin by bin, whatever the order; percentiles themselves are never averaged.
"""

import math
from collections.abc import Iterable
from typing import Final

SHORTEST: Final = 50e-6
LONGEST: Final = 600.0
ACCURACY: Final = 0.01
"""Largest relative error of ``value_of(bin_of(x))`` for SHORTEST <= x <= LONGEST."""

# Ratio between bin edges such that one value stands for a whole bin within ACCURACY (as in DDSketch, VLDB 2019).
_RATIO: Final = (1.0 + ACCURACY) / (1.0 - ACCURACY)
_BINS_PER_OCTAVE: Final = 1.0 / math.log2(_RATIO)
_FIRST_EDGE: Final = math.log2(SHORTEST) * _BINS_PER_OCTAVE

BINS: Final[int] = math.ceil(math.log2(LONGEST / SHORTEST) * _BINS_PER_OCTAVE)

_log2 = math.log2


def bin_of(seconds: float) -> int:
    """The bin of a duration; shorter than SHORTEST falls into the first, longer than LONGEST into the last."""
    if not seconds > SHORTEST:
        return 0
    if seconds >= LONGEST:
        return BINS - 1
    return int(_log2(seconds) * _BINS_PER_OCTAVE - _FIRST_EDGE)


def value_of(bin_: int) -> float:
    """The duration in seconds that stands for a bin: within ACCURACY of everything in it. ValueError out of range."""
    if not 0 <= bin_ < BINS:
        raise ValueError(f"bin: {bin_} must lie between 0 and {BINS - 1}")
    return float(SHORTEST * _RATIO**bin_ * 2.0 * _RATIO / (1.0 + _RATIO))


class Histogram:
    """Counts per bin. ``observe`` is the hot path: one logarithm and one dictionary update, nothing allocated."""

    __slots__ = ("_counts",)

    def __init__(self, bins: Iterable[tuple[int, int]] = ()) -> None:
        self._counts: dict[int, int] = {}
        for bin_, count in bins:
            self.add_bin(bin_, count)

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        # The common case of bin_of, written out: the call would cost as much as the logarithm.
        inside = SHORTEST < seconds < LONGEST
        bin_ = int(_log2(seconds) * _BINS_PER_OCTAVE - _FIRST_EDGE) if inside else bin_of(seconds)
        counts = self._counts
        if bin_ in counts:
            counts[bin_] += 1
        else:
            counts[bin_] = 1

    def add_bin(self, bin_: int, count: int) -> None:
        """Add ``count`` durations to a bin. ValueError when the bin does not exist or the count is negative."""
        if not 0 <= bin_ < BINS:
            raise ValueError(f"bin: {bin_} must lie between 0 and {BINS - 1}")
        if count < 0:
            raise ValueError(f"count: {count} must be 0 or more")
        if count:
            self._counts[bin_] = self._counts.get(bin_, 0) + count

    def merge(self, other: "Histogram") -> None:
        """Add everything that ``other`` holds; ``other`` stays as it is."""
        counts = self._counts
        for bin_, count in list(other._counts.items()):
            counts[bin_] = counts.get(bin_, 0) + count

    @property
    def count(self) -> int:
        """Durations counted."""
        return sum(self._counts.values())

    def quantile(self, q: float) -> float | None:
        """The duration in seconds that a share ``q`` does not exceed (nearest rank); None when nothing was counted."""
        if not 0.0 <= q <= 1.0:
            raise ValueError(f"q: {q} must lie between 0 and 1")
        total = self.count
        if total == 0:
            return None
        left = max(1, math.ceil(q * total))
        bins = sorted(self._counts.items())
        for bin_, count in bins:
            left -= count
            if left <= 0:
                return value_of(bin_)
        return value_of(bins[-1][0])

    def bins(self) -> list[tuple[int, int]]:
        """The bins that are not empty, in order, with their counts."""
        return sorted(self._counts.items())

    def take(self) -> list[tuple[int, int]]:
        """What ``bins`` gives, and start over: the flush of a worker's counts."""
        counts, self._counts = self._counts, {}
        return sorted(counts.items())
