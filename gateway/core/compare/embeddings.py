"""Are two arms' embeddings of the same texts equal within the run's tolerance?

Bitwise equality is never asked for: devices round differently. What is asked is the smallest cosine over the rows,
never the mean, since one wrong sentence in a batch is one wrong answer. NaN, infinities, shapes, vectors of length
zero and a success on one side only are failures of their own, whatever the tolerance.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from gateway.core.plan import ParityPolicy


class PairKind(StrEnum):
    OK = "ok"
    TOLERANCE = "tolerance"
    NAN = "nan"
    """A value that is no finite number, or a vector of length zero, which has no direction to compare."""
    SHAPE = "shape"
    STATUS = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """One pair. The figures are None where the outputs could not be compared number by number.

    min_cosine: smallest cosine over the rows. max_abs: largest difference of two components.
    """

    kind: PairKind
    min_cosine: float | None = None
    max_abs: float | None = None
    detail: str = ""

    @property
    def ok(self) -> bool:
        """The pair counts as equal."""
        return self.kind is PairKind.OK


def is_pair(baseline: int, candidate: int) -> bool:
    """Two HTTP statuses that can be compared: a success on one side at least, a refusal (4xx) at worst on the other.

    Server errors, time-outs (408) and overload (429) are booked as failures of the arm and make no pair; two refusals
    are the client's fault and none either.
    """
    both = (baseline, candidate)
    return any(map(_is_success, both)) and all(_is_success(s) or _is_refusal(s) for s in both)


def compare_statuses(baseline: int, candidate: int) -> PairResult | None:
    """The failure when one arm succeeded and the other refused; None when both succeeded and the bodies decide.

    ValueError for statuses that make no pair.
    """
    if not is_pair(baseline, candidate):
        raise ValueError(f"status: baseline {baseline}, candidate {candidate}; a pair is 2xx with 2xx or with 4xx")
    if _is_success(baseline) and _is_success(candidate):
        return None
    return PairResult(kind=PairKind.STATUS, detail=f"status: baseline {baseline}, candidate {candidate}")


def compare_embeddings(
    baseline: NDArray[np.float32], candidate: NDArray[np.float32], policy: ParityPolicy
) -> PairResult:
    """Compare two arrays of shape [n, d], one row a text.

    Figures are computed in float64. A shape that differs, is empty or is not two-dimensional, a value that is not
    finite and a row of length zero fail whatever ``policy`` allows.
    """
    if baseline.shape != candidate.shape or baseline.ndim != 2 or baseline.size == 0:
        shapes = f"baseline {list(baseline.shape)}, candidate {list(candidate.shape)}"
        return PairResult(kind=PairKind.SHAPE, detail=f"shape: {shapes}; must be equal, [n, d] and not empty")
    left, right = baseline.astype(np.float64), candidate.astype(np.float64)
    for arm, rows in (("baseline", left), ("candidate", right)):
        if (fault := _fault(rows)) is not None:
            return PairResult(kind=PairKind.NAN, detail=f"{arm} {fault}")
    cosines = np.einsum("nd,nd->n", left, right) / (np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1))
    worst = int(np.argmin(cosines))
    # Rounding can carry a cosine a hair beyond 1; a bound of 1 must still be reachable, and none beyond it exists.
    min_cosine = min(1.0, max(-1.0, float(cosines[worst])))
    max_abs = float(np.max(np.abs(left - right)))
    broken = []
    if min_cosine < policy.cosine_min:
        broken.append(f"cosine {min_cosine:.6f} in row {worst}, must be at least {policy.cosine_min:g}")
    if policy.max_abs is not None and max_abs > policy.max_abs:
        broken.append(f"largest difference {max_abs:.3g}, must be at most {policy.max_abs:g}")
    kind = PairKind.TOLERANCE if broken else PairKind.OK
    return PairResult(kind=kind, min_cosine=min_cosine, max_abs=max_abs, detail="; ".join(broken))


def _fault(rows: NDArray[np.float64]) -> str | None:
    """What makes an array unfit for any comparison, with the first row it concerns."""
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        return f"row {int(np.argmax(bad))}: not a finite number"
    zero = ~rows.any(axis=1)
    if zero.any():
        return f"row {int(np.argmax(zero))}: length zero"
    return None


def _is_success(status: int) -> bool:
    return 200 <= status < 300


def _is_refusal(status: int) -> bool:
    return 400 <= status < 500 and status not in (408, 429)
