"""How much slower or faster the candidate answers the same request: information, never a verdict.

Each pair is a request and its copy, sent in random order. What is measured is the logarithm of candidate / baseline.
Pairs of one moment share the moment's load and are not independent, so the unit is the block: all pairs that arrived in
one window (10 s). A per-pair test gave 21 % false alarms on equal arms with private slow spells, one by blocks 5.5 %.

A block's value is the mean log ratio of pairs sent baseline first, and that of pairs sent candidate first, averaged:
what the first or second place is worth cancels out. Blocks that lack one of the orders are counted and not used.

The interval for the median of the block values comes from their order statistics, which inverts the sign test: between
the r-th smallest and the r-th largest of n lies the median with probability 1 - 2 P(Bin(n, 1/2) < r), exact whatever
the distribution (W. R. Thompson, Annals of Mathematical Statistics 7, 1936; H. A. David and H. N. Nagaraja, Order
Statistics, 3rd ed., section 7.1). It assumes that blocks are independent; where slow spells outlast a block, group
several. Being looked at again and again is not covered either: this is no sequential test.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

UNIT: Final = 1_000_000
"""Log ratios are kept as whole millionths: sums of integers are the same in any order and grouping."""
CLIP: Final = math.log(1000.0)
"""A ratio beyond 1000 either way counts as 1000, so that one stalled answer cannot carry a block by itself for ever."""
MAX_BLOCKS: Final = 4096
CONFIDENCE: Final = 0.95
PAIRS_A_BLOCK: Final = 4
"""With as many a block on average, one in eight at most lacks an order."""

Block = tuple[int, int, int, int, int]
"""(window, pairs sent baseline first, pairs sent candidate first, sums of their log ratios in millionths)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioInterval:
    """Candidate / baseline, as factors: the median over the blocks and an interval for it.

    coverage: exact, at least what was asked for. first_place: ratio of a pair's latencies that is due to the order
    alone (above 1: who is sent second looks slower). None of these decides anything.
    """

    median: float
    low: float
    high: float
    coverage: float
    blocks: int
    first_place: float


@dataclass(slots=True)
class _Block:
    """Counts and sums by order: [baseline first, candidate first]."""

    counts: list[int]
    sums: list[int]

    def merge(self, other: "_Block") -> None:
        for order in (0, 1):
            self.counts[order] += other.counts[order]
            self.sums[order] += other.sums[order]


