"""What the judge says: the verdict, its table, and the sentences for a tired person.

A verdict is never a boolean. Every sentence carries the number seen, the limit, the baseline's number and the samples
behind them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from gateway.core.plan import MetricId
from gateway.core.strata import in_requests


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
    MetricId.STREAM_BROKEN: "candidate streams were broken off by it",
}
_WHAT_IS_LATE = {
    MetricId.TTFT: "candidate streams began later than {ms:g} ms after the request",
    MetricId.ITL: "candidate streams had more than 5 % of their gaps longer than {ms:g} ms",
}
_SLOW: Final = "candidate answers took longer than {ms:g} ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One metric. Counts (events, bad events of each arm) are all of the present step.

    evidence: this metric's part of E; the parts add up to the verdict's. bar: what E must reach for a rollback.
    proof: logE+ at its last test, None before the first. proof_bar: what it must reach.
    passes: proven, on enough events and windows. windows: those of the step in which the candidate had an event.
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
    windows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StratumFinding:
    """One class of requests, with its table. evidence: E of this class by itself, of which the verdict's has a part."""

    name: str
    evidence: float
    rows: tuple[MetricRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerCounts:
    """What a breaker saw over ``seconds``: (attempts, failed) of each arm; scores of (baseline, candidate).

    worker, workers: whose breaker it is, of how many; empty for the judge's, which sees what all workers saw.
    """

    baseline: tuple[int, int]
    candidate: tuple[int, int]
    seconds: int
    scores: tuple[float, float]
    bar: float
    worker: str = ""
    workers: int = 0

    @property
    def where(self) -> str:
        """`` in worker w1 (of 4)``; empty when the numbers are everyone's."""
        return f" in worker {self.worker} (of {self.workers})" if self.worker else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileCounts:
    """The candidate's answers that met a compile in one step: how many, and how many the plan allows.

    answered: the candidate's successful answers of this step; None when those counted belong to the step before.
    shapes: those that compiled in the whole run, as far as its answers named them.
    """

    met: int
    allowed: int
    answered: int | None
    shapes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """``reason`` is a short code, ``text`` the sentence; ``missing`` is what promotion still needs, now and needed.

    metric: the metric that the reason is about. rule: which rule rolls back, None for any other verdict.
    breaker, compiles: what those two rules saw, where they speak. to_go_s: when a hold should end at present traffic,
    None when that cannot be foreseen.
    strata: the classes of requests, where the plan has any. stratum: the name of the class that the reason is about;
        None: all requests together.
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
    to_go_s: float | None = None
    breaker: BreakerCounts | None = None
    compiles: CompileCounts | None = None
    strata: tuple[StratumFinding, ...] = ()
    stratum: str | None = None

    def parts(self) -> dict[MetricId, float]:
        """Each metric's part of E, over all requests and in every class; they add up to ``evidence``."""
        tables = (self.rows, *(finding.rows for finding in self.strata))
        return {row.metric: sum(r.evidence for t in tables for r in t if r.metric is row.metric) for row in self.rows}

    def stratum_of(self, metric: str | None) -> str | None:
        """The class of requests to read ``metric`` in: the one that the reason is about, else None, all of them."""
        return self.stratum if metric == self.metric else None

    def row(self, metric: str | None) -> MetricRow | None:
        """The row of ``metric`` there; None when there is none."""
        return find_row(self.rows, self.strata, metric, self.stratum_of(metric))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One condition of promotion that is not met: reason code, sentence, the metric and the class it is about."""

    reason: str
    text: str
    metric: MetricId | None = None
    stratum: str | None = None


def find_row(
    rows: Iterable[MetricRow], strata: Iterable[StratumFinding], metric: str | None, stratum: str | None
) -> MetricRow | None:
    """The row of one metric in the class named ``stratum``, None: in all requests. None when there is none."""
    if stratum is not None:
        rows = next((finding.rows for finding in strata if finding.name == stratum), ())
    return next((row for row in rows if row.metric == metric), None)


def percent(share: float) -> str:
    """A share as people read it: three digits, as 0.25 %."""
    return f"{100.0 * share:.3g} %"


def share_of(bad: int, events: int) -> str:
    """``3 of 1,200 (0.25 %)``; ``none counted`` without events."""
    return f"{bad:,} of {events:,} ({percent(bad / events)})" if events else "none counted"


def metric_sentence(row: MetricRow, stratum: str | None = None) -> str:
    """What was seen of one metric in the present step, against its limit and the baseline."""
    late = _WHAT_IS_LATE.get(row.metric, _SLOW).format(ms=row.limit_ms or 0.0)
    what = _WHAT_IS_BAD.get(row.metric, late)
    baseline = "" if row.metric is MetricId.PARITY else f"; baseline: {share_of(row.k_b, row.n_b)}"
    return (
        f"{row.metric}{in_requests(stratum)}: {share_of(row.k_c, row.n_c)} {what};"
        f" allowed: {percent(row.allowed)}{baseline}"
    )


def gate_sentence(gate: float | None) -> str:
    """`` The relative gate ...``, to be put behind what a limit allows; empty without one."""
    if gate is None:
        return ""
    return f" The relative gate holds it to {gate:g} times the baseline's rate where that is less."


def evidence_sentence(row: MetricRow, evidence: float, stratum: str | None = None, *, gate: float | None = None) -> str:
    """Why the evidence rule rolls back. gate: the relative gate, where it holds the candidate in this metric."""
    return (
        f"{metric_sentence(row, stratum)}.{gate_sentence(gate)}"
        f" Evidence against the candidate {evidence:.3g}, bar {row.bar:g};"
        f" {row.metric}{in_requests(stratum)} contributes most ({row.evidence:.3g})."
    )


def breaker_sentence(seen: BreakerCounts) -> str:
    """What the breaker saw."""
    return (
        f"{MetricId.ERROR}: {share_of(seen.candidate[1], seen.candidate[0])} candidate attempts failed{seen.where} in"
        f" the last {seen.seconds} s (breaker score {seen.scores[1]:g}, bar {seen.bar:g}); baseline:"
        f" {share_of(seen.baseline[1], seen.baseline[0])} (score {seen.scores[0]:g})."
    )


def recompile_sentence(seen: CompileCounts) -> str:
    """Why the stop rule for recompiles rolls back."""
    where = "in the step before" if seen.answered is None else f"among {seen.answered:,} answers of this step"
    return (
        f"recompile: {waited_text(seen)} {where}; allowed: {seen.allowed};"
        " once the candidate is ready no request may wait for a compile."
    )


def waited_text(seen: CompileCounts) -> str:
    """``3 answers waited for a compile on the candidate's request path (shapes so far in this run: 4x128)``."""
    answers = "1 answer" if seen.met == 1 else f"{seen.met:,} answers"
    return f"{answers} waited for a compile on the candidate's request path{shapes_text(seen.shapes)}"


def shapes_text(shapes: tuple[str, ...], *, most: int = 6) -> str:
    """`` (shapes so far in this run: 1x128, 4x128)``, empty when the arm names none."""
    if not shapes:
        return ""
    more = f" and {len(shapes) - most} more" if len(shapes) > most else ""
    return f" (shapes so far in this run: {', '.join(shapes[:most])}{more})"


def read_breaker(saved: Mapping[str, Any] | None) -> BreakerCounts | None:
    """From the fields as a mapping. KeyError, TypeError or ValueError when they are not those of BreakerCounts."""
    if saved is None:
        return None
    (b_n, b_failed), (c_n, c_failed), (b_score, c_score) = saved["baseline"], saved["candidate"], saved["scores"]
    return BreakerCounts(
        baseline=(b_n, b_failed),
        candidate=(c_n, c_failed),
        seconds=saved["seconds"],
        scores=(b_score, c_score),
        bar=saved["bar"],
        worker=str(saved.get("worker", "")),
        workers=int(saved.get("workers", 0)),
    )


def read_compiles(saved: Mapping[str, Any] | None) -> CompileCounts | None:
    """From the fields as a mapping. KeyError or TypeError when they are not those of CompileCounts."""
    if saved is None:
        return None
    return CompileCounts(
        met=int(saved["met"] if "met" in saved else saved["compiles"]),
        allowed=saved["allowed"],
        answered=saved["answered"],
        shapes=tuple(str(shape) for shape in saved["shapes"]),
    )


def read_rows(saved: Iterable[Mapping[str, Any]]) -> tuple[MetricRow, ...]:
    """From the fields as mappings. TypeError or ValueError when they are not those of MetricRow."""
    return tuple(MetricRow(**{**row, "metric": MetricId(row["metric"])}) for row in saved)


def read_strata(saved: Iterable[Mapping[str, Any]]) -> tuple[StratumFinding, ...]:
    """From the fields as mappings. KeyError, TypeError or ValueError when they are not those of StratumFinding."""
    return tuple(
        StratumFinding(name=str(each["name"]), evidence=float(each["evidence"]), rows=read_rows(each["rows"]))
        for each in saved
    )
