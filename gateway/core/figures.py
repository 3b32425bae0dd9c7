"""The numbers that stand beside a verdict: what each arm did, what clients saw, how the pairs compared.

They are for people; no decision uses them. Together with the verdict they are written into the journal beside a
decision (recorded.py), so that the explanation of it stays the same whoever asks, and when.
"""

from dataclasses import dataclass

from gateway.core.compare.paired import CONFIDENCE


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of ``count`` successful answers, in milliseconds; None without answers."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm since counting began. Counts are of requests that are evidence: live ones, and copies to the candidate.

    phases: how often failed requests came how far (``types.Phase``), those that occurred.
    total: latency since then. recent: over the last ``Figures.recent_s`` seconds.
    """

    live: int = 0
    failed: int = 0
    unavailable: int = 0
    phases: tuple[tuple[str, int], ...] = ()
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
class PairedFigures:
    """Latency of the candidate as a multiple of the baseline's for the same request: median and interval over blocks.

    pairs: of which both sides are known. blocks: those used, each of ``block_s`` seconds. The factors and their
    coverage are None while there are too few blocks.
    """

    pairs: int = 0
    blocks: int = 0
    block_s: float = 0.0
    median: float | None = None
    low: float | None = None
    high: float | None = None
    coverage: float | None = None

    @property
    def sentence(self) -> str:
        """In words; empty without a pair."""
        if not self.pairs:
            return ""
        if self.median is None or self.low is None or self.high is None:
            seen = f"too few blocks of {self.block_s:g} s yet for an interval ({self.pairs:,} pairs)"
        else:
            # The interval covers the median at least this often; it is asked for by its nominal confidence.
            interval = f"{100 * CONFIDENCE:g} %: {self.low:.3g} to {self.high:.3g}"
            seen = f"{self.median:.3g}x ({interval}, {self.blocks} blocks of {self.block_s:g} s)"
        return f"candidate / baseline, same request: {seen}; information, decides nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFigures:
    """Pairs of the baseline with itself, of which ``wanted`` are enough. in_noise: the tolerance lies below its noise.

    sentence: the same in words, empty where none are wanted.
    """

    wanted: int = 0
    pairs: int = 0
    bad: int = 0
    in_noise: bool = False
    sentence: str = ""


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
    paired: PairedFigures = PairedFigures()
    noise: NoiseFigures = NoiseFigures()