class PairedLatency:
    """Adds up pairs in any order and grouping, in bounded memory.

    With more than ``max_blocks`` windows neighbours are joined two by two, which keeps the result independent of order:
    how often that happens depends only on which windows were seen.
    """

    __slots__ = ("_blocks", "_level", "clipped", "max_blocks")

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        if max_blocks < 1:
            raise ValueError(f"max_blocks: {max_blocks} must be 1 or more")
        self.max_blocks = max_blocks
        self.clipped = 0
        """Pairs whose ratio was beyond 1000 either way."""
        self._level = 0
        self._blocks: dict[int, _Block] = {}

    @property
    def pairs(self) -> int:
        return sum(sum(block.counts) for block in self._blocks.values())

    @property
    def block_windows(self) -> int:
        """Windows in a block: 1 until memory is short, then 2, 4, ..."""
        return 1 << self._level

    @property
    def one_sided(self) -> int:
        """Blocks in which all pairs were sent in one order; they are not used."""
        return sum(not all(block.counts) for block in self._blocks.values())

    def add(self, window: int, baseline_s: float, candidate_s: float, *, candidate_first: bool) -> None:
        """Count one pair that arrived in ``window``. ValueError for a duration that is not finite and above 0."""
        if window < 0:  # neighbours of windows on both sides of 0 are never joined
            raise ValueError(f"window: {window} must be 0 or more")
        for name, value in (("baseline_s", baseline_s), ("candidate_s", candidate_s)):
            if not 0.0 < value < math.inf:
                raise ValueError(f"{name}: {value} must be above 0 and finite")
        ratio = math.log(candidate_s) - math.log(baseline_s)
        if abs(ratio) > CLIP:
            self.clipped += 1
            ratio = math.copysign(CLIP, ratio)
        order = int(candidate_first)
        block = self._blocks.setdefault(window >> self._level, _Block([0, 0], [0, 0]))
        block.counts[order] += 1
        block.sums[order] += round(ratio * UNIT)
        self._fit()

    def take(self) -> tuple[int, list[Block]]:
        """(clipped, blocks): everything counted, which is forgotten here; ``add_blocks`` takes it elsewhere."""
        clipped, self.clipped = self.clipped, 0
        blocks, self._blocks = self._blocks, {}
        level, self._level = self._level, 0
        found = [
            (index << level, block.counts[0], block.counts[1], block.sums[0], block.sums[1])
            for index, block in sorted(blocks.items())
        ]
        return clipped, found

    def add_blocks(self, clipped: int, blocks: Iterable[Block]) -> None:
        """Add what ``take`` gave. ValueError for a window below 0."""
        self.clipped += clipped
        for window, first, second, first_sum, second_sum in blocks:
            if window < 0:
                raise ValueError(f"window: {window} must be 0 or more")
            block = self._blocks.setdefault(window >> self._level, _Block([0, 0], [0, 0]))
            block.merge(_Block([first, second], [first_sum, second_sum]))
            self._fit()

    def merge(self, other: "PairedLatency") -> None:
        """Add everything that ``other`` counted; it stays as it is. ValueError for another memory bound."""
        if other.max_blocks != self.max_blocks:
            raise ValueError(f"max_blocks: {other.max_blocks} and {self.max_blocks} cannot be merged; must be equal")
        level = max(self._level, other._level)
        self._coarsen(level)
        for index, block in other._blocks.items():
            into = self._blocks.setdefault(index >> (level - other._level), _Block([0, 0], [0, 0]))
            into.merge(block)
        self.clipped += other.clipped
        self._fit()

    def interval(self, confidence: float = CONFIDENCE, group: int = 1) -> RatioInterval | None:
        """The median ratio with its interval; None while there are too few blocks (6 for 95 %).

        group: neighbouring blocks joined into one, for slow spells that outlast a block.
        """
        if not 0.0 < confidence < 1.0:
            raise ValueError(f"confidence: {confidence} must lie between 0 and 1")
        if group < 1:
            raise ValueError(f"group: {group} must be 1 or more")
        grouped: dict[int, _Block] = {}
        for index, block in self._blocks.items():
            grouped.setdefault(index // group, _Block([0, 0], [0, 0])).merge(block)
        means = sorted(
            tuple(total / count for total, count in zip(block.sums, block.counts, strict=True))
            for block in grouped.values()
            if all(block.counts)
        )
        values = sorted((one + other) / 2.0 for one, other in means)
        ranks = sign_test_rank(len(values), confidence)
        if ranks is None:
            return None
        rank, coverage = ranks
        places = sorted((one - other) / 2.0 for one, other in means)
        return RatioInterval(
            median=_factor(_median(values)),
            low=_factor(values[rank - 1]),
            high=_factor(values[-rank]),
            coverage=coverage,
            blocks=len(values),
            first_place=_factor(_median(places)),
        )

    def group(self) -> int:
        """How many blocks have to be joined for most of them to hold both orders. Depends on counts alone."""
        return max(1, math.ceil(PAIRS_A_BLOCK * len(self._blocks) / self.pairs)) if self.pairs else 1

    def checkpoint(self) -> dict[str, object]:
        """JSON-able, the same for equal statistics; ``restore`` takes it."""
        blocks = [[index, *block.counts, *block.sums] for index, block in sorted(self._blocks.items())]
        return {"max_blocks": self.max_blocks, "level": self._level, "clipped": self.clipped, "blocks": blocks}

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> "PairedLatency":
        """The statistics of a checkpoint. KeyError or ValueError when it is none."""
        found = cls(int(saved["max_blocks"]))
        found._level, found.clipped = int(saved["level"]), int(saved["clipped"])
        for index, first, second, first_sum, second_sum in saved["blocks"]:
            found._blocks[int(index)] = _Block([int(first), int(second)], [int(first_sum), int(second_sum)])
        if found._level < 0 or len(found._blocks) > found.max_blocks or any(index < 0 for index in found._blocks):
            raise ValueError(f"blocks: {len(found._blocks)} at level {found._level}, at most {found.max_blocks}")
        return found

    def _fit(self) -> None:
        while len(self._blocks) > self.max_blocks:
            self._coarsen(self._level + 1)

    def _coarsen(self, level: int) -> None:
        by = level - self._level
        if by == 0:
            return
        joined: dict[int, _Block] = {}
        for index, block in self._blocks.items():
            joined.setdefault(index >> by, _Block([0, 0], [0, 0])).merge(block)
        self._blocks, self._level = joined, level


def sign_test_rank(n: int, confidence: float) -> tuple[int, float] | None:
    """The largest rank r whose interval [r-th smallest, r-th largest] covers the median with ``confidence``, and its
    exact coverage; None when even the whole range of ``n`` values does not.
    """
    below, term, rank, coverage = 0, 1, 0, 0.0
    for r in range(1, n // 2 + 1):
        below += term  # term: n choose r - 1
        term = term * (n - r + 1) // r
        # Whole numbers up to here: the sum and 2^n are exact, and the quotient is rounded once.
        reached = 1.0 - below / (1 << (n - 1))
        if reached < confidence:
            break
        rank, coverage = r, reached
    return (rank, coverage) if rank else None


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2.0


def _factor(millionths: float) -> float:
    return math.exp(millionths / UNIT)
