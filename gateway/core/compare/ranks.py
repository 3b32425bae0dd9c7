"""Scores by their order: the k best, how two arms order them, and the best one.

Ties are no disagreement. Where elements share the k-th score, any of them may be counted among the k best, so the
choice that agrees most is taken; a row's best label is any that has the highest score.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.core.compare.content import Array, Tensor
from gateway.core.compare.numbers import read, shown
from gateway.core.compare.result import Figure, Outcome, PairKind
from gateway.core.compare.rules import Label, RankBy, TopK


def top_k(rule: TopK, baseline: object, candidate: object) -> Outcome:
    """Smallest overlap and smallest rank correlation over the rows of the last axis."""
    both = read(baseline, candidate)
    if isinstance(both, Outcome):
        return both
    if (problem := _unfit(rule.rule, both[0])) is not None:
        return problem
    worst_overlap, worst_rank = (1.0, 0), (1.0, 0)
    rows = [side.values.reshape(-1, side.shape[-1]) for side in both]
    for number, (left, right) in enumerate(zip(rows[0], rows[1], strict=True)):
        ours, theirs = best_of_both(left, right, rule.k)
        overlap = len(np.intersect1d(ours, theirs)) / len(ours)
        union = np.union1d(ours, theirs)
        worst_overlap = min(worst_overlap, (overlap, number))
        worst_rank = min(worst_rank, (correlation(rule.rank_by, left[union], right[union]), number))
    figures: dict[Figure, float] = {Figure.OVERLAP: worst_overlap[0], Figure.RANK: worst_rank[0]}
    broken = []
    for what, (value, number), bound in (
        (f"the {rule.k} best overlap by", worst_overlap, rule.overlap_min),
        (f"rank correlation ({rule.rank_by})", worst_rank, rule.rank_min),
    ):
        if bound is not None and value < bound:
            where = f" in row {number}" if len(rows[0]) > 1 else ""
            broken.append(f"{what} {shown(value, bound)}{where}, must be at least {bound:.15g}")
    return Outcome(PairKind.TOLERANCE if broken else PairKind.OK, figures, "; ".join(broken))


def best_of_both(left: Array, right: Array, k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of the k best of two rows (all when there are fewer), tied ones chosen to agree, then by index."""
    k = min(k, len(left))
    sure_l, tied_l = _sure_and_tied(left, k)
    sure_r, tied_r = _sure_and_tied(right, k)
    free_l, free_r = k - len(sure_l), k - len(sure_r)
    # A tied element that the other side surely holds costs one free place and is shared; one tied on both costs two.
    take_l = np.intersect1d(tied_l, sure_r)[:free_l]
    take_r = np.intersect1d(tied_r, sure_l)[:free_r]
    shared = np.intersect1d(tied_l, tied_r)[: min(free_l - len(take_l), free_r - len(take_r))]
    return (
        _filled(np.concatenate([sure_l, take_l, shared]), tied_l, k),
        _filled(np.concatenate([sure_r, take_r, shared]), tied_r, k),
    )


def correlation(by: RankBy, left: Array, right: Array) -> float:
    """Rank correlation of two equally long rows, -1 to 1.

    Where there is no order to compare it is 1 for two rows without order (all equal, or one element) and 0 when only
    one row has an order.
    """
    if len(left) < 2:
        return 1.0
    one, other = (_kendall_terms(row) if by is RankBy.KENDALL else _mid_ranks(row) for row in (left, right))
    one_size, other_size = float(np.sum(one * one)), float(np.sum(other * other))
    if not one_size or not other_size:
        return 1.0 if one_size == other_size else 0.0
    # For Kendall these are signs of all pairs: the quotient is tau-b. For Spearman they are centred ranks.
    found = float(np.sum(one * other)) / math.sqrt(one_size * other_size)
    return min(1.0, max(-1.0, found))


def label(rule: Label, baseline: object, candidate: object) -> Outcome:
    """Floating scores are read as rows and their best compared; anything else is a label itself."""
    both = read(baseline, candidate)
    if isinstance(both, Outcome):
        return both
    left, right = both
    if left.is_number and "f" in (left.values.dtype.kind, right.values.dtype.kind):
        if (problem := _unfit(rule.rule, left)) is not None:
            return problem
        rows = [side.values.reshape(-1, side.shape[-1]) for side in both]
        best = [row == row.max(axis=1, keepdims=True) for row in rows]
        differ: Any = ~(best[0] & best[1]).any(axis=1)
    else:
        differ = np.asarray(left.values != right.values).reshape(-1)
    if differ.size == 0:
        return Outcome(PairKind.SHAPE, text=f"shape: {list(left.shape)} on both arms; there is no label to compare")
    count = int(np.count_nonzero(differ))
    where = f", first in row {int(np.argmax(differ))}" if count and differ.size > 1 else ""
    text = f"{count} of {differ.size} labels differ{where}; none may" if count else ""
    return Outcome(PairKind.TOLERANCE if count else PairKind.OK, {Figure.LABELS: count}, text)


def _unfit(name: str, side: Tensor) -> Outcome | None:
    if not side.is_number:
        return Outcome(PairKind.DTYPE, text=f"{side.datatype} cannot be compared by {name}; numbers can")
    if side.shape == () or side.values.size == 0:
        return Outcome(PairKind.SHAPE, text=f"shape: {list(side.shape)} on both arms; {name} needs rows of scores")
    return None


def _sure_and_tied(row: Array, k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices above the k-th score, and those that share it."""
    kth = np.partition(row, len(row) - k)[len(row) - k]
    return np.flatnonzero(row > kth), np.flatnonzero(row == kth)


def _filled(chosen: NDArray[np.intp], tied: NDArray[np.intp], k: int) -> NDArray[np.intp]:
    rest = np.setdiff1d(tied, chosen)[: k - len(chosen)]
    return np.concatenate([chosen, rest])


def _kendall_terms(row: Array) -> NDArray[np.float64]:
    above, below = np.triu_indices(len(row), 1)
    return np.asarray(row[above] > row[below], dtype=np.float64) - np.asarray(row[above] < row[below], dtype=np.float64)


def _mid_ranks(row: Array) -> NDArray[np.float64]:
    """Ranks with ties at their mean, centred on zero."""
    _, group, counts = np.unique(row, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = (last - (counts - 1) / 2.0)[group] - (len(row) + 1) / 2.0
    return ranks
