"""The numbers that stand beside a verdict: what each arm did, what clients saw, how the pairs compared.

They are for people; no decision uses them. Together with the verdict they are written into the journal beside a
decision (recorded.py), so that the explanation of it stays the same whoever asks, and when.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of ``count`` successful answers, in milliseconds; None without answers."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm since counting began. Counts are of requests that are evidence: live ones, and copies to the candidate.

    total: latency since then. recent: over the last ``Figures.recent_s`` seconds.
    """

    live: int = 0
    failed: int = 0
    unavailable: int = 0
    total: Percentiles = Percentiles()
    recent: Percentiles = Percentiles()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFigures:
    """What clients got. answered: usable answers, of which ``by_candidate`` came from the candidate.

    refused: 4xx that the client got: its own fault, or a refusal that nobody could check.
    failed_over: the baseline answered in the candidate's place. spared: it answered what the candidate had refused.
    """

    answered: int = 0
    failed: int = 0
    refused: int = 0
    by_candidate: int = 0
    failed_over: int = 0
    spared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFigures:
    """One field of a policy over the pairs that showed it.

    content: the kind of answer. kinds: of disagreement, as in PairFigures. figures: (name, worst value) of each figure.
    """

    content: str
    field: str
    pairs: int
    bad: int
    kinds: tuple[tuple[str, int], ...]
    figures: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """Compared pairs. kinds: how often each kind of disagreement was seen. worst_id: the request of the worst pair.

    fields: those that disagreed, the most frequent first; empty for a plan without a policy for each field.
    """

    pairs: int = 0
    bad: int = 0
    min_cosine: float | None = None
    max_abs: float | None = None
    kinds: tuple[tuple[str, int], ...] = ()
    worst_id: str = ""
    worst: str = ""
    fields: tuple[FieldFigures, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of it, and the shapes that compiled on the candidate's request path.

    counted_from: wall time in seconds since which it was counted: a restart of the gateway begins anew.
    """

    counted_from: float
    baseline: ArmFigures = ArmFigures()
    candidate: ArmFigures = ArmFigures()
    clients: ClientFigures = ClientFigures()
    pairs: PairFigures = PairFigures()
    shapes: tuple[str, ...] = ()
    recent_s: float = 0.0
