"""Acceptance: a device's output against the same weights on the CPU in float32, before anything is served.

The measure is the smallest cosine over the rows, never a mean: one wrong row is wrong. A device rounds float32
products to bfloat16 at precision ``medium`` (one pass), so that case takes the bfloat16 row.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from server.core.tensors import Array
from server.core.types import DtypeName, MatmulPrecision

FLOAT32_COSINE = 0.9999
BFLOAT16_COSINE = 0.99
# Of a single number, relative to it and to 1.
NEAR_FLOAT32 = 1e-3
NEAR_BFLOAT16 = 2e-2


@dataclass(frozen=True, slots=True)
class Acceptance:
    """``passed`` with the numbers behind it, or the ``problem`` for which there are none."""

    passed: bool
    min_cosine: float
    max_abs: float
    limit: float
    problem: str = ""

    def __str__(self) -> str:
        if self.problem:
            return self.problem
        sign = ">=" if self.passed else "<"
        return f"cosine {self.min_cosine:.6f} {sign} {self.limit} (max difference {self.max_abs:.2e})"


def limit_for(dtype: DtypeName, precision: MatmulPrecision) -> float:
    """The smallest cosine that a dtype and matmul precision may give."""
    if dtype == "bfloat16" or precision == "medium":
        return BFLOAT16_COSINE
    return FLOAT32_COSINE


def judge(reference: Array, output: Array, limit: float) -> Acceptance:
    """Compares the rows of an output; a reference of one row is that of each. NaN or infinity fails with cosine -1.

    A row of one number has no direction and must be near; whole numbers must be equal, unless ``limit`` is that of
    bfloat16, where the nearest of two that are as good as equal may be either.
    """
    if len(output) == 0 or reference.shape[1:] != output.shape[1:] or len(reference) not in (1, len(output)):
        return _incomparable(limit, f"shape {list(output.shape)}, on the CPU {list(reference.shape)}")
    left, right = (rows.astype(np.float64).reshape(len(rows), -1) for rows in (reference, output))
    if not np.isfinite(left).all():
        return _incomparable(limit, "not finite on the CPU itself: look at the weights")
    if not np.isfinite(right).all():
        return _incomparable(limit, "NaN or infinity, finite on the CPU")
    gaps = np.abs(left - right)
    max_abs = float(gaps.max(initial=0.0))
    if not np.issubdtype(output.dtype, np.floating):
        good = max_abs == 0 or limit < FLOAT32_COSINE
        return Acceptance(good, 1.0 if good else -1.0, max_abs, limit)
    if left.shape[1] == 1:
        near = NEAR_FLOAT32 if limit >= FLOAT32_COSINE else NEAR_BFLOAT16
        good = bool((gaps <= near * (1 + np.abs(left))).all())
        return Acceptance(good, 1.0 if good else -1.0, max_abs, limit)
    cosine = float(_cosines(left, right).min())
    return Acceptance(cosine >= limit, cosine, max_abs, limit)


def worst(judged: Sequence[Acceptance]) -> Acceptance:
    """All of them in one: the smallest cosine, the largest difference."""
    smallest = min(judged, key=lambda each: (each.passed, each.min_cosine))
    return replace(smallest, max_abs=max(each.max_abs for each in judged))


def _incomparable(limit: float, problem: str) -> Acceptance:
    return Acceptance(False, -1.0, math.inf, limit, problem)


def _cosines(left: Array, right: Array) -> Array:
    """By row; of a row of zeros -1, unless both are."""
    norms, others = np.linalg.norm(left, axis=1), np.linalg.norm(right, axis=1)
    both = norms * others
    found: Array = np.where(
        both > 0, (left * right).sum(axis=1) / np.where(both > 0, both, 1.0), np.where(norms == others, 1.0, -1.0)
    )
    return found
