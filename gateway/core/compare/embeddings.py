"""Embeddings as plain arrays under a bound on the cosine alone: what a plan's ``parity`` section asks for."""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from gateway.core.compare.content import Tensor
from gateway.core.compare.numbers import cosine
from gateway.core.compare.result import Figure
from gateway.core.compare.result import PairKind as PairKind
from gateway.core.compare.result import PairResult as PairResult
from gateway.core.compare.rules import Cosine
from gateway.core.compare.statuses import compare_statuses as compare_statuses
from gateway.core.compare.statuses import is_pair as is_pair


class Tolerance(Protocol):
    """``cosine_min`` is a lower bound on each row's cosine, ``max_abs`` an upper one on each component's difference."""

    @property
    def cosine_min(self) -> float: ...

    @property
    def max_abs(self) -> float | None: ...


def compare_embeddings(baseline: NDArray[np.float32], candidate: NDArray[np.float32], policy: Tolerance) -> PairResult:
    """Compare two arrays of shape [n, d], one row a text.

    A shape that differs, is empty or is not two-dimensional, a value that is not finite and a row of length zero fail
    whatever ``policy`` allows.
    """
    if baseline.shape != candidate.shape or baseline.ndim != 2 or baseline.size == 0:
        shapes = f"baseline {list(baseline.shape)}, candidate {list(candidate.shape)}"
        return PairResult(kind=PairKind.SHAPE, detail=f"shape: {shapes}; must be equal, [n, d] and not empty")
    rule = Cosine(min=policy.cosine_min, max_abs=policy.max_abs)
    left, right = (Tensor("FP32", side.astype(np.float64)) for side in (baseline, candidate))
    outcome = cosine(rule, left, right)
    # Until a plan names its fields, one kind covers every value that is not finite.
    kind = PairKind.NAN if outcome.kind is PairKind.INFINITY else outcome.kind
    return PairResult(
        kind=kind,
        min_cosine=outcome.figures.get(Figure.COSINE),
        max_abs=outcome.figures.get(Figure.MAX_ABS),
        detail=outcome.text,
    )
