"""The widths with the least padding for a histogram of lengths, for every number of widths at once.

Rows sorted by length fall into k neighbouring groups, and each is as wide as its longest: the same recurrence as
optimal one-dimensional clustering by dynamic programming (H. Wang and M. Song, Ckmeans.1d.dp, The R Journal 3/2,
2011), with padding in place of squared distance. Padding satisfies the quadrangle inequality, so the best last cut
moves one way only (F. F. Yao, STOC 1980), and a row of the table takes n log n steps instead of n squared.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Widths:
    """``padding`` is the share of the token positions that no row fills."""

    widths: tuple[int, ...]
    padding: float


def best_widths(rows: Mapping[int, int], longest: int, most: int, step: int = 1) -> list[Widths]:
    """For 1 to ``most`` widths (fewer where there are no more lengths) the best ones; the last is always ``longest``.

    ``rows`` counts the rows of each length; longer ones are left out. Widths are multiples of ``step``, but for
    ``longest``.
    """
    counted: dict[int, int] = {longest: 0}
    useful = 0
    for length, count in rows.items():
        if length <= longest:
            width = min(-(-length // step) * step, longest)
            counted[width] = counted.get(width, 0) + count
            useful += length * count
    if not useful:
        return []
    lengths = sorted(counted)
    sums = [0, *accumulate(counted[length] for length in lengths)]
    cells = [lengths[last] * sums[last + 1] for last in range(len(lengths))]
    cuts: list[list[int]] = []
    found = [_widths(lengths, cuts, cells[-1], useful)]
    while len(found) < min(most, len(lengths)):
        cells, cut = _one_more(lengths, sums, cells, groups=len(cuts) + 2)
        cuts.append(cut)
        found.append(_widths(lengths, cuts, cells[-1], useful))
    return found


def padding_of(rows: Mapping[int, int], widths: Sequence[int]) -> float | None:
    """Of rows in lanes of these widths; rows that are longer are left out. None: there are no others."""
    held = {length: count for length, count in rows.items() if length <= widths[-1]}
    if not held:
        return None
    computed = sum(count * widths[bisect_left(widths, length)] for length, count in held.items())
    return 1 - sum(length * count for length, count in held.items()) / computed


def _one_more(
    lengths: Sequence[int], sums: Sequence[int], before: Sequence[int], groups: int
) -> tuple[list[int], list[int]]:
    """Cells with one group more, for each last length, and where the last group then begins."""
    cells, cut = list(before), [0] * len(lengths)
    pending = [(groups - 1, len(lengths) - 1, groups - 1, len(lengths) - 1)]
    while pending:
        low, high, first, last = pending.pop()
        if low > high:
            continue
        at = (low + high) // 2
        costs = (
            (before[begin - 1] + lengths[at] * (sums[at + 1] - sums[begin]), begin)
            for begin in range(first, min(last, at) + 1)
        )
        cells[at], cut[at] = min(costs)
        pending += [(low, at - 1, first, cut[at]), (at + 1, high, cut[at], last)]
    return cells, cut


def _widths(lengths: Sequence[int], cuts: Sequence[Sequence[int]], cells: int, useful: int) -> Widths:
    """Follows the cuts back from the longest."""
    at, widths = len(lengths) - 1, [lengths[-1]]
    for cut in reversed(cuts):
        at = cut[at] - 1
        widths.append(lengths[at])
    return Widths(tuple(reversed(widths)), 1 - useful / cells)
