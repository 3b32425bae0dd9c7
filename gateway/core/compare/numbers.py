"""Numbers against numbers: exact, abs + rel, cosine. Bitwise equality is never asked for; devices round differently.

Figures are computed in float64, differences of integers beyond 2^53 as integers. The worst element or row decides.
"""

import sys
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gateway.core.compare.content import EXACT, Array, Tensor, Unreadable, numbers_of
from gateway.core.compare.result import Figure, Outcome, PairKind
from gateway.core.compare.rules import AbsRel, Cosine

LARGEST: Final = sys.float_info.max
"""Stands for a figure that float64 cannot hold: figures stay finite, so that they can be stored and compared."""


def read(baseline: object, candidate: object) -> tuple[Tensor, Tensor] | Outcome:
    """Both as tensors of one type and shape that hold finite numbers only, or the failure that no rule covers."""
    left, right = numbers_of(baseline), numbers_of(candidate)
    for arm, found in (("baseline", left), ("candidate", right)):
        if isinstance(found, Unreadable):
            return Outcome(found.kind, text=f"{arm}: {found.text}")
    assert isinstance(left, Tensor)
    assert isinstance(right, Tensor)
    if left.datatype != right.datatype:
        text = f"dtype: baseline {left.datatype}, candidate {right.datatype}; must be equal"
        return Outcome(PairKind.DTYPE, text=text)
    if left.shape != right.shape:
        text = f"shape: baseline {list(left.shape)}, candidate {list(right.shape)}; must be equal"
        return Outcome(PairKind.SHAPE, text=text)
    return _not_finite(left, right) or (left, right)


def exact(baseline: object, candidate: object) -> Outcome:
    """Equal element by element, in value: 0.0 and -0.0 are. Two empty tensors of one shape are equal."""
    both = read(baseline, candidate)
    if isinstance(both, Outcome):
        return both
    left, right = both
    differ = _as_compared(left) != _as_compared(right) if left.is_number else left.values != right.values
    count = int(np.count_nonzero(differ))
    figures: dict[Figure, float] = {Figure.DIFFERENCES: count}
    if left.is_number:
        figures[Figure.MAX_ABS] = _largest(_difference(left, right))
    text = f"{count} of {differ.size} elements differ, first at {position(differ)}; must be equal" if count else ""
    return Outcome(PairKind.TOLERANCE if count else PairKind.OK, figures, text)


def abs_rel(rule: AbsRel, baseline: object, candidate: object) -> Outcome:
    """Every element within the bound. The figure is the largest share of its allowance that an element used."""
    both = read(baseline, candidate)
    if isinstance(both, Outcome):
        return both
    left, right = both
    if not left.is_number:
        return Outcome(PairKind.DTYPE, text=f"{left.datatype} cannot be compared by {rule.rule}; numbers can")
    difference = _difference(left, right)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        allowed = rule.abs + rule.rel * _floats(abs(_as_compared(left)))
        share = np.where(difference == 0, 0.0, _floats(difference) / allowed)
    # An overflow over an overflow is no number, and surely no small one.
    used = np.nan_to_num(share, nan=LARGEST, posinf=LARGEST)
    # Objects are compared as integers with floats, exactly; a difference beyond float64 is beyond any allowance.
    beyond = np.logical_or(np.logical_not(difference <= allowed), np.isinf(_floats(difference)))
    count = int(np.count_nonzero(beyond))
    figures: dict[Figure, float] = {
        Figure.USED: _largest(used), Figure.MAX_ABS: _largest(difference), Figure.BEYOND: count,
    }  # fmt: skip
    if not count:
        return Outcome(PairKind.OK, figures)
    # Rounding of the quotient must not make a failed element look like a passed one.
    figures[Figure.USED] = max(figures[Figure.USED], float(np.nextafter(1.0, 2.0)))
    text = (
        f"{count} of {beyond.size} elements differ by more than {rule.abs:g} + {rule.rel:g} x |baseline|, by up to"
        f" {figures[Figure.USED]:.3g} times what is allowed; none may"
    )
    return Outcome(PairKind.TOLERANCE, figures, text)


