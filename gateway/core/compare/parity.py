"""What all compared pairs of a run amount to: counts, the extremes, and the few worst to look at."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.compare.result import Figure, Figures, PairKind, PairResult, worst_of

KEEP: Final = 5
"""How many of the worst pairs are remembered."""

FieldKey = tuple[str, str]
"""(kind of content, field as the policy names it)."""


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
        return self.kind is PairKind.TOLERANCE, 1.0 if self.min_cosine is None else self.min_cosine, self.request_id


class FieldStats:
    """One field over all pairs that showed it: how each went, and the worst of every figure."""

    __slots__ = ("figures", "kinds")

    def __init__(self, kinds: Mapping[PairKind, int] | None = None, figures: Figures | None = None) -> None:
        self.kinds: Counter[PairKind] = Counter(kinds or {})
        self.figures: dict[Figure, float] = dict(figures or {})

    @property
    def pairs(self) -> int:
        return self.kinds.total()

    @property
    def bad(self) -> int:
        return self.pairs - self.kinds[PairKind.OK]

    def add(self, kind: PairKind, figures: Figures) -> None:
        """Count one pair."""
        self.kinds[kind] += 1
        self.figures = worst_of((self.figures, figures))

    def merge(self, other: "FieldStats") -> None:
        """Add everything that ``other`` counted; ``other`` stays as it is."""
        self.kinds.update(other.kinds)
        self.figures = worst_of((self.figures, other.figures))


class ParityStats:
    """Adds up pairs in any order. ``min_cosine`` and ``max_abs`` are over all comparable pairs, never a mean."""

    __slots__ = ("fields", "kinds", "max_abs", "min_cosine", "worst")

    def __init__(self) -> None:
        self.kinds: Counter[PairKind] = Counter()
        self.min_cosine: float | None = None
        self.max_abs: float | None = None
        self.worst: list[Disagreement] = []
        """The worst failed pairs, worst first, at most KEEP."""
        self.fields: dict[FieldKey, FieldStats] = {}
        """As many as the policy names, whatever the answers hold."""

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
        for found in result.fields:
            self._field((result.content, found.field)).add(found.kind, found.figures)
        if not result.ok:
            worst = Disagreement(
                request_id=request_id,
                kind=result.kind,
                min_cosine=result.min_cosine,
                max_abs=result.max_abs,
                detail=result.detail,
            )
            self._keep([worst])

    def merge(self, other: "ParityStats") -> None:
        """Add everything that ``other`` counted; ``other`` stays as it is."""
        self.kinds.update(other.kinds)
        self._widen(other.min_cosine, other.max_abs)
        for key, stats in other.fields.items():
            self._field(key).merge(stats)
        self._keep(other.worst)

    def sentence(self) -> str:
        """The worst failed pair in words, empty while there is none."""
        if not self.worst:
            return ""
        first = self.worst[0]
        return f"request {first.request_id}: {first.detail}"

    def checkpoint(self) -> dict[str, object]:
        """JSON-able, the same for equal statistics; ``restore`` takes it."""
        return {
            "kinds": _counts(self.kinds),
            "min_cosine": self.min_cosine,
            "max_abs": self.max_abs,
            "worst": [[w.request_id, str(w.kind), w.min_cosine, w.max_abs, w.detail] for w in self.worst],
            "fields": [
                [*key, _counts(stats.kinds), {str(name): value for name, value in sorted(stats.figures.items())}]
                for key, stats in sorted(self.fields.items())
            ],
        }

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> "ParityStats":
        """The statistics of a checkpoint. KeyError or ValueError when it is none."""
        stats = cls()
        stats.kinds.update(_counted(saved["kinds"]))
        stats.min_cosine, stats.max_abs = saved["min_cosine"], saved["max_abs"]
        stats.worst = [
            Disagreement(request_id=id_, kind=PairKind(kind), min_cosine=cosine, max_abs=max_abs, detail=detail)
            for id_, kind, cosine, max_abs, detail in saved["worst"]
        ]
        # Absent in checkpoints of runs that compared embeddings alone.
        for content, field, kinds, figures in saved.get("fields", ()):
            worst = {Figure(name): float(value) for name, value in figures.items()}
            stats.fields[content, field] = FieldStats(_counted(kinds), worst)
        return stats

    def _field(self, key: FieldKey) -> FieldStats:
        return self.fields.setdefault(key, FieldStats())

    def _widen(self, min_cosine: float | None, max_abs: float | None) -> None:
        if min_cosine is not None:
            self.min_cosine = min_cosine if self.min_cosine is None else min(self.min_cosine, min_cosine)
        if max_abs is not None:
            self.max_abs = max_abs if self.max_abs is None else max(self.max_abs, max_abs)

    def _keep(self, found: list[Disagreement]) -> None:
        self.worst = sorted([*self.worst, *found], key=Disagreement.badness)[:KEEP]


def _counts(kinds: Mapping[PairKind, int]) -> dict[str, int]:
    return {str(kind): count for kind, count in sorted(kinds.items()) if count}


def _counted(saved: Mapping[str, Any]) -> dict[PairKind, int]:
    return {PairKind(kind): int(count) for kind, count in saved.items()}
