"""What all compared pairs of a run amount to: counts, the extremes, and the few worst to look at."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.compare.embeddings import PairKind, PairResult

KEEP: Final = 5
"""How many of the worst pairs are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """One pair by its request id: how it failed and by how much. Never the texts or the vectors."""

    request_id: str
    kind: PairKind
    min_cosine: float | None
    max_abs: float | None
    detail: str

    def badness(self) -> tuple[bool, float, str]:
        """Sorts worst first: what could not be compared at all, then the smallest cosine; ties by id."""
        comparable = self.min_cosine is not None
        return comparable, self.min_cosine if self.min_cosine is not None else 0.0, self.request_id


class ParityStats:
    """Adds up pairs in any order. ``min_cosine`` and ``max_abs`` are over all comparable pairs, never a mean."""

    __slots__ = ("kinds", "max_abs", "min_cosine", "worst")

    def __init__(self) -> None:
        self.kinds: Counter[PairKind] = Counter()
        self.min_cosine: float | None = None
        self.max_abs: float | None = None
        self.worst: list[Disagreement] = []
        """The worst failed pairs, worst first, at most KEEP."""

    @property
    def pairs(self) -> int:
        return self.kinds.total()

    @property
    def bad(self) -> int:
        return self.pairs - self.kinds[PairKind.OK]

    def add(self, request_id: str, result: PairResult) -> None:
        """Count one pair."""
        self.kinds[result.kind] += 1
        self._widen(result.min_cosine, result.max_abs)
        if not result.ok:
            found = Disagreement(
                request_id=request_id,
                kind=result.kind,
                min_cosine=result.min_cosine,
                max_abs=result.max_abs,
                detail=result.detail,
            )
            self._keep([found])

    def merge(self, other: "ParityStats") -> None:
        """Add everything that ``other`` counted; ``other`` stays as it is."""
        self.kinds.update(other.kinds)
        self._widen(other.min_cosine, other.max_abs)
        self._keep(other.worst)

    def sentence(self) -> str:
        """The worst failed pair in words, empty while there is none."""
        if not self.worst:
            return ""
        first = self.worst[0]
        return f"request {first.request_id}: {first.detail}"

    def checkpoint(self) -> dict[str, object]:
        """JSON-able; ``restore`` takes it."""
        return {
            "kinds": {str(kind): count for kind, count in self.kinds.items()},
            "min_cosine": self.min_cosine,
            "max_abs": self.max_abs,
            "worst": [[w.request_id, str(w.kind), w.min_cosine, w.max_abs, w.detail] for w in self.worst],
        }

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> "ParityStats":
        """The statistics of a checkpoint. KeyError or ValueError when it is none."""
        stats = cls()
        stats.kinds.update({PairKind(kind): int(count) for kind, count in saved["kinds"].items()})
        stats.min_cosine, stats.max_abs = saved["min_cosine"], saved["max_abs"]
        stats.worst = [
            Disagreement(request_id=id_, kind=PairKind(kind), min_cosine=cosine, max_abs=max_abs, detail=detail)
            for id_, kind, cosine, max_abs, detail in saved["worst"]
        ]
        return stats

    def _widen(self, min_cosine: float | None, max_abs: float | None) -> None:
        if min_cosine is not None:
            self.min_cosine = min_cosine if self.min_cosine is None else min(self.min_cosine, min_cosine)
        if max_abs is not None:
            self.max_abs = max_abs if self.max_abs is None else max(self.max_abs, max_abs)

    def _keep(self, found: list[Disagreement]) -> None:
        self.worst = sorted([*self.worst, *found], key=Disagreement.badness)[:KEEP]