def cosine(rule: Cosine, baseline: object, candidate: object) -> Outcome:
    """The smallest cosine over the rows of the last axis, and the largest difference of two elements.

    A row of length zero has no direction and fails; rows of one number have only a sign, so the shape fails.
    """
    both = read(baseline, candidate)
    if isinstance(both, Outcome):
        return both
    left, right = both
    if not left.is_number:
        return Outcome(PairKind.DTYPE, text=f"{left.datatype} cannot be compared by {rule.rule}; numbers can")
    if left.values.size == 0 or left.shape == () or left.shape[-1] < 2:
        text = f"shape: {list(left.shape)} on both arms; a cosine needs rows of two numbers or more"
        return Outcome(PairKind.SHAPE, text=text)
    rows = [_floats(side.values).reshape(-1, side.shape[-1]) for side in both]
    for arm, values in zip(("baseline", "candidate"), rows, strict=True):
        if (zero := ~values.any(axis=1)).any():
            return Outcome(PairKind.NAN, text=f"{arm} row {int(np.argmax(zero))}: length zero, which has no direction")
    cosines, lengths = rows_compared(rows[0], rows[1])
    worst = int(np.argmin(cosines))
    smallest, max_abs, length = float(cosines[worst]), _largest(_difference(left, right)), _largest(lengths)
    figures: dict[Figure, float] = {Figure.COSINE: smallest, Figure.MAX_ABS: max_abs, Figure.LENGTH: length}
    several = len(cosines) > 1
    broken = []
    if smallest < rule.min:
        where = f" in row {worst}" if several else ""
        broken.append(f"cosine {shown(smallest, rule.min)}{where}, must be at least {rule.min:.15g}")
    if rule.max_abs is not None and max_abs > rule.max_abs:
        broken.append(f"largest difference {shown(max_abs, rule.max_abs)}, must be at most {rule.max_abs:.15g}")
    if rule.length_rel is not None and length > rule.length_rel:
        where = f" in row {int(np.argmax(lengths))}" if several else ""
        text = f"length differs by a share of {shown(length, rule.length_rel)}{where}"
        broken.append(f"{text}, must be at most {rule.length_rel:.15g}")
    return Outcome(PairKind.TOLERANCE if broken else PairKind.OK, figures, "; ".join(broken))


def rows_compared(
    left: NDArray[np.float64], right: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Of each pair of rows, none of them zero: the cosine, and by what share of the left length the lengths differ.

    For unit vectors u and v, u.v = 1 - |u - v|^2 / 2: unlike the product itself this keeps its digits near 1, and equal
    rows have a cosine of exactly 1.
    """
    (log_left, unit_left), (log_right, unit_right) = _scaled(left), _scaled(right)
    apart = unit_left - unit_right
    cosines = np.clip(1.0 - 0.5 * np.einsum("nd,nd->n", apart, apart), -1.0, 1.0)
    with np.errstate(over="ignore"):
        return cosines, np.abs(np.expm1(log_right - log_left))


def shown(value: float, bound: float) -> str:
    """The value with as many digits as it takes to tell it from its bound."""
    return next((text for n in range(6, 17) if float(text := f"{value:.{n}g}") != bound), f"{value:.17g}")


def position(marked: NDArray[np.bool_]) -> str:
    """The first marked element, as its indices."""
    return str([int(axis[0]) for axis in np.nonzero(marked)]) if marked.ndim else "its only element"


def _scaled(rows: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Natural logarithm of each row's length, and the row at length 1."""
    # Scaled first, by a power of two: squares of 1e200 overflow, those of 1e-200 vanish, and equal rows stay equal.
    _, exponent = np.frexp(np.max(np.abs(rows), axis=1, keepdims=True))
    scaled = np.ldexp(rows, -exponent)
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    return (np.log(length) + exponent * np.log(2.0))[:, 0], scaled / length


def _not_finite(left: Tensor, right: Tensor) -> Outcome | None:
    for arm, side in (("baseline", left), ("candidate", right)):
        if side.values.dtype.kind != "f":
            continue
        for kind, bad, what in (
            (PairKind.NAN, np.isnan(side.values), "not a number"),
            (PairKind.INFINITY, np.isinf(side.values), "infinite"),
        ):
            if count := int(np.count_nonzero(bad)):
                return Outcome(kind, text=f"{arm}: {count} of {bad.size} elements {what}, first at {position(bad)}")
    return None


def _as_compared(side: Tensor) -> Array:
    """Float64 where that is exact, else Python integers, whose sums and comparisons are."""
    values = side.values
    if values.dtype.kind == "f":
        return values
    if values.dtype == object or (values.size and max(int(values.max()), -int(values.min())) > EXACT):
        return values.astype(object)
    return values.astype(np.float64)


def _difference(left: Tensor, right: Tensor) -> Array:
    one, other = _as_compared(left), _as_compared(right)
    if one.dtype == object or other.dtype == object:
        # Objects on one side only: the other's floats would round the first's integers unless both are whole.
        one, other = _whole(one), _whole(other)
    with np.errstate(over="ignore"):
        found: Any = abs(one - other)
    return np.asarray(found)


def _whole(values: Array) -> Array:
    if values.dtype == object:
        return values
    whole = np.empty(values.shape, dtype=object)
    for index, value in np.ndenumerate(values):
        whole[index] = int(value) if float(value).is_integer() else float(value)
    return whole


def _floats(values: Array) -> NDArray[np.float64]:
    return np.asarray(values, dtype=np.float64)


def _largest(values: Array) -> float:
    """The largest element, 0 of none; finite."""
    return min(float(np.max(values)), LARGEST) if values.size else 0.0
