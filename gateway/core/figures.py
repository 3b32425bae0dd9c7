"""The numbers that stand beside a verdict: what each arm did, what clients saw, how the pairs compared.

They are for people; no decision uses them. Together with the verdict they are written into the journal at the moment
of a decision, so that the explanation of it stays the same whoever asks, and when.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gateway.core.findings import Blamed, MetricRow, Rule, Verdict, VerdictName, read_breaker, read_compiles
from gateway.core.plan import MetricId

_RULES: dict[str, Rule] = {"evidence": "evidence", "breaker": "breaker", "recompile": "recompile"}
RECOMPILE: Literal["recompile"] = "recompile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of ``count`` successful answers, in milliseconds; None without answers."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """One arm since judging began. Counts are of requests that are evidence: live ones, and copies to the candidate.

    total: latency since then. recent: over the last ``Figures.recent_s`` seconds.
    """

    live: int = 0
    copies: int = 0
    failed: int = 0
    unavailable: int = 0
    refused: int = 0
    compiles: int = 0
    total: Percentiles = Percentiles()
    recent: Percentiles = Percentiles()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFigures:
    """What clients got. answered: usable answers, of which ``by_candidate`` came from the candidate.

    failed_over: the baseline answered in the candidate's place. spared: it answered what the candidate had refused.
    """

    answered: int = 0
    failed: int = 0
    by_candidate: int = 0
    failed_over: int = 0
    spared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """Compared pairs. kinds: how often each kind of disagreement was seen. worst_id: the request of the worst pair."""

    pairs: int = 0
    bad: int = 0
    min_cosine: float | None = None
    max_abs: float | None = None
    kinds: tuple[tuple[str, int], ...] = ()
    worst_id: str = ""
    worst: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """All of it, and the shapes that compiled on the candidate's request path."""

    baseline: ArmFigures = ArmFigures()
    candidate: ArmFigures = ArmFigures()
    clients: ClientFigures = ClientFigures()
    pairs: PairFigures = PairFigures()
    shapes: tuple[str, ...] = ()
    recent_s: float = 0.0


def figures_data(figures: Figures) -> dict[str, Any]:
    """JSON-able; ``read_figures`` takes it."""
    return asdict(figures)


def read_figures(data: Mapping[str, Any] | None) -> Figures | None:
    """The figures of a journal line; None when it has none that can be read."""
    if not data:
        return None
    try:
        return Figures(
            baseline=_arm(data["baseline"]),
            candidate=_arm(data["candidate"]),
            clients=ClientFigures(**data["clients"]),
            pairs=_pairs(data["pairs"]),
            shapes=tuple(data["shapes"]),
            recent_s=data["recent_s"],
        )
    except (KeyError, TypeError, ValueError):
        return None


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """The numbers behind a verdict, for the journal; ``read_verdict`` takes them."""
    return {
        "verdict": str(verdict.name),
        "reason": verdict.reason,
        "metric": str(verdict.metric) if verdict.metric else None,
        "rule": verdict.rule,
        "evidence": verdict.evidence,
        "bar": verdict.bar,
        "metrics": {
            str(row.metric): {
                "candidate": [row.n_c, row.k_c],
                "baseline": [row.n_b, row.k_b],
                "allowed": row.allowed,
                "limit_ms": row.limit_ms,
                "windows": row.windows,
                "evidence": row.evidence,
                "proof": row.proof,
                "proof_bar": row.proof_bar,
                "passes": row.passes,
            }
            for row in verdict.rows
        },
        "notes": list(verdict.notes),
        "breaker": asdict(verdict.breaker) if verdict.breaker else None,
        "compiles": asdict(verdict.compiles) if verdict.compiles else None,
    }


def read_verdict(data: Mapping[str, Any] | None, text: str) -> Verdict | None:
    """The verdict of a journal line, whose sentence is ``text``; None when the line holds none that can be read."""
    if not data:
        return None
    try:
        return Verdict(
            name=VerdictName(data["verdict"]),
            reason=data["reason"],
            text=text,
            metric=_blamed(data["metric"]),
            rule=_RULES[data["rule"]] if data["rule"] else None,
            evidence=data["evidence"],
            bar=data["bar"],
            rows=tuple(_row(name, row, data["bar"]) for name, row in data["metrics"].items()),
            missing=(),
            notes=tuple(data["notes"]),
            breaker=read_breaker(data.get("breaker")),
            compiles=read_compiles(data.get("compiles")),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _blamed(name: str | None) -> Blamed | None:
    if name is None:
        return None
    return RECOMPILE if name == RECOMPILE else MetricId(name)


def _row(name: str, row: Mapping[str, Any], bar: float) -> MetricRow:
    (n_c, k_c), (n_b, k_b) = row["candidate"], row["baseline"]
    return MetricRow(
        metric=MetricId(name), allowed=row["allowed"], limit_ms=row["limit_ms"], n_c=n_c, k_c=k_c, n_b=n_b, k_b=k_b,
        evidence=row["evidence"], bar=bar, proof=row["proof"], proof_bar=row["proof_bar"], passes=row["passes"],
        windows=row["windows"],
    )  # fmt: skip


def _arm(data: Mapping[str, Any]) -> ArmFigures:
    latencies = {name: Percentiles(**data[name]) for name in ("total", "recent")}
    return ArmFigures(**{**data, **latencies})


def _pairs(data: Mapping[str, Any]) -> PairFigures:
    kinds = tuple((str(kind), int(n)) for kind, n in data["kinds"])
    return PairFigures(**{**data, "kinds": kinds})
