"""Acceptance: a device's output against the same weights on the CPU in float32, before anything is served.

The measure is the smallest cosine over the rows, never a mean: one wrong row is wrong. A device rounds float32
products to bfloat16 at precision ``medium`` (one pass), so that case takes the bfloat16 row.
"""

import math
from array import array
from dataclasses import dataclass

from server.core.types import DtypeName, MatmulPrecision

FLOAT32_COSINE = 0.9999
BFLOAT16_COSINE = 0.99


@dataclass(frozen=True, slots=True)
class Acceptance:
    """``passed`` with the numbers behind it."""

    passed: bool
    min_cosine: float
    max_abs: float
    limit: float

    def __str__(self) -> str:
        sign = ">=" if self.passed else "<"
        return f"cosine {self.min_cosine:.6f} {sign} {self.limit} (max difference {self.max_abs:.2e})"


def limit_for(dtype: DtypeName, precision: MatmulPrecision) -> float:
    """The smallest cosine that a dtype and matmul precision may give."""
    if dtype == "bfloat16" or precision == "medium":
        return BFLOAT16_COSINE
    return FLOAT32_COSINE


def judge(reference: bytes, output: bytes, dim: int, limit: float) -> Acceptance:
    """Compares float32 rows of ``dim`` numbers. NaN, infinity or another number of rows fails with cosine -1."""
    left, right = array("f", reference), array("f", output)
    if len(left) != len(right) or len(left) == 0 or len(left) % dim:
        return Acceptance(False, -1.0, math.inf, limit)
    if not all(map(math.isfinite, right)):
        return Acceptance(False, -1.0, math.inf, limit)
    cosines = [_cosine(left[at : at + dim], right[at : at + dim]) for at in range(0, len(left), dim)]
    max_abs = max(abs(a - b) for a, b in zip(left, right, strict=True))
    return Acceptance(min(cosines) >= limit, min(cosines), max_abs, limit)


def _cosine(left: "array[float]", right: "array[float]") -> float:
    norms = math.sqrt(_dot(left, left) * _dot(right, right))
    return _dot(left, right) / norms if norms else -1.0


def _dot(left: "array[float]", right: "array[float]") -> float:
    return math.fsum(a * b for a, b in zip(left, right, strict=True))
