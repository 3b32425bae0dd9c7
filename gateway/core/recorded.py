"""Verdict and figures of a decision as the journal keeps them.

Readers take a line for what it is, foreign bytes: fields that they do not know are passed over, and a line of another
format, or with a field of another type, gives nothing.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Final, Literal, TypeVar

from gateway.core.figures import (
    ArmFigures,
    ClientFigures,
    FieldFigures,
    Figures,
    NoiseFigures,
    PairedFigures,
    PairFigures,
    Percentiles,
)
from gateway.core.findings import (
    Blamed,
    BreakerCounts,
    CompileCounts,
    MetricRow,
    Rule,
    StratumFinding,
    Verdict,
    VerdictName,
)
from gateway.core.plan import MetricId

FORMAT: Final = 1
RECOMPILE: Literal["recompile"] = "recompile"
_RULES: Final[dict[str, Rule]] = {"evidence": "evidence", "breaker": "breaker", "recompile": "recompile"}

Data = Mapping[str, Any]
T = TypeVar("T")


def figures_data(figures: Figures) -> dict[str, Any]:
    """JSON-able; ``read_figures`` takes it."""
    data = asdict(figures)
    if not figures.pairs.fields:
        del data["pairs"]["fields"]
    return data


def read_figures(data: object) -> Figures | None:
    """None when ``data`` is not what ``figures_data`` gave."""
    return _attempt(_figures, data)


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """The numbers behind a verdict, JSON-able; ``read_verdict`` takes them. What promotion lacked is not kept."""
    return {
        "verdict": str(verdict.name),
        "reason": verdict.reason,
        "text": verdict.text,
        "metric": str(verdict.metric) if verdict.metric else None,
        "rule": verdict.rule,
        "evidence": verdict.evidence,
        "bar": verdict.bar,
        "metrics": _rows_data(verdict.rows),
        "notes": list(verdict.notes),
        "breaker": asdict(verdict.breaker) if verdict.breaker else None,
        "compiles": asdict(verdict.compiles) if verdict.compiles else None,
        "strata": [
            {"name": each.name, "evidence": each.evidence, "metrics": _rows_data(each.rows)} for each in verdict.strata
        ],
        "stratum": verdict.stratum,
    }


def _rows_data(rows: Iterable[MetricRow]) -> dict[str, Any]:
    return {
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
        for row in rows
    }


def read_verdict(data: object) -> Verdict | None:
    """None when ``data`` is not what ``verdict_data`` gave."""
    return _attempt(_verdict, data)


def _attempt(read: Callable[[Data], T], data: object) -> T | None:
    try:
        return read(_mapping(data))
    except (KeyError, TypeError, ValueError):
        return None


def _figures(data: Data) -> Figures:
    clients, pairs = _mapping(data["clients"]), _mapping(data["pairs"])
    return Figures(
        counted_from=_number(data["counted_from"]),
        baseline=_arm(_mapping(data["baseline"])),
        candidate=_arm(_mapping(data["candidate"])),
        clients=ClientFigures(
            **{name: _count(clients[name]) for name in ClientFigures.__dataclass_fields__},
        ),
        pairs=PairFigures(
            pairs=_count(pairs["pairs"]),
            bad=_count(pairs["bad"]),
            min_cosine=_maybe(pairs["min_cosine"]),
            max_abs=_maybe(pairs["max_abs"]),
            kinds=tuple((_text(kind), _count(n)) for kind, n in pairs["kinds"]),
            worst_id=_text(pairs["worst_id"]),
            worst=_text(pairs["worst"]),
            fields=tuple(_field(each) for each in pairs.get("fields", ())),
        ),
        shapes=_texts(data["shapes"]),
        recent_s=_number(data["recent_s"]),
        # Not in older lines.
        paired=_paired(_mapping(data["paired"])) if "paired" in data else PairedFigures(),
        noise=_noise(_mapping(data["noise"])) if "noise" in data else NoiseFigures(),
    )


def _noise(data: Data) -> NoiseFigures:
    counts = {name: _count(data[name]) for name in ("wanted", "pairs", "bad")}
    return NoiseFigures(**counts, in_noise=_flag(data["in_noise"]), sentence=_text(data["sentence"]))


def _paired(data: Data) -> PairedFigures:
    factors = {name: _maybe(data[name]) for name in ("median", "low", "high", "coverage")}
    return PairedFigures(
        pairs=_count(data["pairs"]), blocks=_count(data["blocks"]), block_s=_number(data["block_s"]), **factors
    )


def _field(data: object) -> FieldFigures:
    found = _mapping(data)
    return FieldFigures(
        content=_text(found["content"]),
        field=_text(found["field"]),
        pairs=_count(found["pairs"]),
        bad=_count(found["bad"]),
        kinds=tuple((_text(kind), _count(n)) for kind, n in found["kinds"]),
        figures=tuple((_text(name), _number(value)) for name, value in found["figures"]),
    )


def _arm(data: Data) -> ArmFigures:
    counts = {name: _count(data[name]) for name in ("live", "failed", "unavailable")}
    phases = tuple((_text(phase), _count(n)) for phase, n in data.get("phases", ()))  # not in older lines
    return ArmFigures(**counts, phases=phases, total=_percentiles(data["total"]), recent=_percentiles(data["recent"]))


def _percentiles(data: object) -> Percentiles:
    found = _mapping(data)
    return Percentiles(count=_count(found["count"]), p50=_maybe(found["p50"]), p95=_maybe(found["p95"]))


def _verdict(data: Data) -> Verdict:
    bar = _number(data["bar"])
    return Verdict(
        name=VerdictName(data["verdict"]),
        reason=_text(data["reason"]),
        text=_text(data["text"]),
        metric=_blamed(data["metric"]),
        rule=_RULES[data["rule"]] if data["rule"] is not None else None,
        evidence=_number(data["evidence"]),
        bar=bar,
        rows=_rows(data["metrics"], bar),
        missing=(),
        notes=_texts(data["notes"]),
        breaker=_breaker(_mapping(data["breaker"])) if data["breaker"] is not None else None,
        compiles=_compiles(_mapping(data["compiles"])) if data["compiles"] is not None else None,
        # Not in older lines.
        strata=tuple(_stratum(_mapping(each), bar) for each in data.get("strata", ())),
        stratum=None if data.get("stratum") is None else _text(data["stratum"]),
    )


def _stratum(data: Data, bar: float) -> StratumFinding:
    return StratumFinding(
        name=_text(data["name"]), evidence=_number(data["evidence"]), rows=_rows(data["metrics"], bar)
    )


def _rows(data: object, bar: float) -> tuple[MetricRow, ...]:
    return tuple(_row(name, _mapping(row), bar) for name, row in _mapping(data).items())


def _blamed(name: object) -> Blamed | None:
    if name is None:
        return None
    return RECOMPILE if name == RECOMPILE else MetricId(_text(name))


def _row(name: str, row: Data, bar: float) -> MetricRow:
    (n_c, k_c), (n_b, k_b) = _counts(row["candidate"]), _counts(row["baseline"])
    return MetricRow(
        metric=MetricId(name), allowed=_number(row["allowed"]), limit_ms=_maybe(row["limit_ms"]), n_c=n_c, k_c=k_c,
        n_b=n_b, k_b=k_b, evidence=_number(row["evidence"]), bar=bar, proof=_maybe(row["proof"]),
        proof_bar=_number(row["proof_bar"]), passes=row["passes"] is True, windows=_count(row["windows"]),
    )  # fmt: skip


def _breaker(data: Data) -> BreakerCounts:
    baseline, candidate = data["scores"]
    return BreakerCounts(
        baseline=_counts(data["baseline"]),
        candidate=_counts(data["candidate"]),
        seconds=_count(data["seconds"]),
        scores=(_number(baseline), _number(candidate)),
        bar=_number(data["bar"]),
        worker=_text(data["worker"]),
        workers=_count(data["workers"]),
    )


def _compiles(data: Data) -> CompileCounts:
    answered = data["answered"]
    return CompileCounts(
        met=_count(data["met"]),
        allowed=_count(data["allowed"]),
        answered=None if answered is None else _count(answered),
        shapes=_texts(data["shapes"]),
    )


def _mapping(value: object) -> Data:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is no mapping")
    return value


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} is no whole number")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} is neither true nor false")
    return value


def _counts(value: object) -> tuple[int, int]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} is no pair")
    events, bad = value
    return _count(events), _count(bad)


def _number(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{type(value).__name__} is no number")
    return float(value)


def _maybe(value: object) -> float | None:
    return None if value is None else _number(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is no text")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__} is no list")
    return tuple(_text(each) for each in value)
