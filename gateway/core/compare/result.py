"""What comparisons say: a kind, the figures behind it and a sentence. Never what an answer held.

The tree: an ``Outcome`` is one rule on one place of two answers, a ``FieldResult`` the worst of a field's places, a
``PairComparison`` all fields of a pair. A sentence speaks of places, lengths and figures, so it may be logged.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class PairKind(StrEnum):
    """OK, beyond the tolerance, or a failure of its own, which no tolerance covers."""

    OK = "ok"
    TOLERANCE = "tolerance"
    NAN = "nan"
    """A value that is no number; a vector of length zero, which has no direction to compare."""
    INFINITY = "infinity"
    SHAPE = "shape"
    DTYPE = "dtype"
    """The two hold values of different types, or of a type that the field's rule cannot compare."""
    STATUS = "status"
    MISSING = "missing_field"
    UNEXPECTED = "unexpected_field"
    UNDECODABLE = "undecodable"
    TOO_LARGE = "too_large"
    """More places than are compared, and no difference among those that were."""


class NotCompared(StrEnum):
    """Why two answers were not compared. They are counted, and are neither evidence for the candidate nor against."""

    TOO_LARGE = "too_large"
    """Nothing differs as far as they were compared, and they go on."""
    QUEUE_FULL = "queue_full"
    """Too many pairs waited already."""
    SAMPLED = "sampled"
    """Text drawn at random, which another try would answer otherwise."""
    NO_POLICY = "no_policy"
    """The plan names no policy for such answers."""
    FAILED = "failed"
    """The comparison itself raised; the log says what."""


class Figure(StrEnum):
    """A number behind a result. Over places, rows and pairs the worst is kept, never a mean."""

    COSINE = "cosine"
    MAX_ABS = "max_abs"
    """Largest difference of two elements."""
    USED = "allowance_used"
    """Largest |candidate - baseline| as a multiple of what the rule allows there; beyond 1 it fails."""
    BEYOND = "elements_beyond"
    OVERLAP = "overlap"
    RANK = "rank_correlation"
    LABELS = "labels_differ"
    LENGTH = "length_differs"
    """Largest difference of two rows' lengths, as a share of the baseline's."""
    PREFIX_SHARE = "prefix_share"
    PREFIX_TOKENS = "prefix_tokens"
    DIFFERENCES = "differences"


WORSE_WHEN_SMALL: Final = frozenset(
    {Figure.COSINE, Figure.OVERLAP, Figure.RANK, Figure.PREFIX_SHARE, Figure.PREFIX_TOKENS}
)
Figures = Mapping[Figure, float]


def is_worse(figure: Figure, one: float, other: float) -> bool:
    """``one`` says more disagreement than ``other``."""
    return one < other if figure in WORSE_WHEN_SMALL else one > other


def worst_of(all_figures: Iterable[Figures]) -> dict[Figure, float]:
    """The worst of each figure. Taking extremes commutes: order and grouping do not matter."""
    worst: dict[Figure, float] = {}
    for figures in all_figures:
        for figure, value in figures.items():
            if figure not in worst or is_worse(figure, value, worst[figure]):
                worst[figure] = value
    return worst


@dataclass(frozen=True, slots=True)
class Outcome:
    """One rule on one place. The first figure is the one that the rule bounds; ``text`` names number and bound."""

    kind: PairKind
    figures: Figures = dataclasses.field(default_factory=dict)
    text: str = ""

    @property
    def ok(self) -> bool:
        return self.kind is PairKind.OK

    def is_worse_than(self, other: "Outcome") -> bool:
        """What could not be compared is worse than any figure, and any failure worse than none; then figures decide."""
        mine, its = _rank(self.kind), _rank(other.kind)
        if mine != its:
            return mine > its
        for figure, value in self.figures.items():
            if figure in other.figures and value != other.figures[figure]:
                return is_worse(figure, value, other.figures[figure])
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldResult:
    """All places of one field of a pair: the worst outcome and the worst figures. ``sentence`` is empty when it is ok.

    field: the field as the policy writes it; ``(rest)`` for what no field rule names.
    """

    field: str
    kind: PairKind
    figures: Figures = dataclasses.field(default_factory=dict)
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class PairComparison:
    """One pair of answers, field by field in the policy's order."""

    fields: tuple[FieldResult, ...]

    @property
    def failed(self) -> tuple[FieldResult, ...]:
        """The fields that differ, worst kinds first, else in the policy's order."""
        bad = [found for found in self.fields if found.kind is not PairKind.OK]
        return tuple(sorted(bad, key=lambda found: -_rank(found.kind)))

    @property
    def kind(self) -> PairKind:
        """That of the first failed field."""
        return next((found.kind for found in self.failed), PairKind.OK)

    @property
    def ok(self) -> bool:
        return not self.failed

    @property
    def sentence(self) -> str:
        """Every failed field in words; empty when the pair agrees."""
        return "; ".join(found.sentence for found in self.failed)

    def result(self, content: str) -> "PairResult":
        """The pair as the run's statistics count it; ``content`` keeps fields of different contents apart."""
        figures = worst_of(found.figures for found in self.fields)
        return PairResult(
            kind=self.kind,
            min_cosine=figures.get(Figure.COSINE),
            max_abs=figures.get(Figure.MAX_ABS),
            detail=self.sentence,
            content=content,
            fields=self.fields,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """One pair. The figures are None where the outputs could not be compared number by number.

    min_cosine: smallest cosine over the rows. max_abs: largest difference of two components.
    """

    kind: PairKind
    min_cosine: float | None = None
    max_abs: float | None = None
    detail: str = ""
    content: str = ""
    fields: tuple[FieldResult, ...] = ()

    @property
    def ok(self) -> bool:
        """The pair counts as equal."""
        return self.kind is PairKind.OK


def whole_answer(field: str, kind: PairKind, text: str) -> PairComparison:
    """A pair that failed before any field could be looked at: its status, or a body that is no answer."""
    return PairComparison((FieldResult(field=field, kind=kind, sentence=f"{field}: {text}"),))


def _rank(kind: PairKind) -> int:
    return {PairKind.OK: 0, PairKind.TOO_LARGE: 1, PairKind.TOLERANCE: 2}.get(kind, 3)
