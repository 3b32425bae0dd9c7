"""What a journal line keeps of a decision comes back as it was."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.figures import (
    ArmFigures,
    ClientFigures,
    Figures,
    PairFigures,
    Percentiles,
    figures_data,
    read_figures,
    read_verdict,
    verdict_data,
)
from gateway.core.findings import BreakerCounts, CompileCounts, MetricRow, Verdict, VerdictName
from gateway.core.plan import MetricId

FIGURES = Figures(
    baseline=ArmFigures(live=9, total=Percentiles(count=8, p50=1.5, p95=None)),
    candidate=ArmFigures(copies=2, recent=Percentiles(count=1, p50=0.1, p95=0.2)),
    clients=ClientFigures(answered=5, spared=1),
    pairs=PairFigures(pairs=3, bad=1, min_cosine=0.123456789, kinds=(("status", 1),), worst_id="r", worst="w"),
    shapes=("4x128",),
    recent_s=6.0,
)
VERDICT = Verdict(
    name=VerdictName.ROLL_BACK, reason="evidence", text="the sentence", metric=MetricId.LAT_P95, rule="evidence",
    evidence=33.3, bar=20.0, missing=(), notes=("a note",),
    rows=(
        MetricRow(
            metric=MetricId.LAT_P95, allowed=0.05, limit_ms=400.0, n_c=4, k_c=1, n_b=3, k_b=0, evidence=30.0, bar=20.0,
            proof=None, proof_bar=3.0, passes=False, windows=2,
        ),
    ),
    breaker=BreakerCounts(baseline=(1, 0), candidate=(2, 2), seconds=3, scores=(0.0, 9.0), bar=8.0),
    compiles=CompileCounts(compiles=1, allowed=0, answered=None, shapes=("1x128",)),
)  # fmt: skip


def stored(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data))


def test_figures_come_back() -> None:
    """Through JSON, and from memory without it."""
    assert read_figures(stored(figures_data(FIGURES))) == FIGURES == read_figures(figures_data(FIGURES))


@pytest.mark.parametrize("metric", [MetricId.LAT_P95, "recompile", None])
def test_a_verdict_comes_back(metric: Any) -> None:
    """With the sentence that the run keeps; what promotion lacked is not kept."""
    verdict = replace(VERDICT, metric=metric)
    assert read_verdict(stored(verdict_data(verdict)), "the sentence") == verdict


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"verdict": "x"},
        {**verdict_data(VERDICT), "metrics": {"x": {}}},
        {**verdict_data(VERDICT), "rule": "x"},
    ],
)
def test_a_line_without_numbers_gives_none(data: Any) -> None:
    """Lines of an older version, or of another kind, are no verdict."""
    assert read_verdict(data, "") is None


@pytest.mark.parametrize("data", [None, {}, {"baseline": {}}, {**figures_data(FIGURES), "clients": {"x": 1}}])
def test_a_line_without_figures_gives_none(data: Any) -> None:
    """And nothing is raised."""
    assert read_figures(data) is None
