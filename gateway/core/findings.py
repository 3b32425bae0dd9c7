"""What the judge says: the verdict, its table, and the sentences for a tired person.

A verdict is never a boolean. Every sentence carries the number seen, the limit, the baseline's number and the samples
behind them.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from gateway.core.plan import MetricId


class VerdictName(StrEnum):
    ADVANCE = "ADVANCE"
    HOLD = "HOLD"
    INCONCLUSIVE = "INCONCLUSIVE"
    ROLL_BACK = "ROLL_BACK"


Rule = Literal["evidence", "breaker", "recompile"]
Blamed = MetricId | Literal["recompile"]

_WHAT_IS_BAD = {
    MetricId.ERROR: "candidate requests failed or found it unavailable",
    MetricId.REFUSED: "candidate answers refused what the baseline serves",
    MetricId.PARITY: "pairs differ by more than the tolerance",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One metric. Counts (events, bad events of each arm) are all of the present step.

    evidence: this metric's part of E; the parts add up to the verdict's. bar: what E must reach for a rollback.
    proof: logE+ at its last test, None before the first. proof_bar: what it must reach.
    passes: proven, on enough events and windows.
    """

    metric: MetricId
    allowed: float
    limit_ms: float | None
    n_c: int
    k_c: int
    n_b: int
    k_b: int
    evidence: float
    bar: float
    proof: float | None
    proof_bar: float
    passes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``reason`` is a short code, ``text`` the sentence; ``missing`` is what promotion still needs, now and needed.

    metric: the metric that the reason is about. rule: which rule rolls back, None for any other verdict.
    """

    name: VerdictName
    reason: str
    text: str
    metric: Blamed | None
    rule: Rule | None
    evidence: float
    bar: float
    rows: tuple[MetricRow, ...]
    missing: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One condition of promotion that is not met: reason code, sentence, and the metric it is about."""

    reason: str
    text: str
    metric: MetricId | None = None


def percent(share: float) -> str:
    """A share as people read it: three digits, as 0.25 %."""
    return f"{100.0 * share:.3g} %"


def share_of(bad: int, events: int) -> str:
    """``3 of 1,200 (0.25 %)``; ``none counted`` without events."""
    return f"{bad:,} of {events:,} ({percent(bad / events)})" if events else "none counted"


def metric_sentence(row: MetricRow) -> str:
    """What was seen of one metric in the present step, against its limit and the baseline."""
    what = _WHAT_IS_BAD.get(row.metric, f"candidate answers took longer than {row.limit_ms or 0.0:g} ms")
    baseline = "" if row.metric is MetricId.PARITY else f"; baseline: {share_of(row.k_b, row.n_b)}"
    return f"{row.metric}: {share_of(row.k_c, row.n_c)} {what}; allowed: {percent(row.allowed)}{baseline}"


def evidence_sentence(row: MetricRow, evidence: float) -> str:
    """Why the evidence rule rolls back."""
    return (
        f"{metric_sentence(row)}. Evidence against the candidate {evidence:.3g}, bar {row.bar:g};"
        f" {row.metric} contributes most ({row.evidence:.3g})."
    )


def breaker_sentence(
    *, baseline: tuple[int, int], candidate: tuple[int, int], seconds: int, scores: tuple[float, float], bar: float
) -> str:
    """What the breaker saw: (attempts, failed) of each arm over ``seconds``; scores of (baseline, candidate)."""
    return (
        f"{MetricId.ERROR}: {share_of(candidate[1], candidate[0])} candidate attempts failed in the last {seconds} s"
        f" (breaker score {scores[1]:g}, bar {bar:g}); baseline: {share_of(baseline[1], baseline[0])}"
        f" (score {scores[0]:g})."
    )


def recompile_sentence(*, compiles: int, allowed: int, answered: int | None) -> str:
    """Why the stop rule for recompiles rolls back. ``answered`` None: they belong to the step before."""
    where = "in the step before" if answered is None else f"among {answered:,} answers of this step"
    return (
        f"recompile: {compiles:,} compiles on the candidate's request path {where}; allowed: {allowed};"
        " inputs that the candidate declares must not compile once it is ready."
    )
