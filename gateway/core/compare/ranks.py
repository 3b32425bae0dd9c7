"""Scores by their order: the k best, how two arms order them, and the best one.

Ties are no disagreement. Where elements share the k-th score, any of them may be counted among the k best, so the
choice that agrees most is taken; a row's best label is any that has the highest score.

All rows are looked at together: an answer may have a hundred thousand of them.
"""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gateway.core.compare.content import Array, Tensor
from gateway.core.compare.numbers import read, shown
from gateway.core.compare.result import Figure, Outcome, PairKind
from gateway.core.compare.rules import Label, RankBy, TopK

Mask = NDArray[np.bool_]

_AT_ONCE: Final = 1 << 20
"""Pairs of elements that are held in memory at a time."""


def top_k(rule: TopK, baseline: object, candidate: object) -> Outcome:
    """Smallest overlap over the rows of the last axis, and smallest rank correlation where the rule asks for one."""
    both = read(baseline, candidate)
    if isinstance(both, Outcome):
        return both
    if (problem := _unfit(rule.rule, both[0])) is not None:
        return problem
    left, right = (_as_ranked(side) for side in both)
    ours, theirs = best_of_both(left, right, rule.k)
    overlaps = (ours & theirs).sum(axis=1) / min(rule.k, left.shape[1])
    found = [(Figure.OVERLAP, f"the {rule.k} best overlap by", overlaps, rule.overlap_min)]
    if rule.rank_min is not None:
        ranks = _correlations(rule.rank_by, left, right, ours | theirs)
        found.append((Figure.RANK, f"rank correlation ({rule.rank_by})", ranks, rule.rank_min))
    figures: dict[Figure, float] = {}
    broken = []
    for figure, what, values, bound in found:
        worst = int(np.argmin(values))
        value = figures[figure] = float(values[worst])
        if value < bound:
            where = f" in row {worst}" if len(values) > 1 else ""
            broken.append(f"{what} {shown(value, bound)}{where}, must be at least {bound:.15g}")
    return Outcome(PairKind.TOLERANCE if broken else PairKind.OK, figures, "; ".join(broken))


def best_of_both(left: Array, right: Array, k: int) -> tuple[Mask, Mask]:
    """Of rows [n, d]: which are the k best (all when there are fewer), tied ones chosen to agree, then by index."""
    k = min(k, left.shape[1])
    (sure_l, tied_l), (sure_r, tied_r) = (_sure_and_tied(side, k) for side in (left, right))
    free_l, free_r = k - sure_l.sum(axis=1), k - sure_r.sum(axis=1)
    # A tied element that the other side surely holds costs one free place and is shared; one tied on both costs two.
    take_l, take_r = _first(tied_l & sure_r, free_l), _first(tied_r & sure_l, free_r)
    left_over = np.minimum(free_l - take_l.sum(axis=1), free_r - take_r.sum(axis=1))
    shared = _first(tied_l & tied_r, left_over)
    return _filled(sure_l | take_l | shared, tied_l, k), _filled(sure_r | take_r | shared, tied_r, k)


def correlation(by: RankBy, left: Array, right: Array) -> NDArray[np.float64]:
    """Rank correlation of each two rows of [n, d], -1 to 1.

    Where there is no order to compare it is 1 for two rows without order (all equal, or one element) and 0 when only
    one row has an order.
    """
    one, other = (_signs(side) for side in (left, right))
    if by is RankBy.SPEARMAN:
        # Above minus below is twice the rank, ties at their mean, centred on zero.
        one, other = one.sum(axis=2, keepdims=True), other.sum(axis=2, keepdims=True)
    # For Kendall these are signs of all pairs, so the quotient is tau-b.
    product, one_size, other_size = (
        np.einsum("nij,nij->n", a, b, dtype=np.float64) for a, b in ((one, other), (one, one), (other, other))
    )
    same = np.where(one_size == other_size, 1.0, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = product / np.sqrt(one_size * other_size)
    return np.clip(np.where((one_size == 0) | (other_size == 0), same, found), -1.0, 1.0)


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


def _as_ranked(side: Tensor) -> Array:
    """Rows [n, d]; integers beyond 64 bits by their place in the order, which is all that counts here."""
    rows = side.values.reshape(-1, side.shape[-1])
    if rows.dtype != object:
        return rows
    places: Array = np.unique(rows, return_inverse=True)[1]
    return places.reshape(rows.shape)


def _correlations(by: RankBy, left: Array, right: Array, chosen: Mask) -> NDArray[np.float64]:
    """Rank correlation of each two rows over the chosen elements alone."""
    found = np.empty(len(left))
    sizes = chosen.sum(axis=1)
    for size in np.unique(sizes).tolist():
        for rows in _portions(np.flatnonzero(sizes == size), max(1, _AT_ONCE // (size * size))):
            one, other = (side[rows][chosen[rows]].reshape(len(rows), size) for side in (left, right))
            found[rows] = correlation(by, one, other)
    return found


def _portions(rows: NDArray[np.intp], most: int) -> Iterator[NDArray[np.intp]]:
    for at in range(0, len(rows), most):
        yield rows[at : at + most]


def _signs(rows: Array) -> NDArray[np.float32]:
    """[n, d, d]: 1 where the first element is above the second, -1 where below."""
    first, second = rows[:, :, None], rows[:, None, :]
    return np.subtract(first > second, first < second, dtype=np.float32)


def _sure_and_tied(rows: Array, k: int) -> tuple[Mask, Mask]:
    """The elements above a row's k-th score, and those that share it."""
    at = rows.shape[1] - k
    kth = np.partition(rows, at, axis=1)[:, at, None]
    return rows > kth, rows == kth


def _first(marked: Mask, wanted: NDArray[np.int64]) -> Mask:
    """The first ``wanted`` marked elements of each row."""
    return marked & (np.cumsum(marked, axis=1) <= wanted[:, None])


def _filled(chosen: Mask, tied: Mask, k: int) -> Mask:
    return chosen | _first(tied & ~chosen, k - chosen.sum(axis=1))
