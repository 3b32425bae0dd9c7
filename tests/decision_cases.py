"""Plans, windows and scripts for tests of the decision rule. The vectors come from its reference implementation."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.core.plan import LATENCY, MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.sequential import Cell
from gateway.core.verdict import Judge

VECTORS: dict[str, Any] = json.loads((Path(__file__).parent / "data" / "decision_vectors.json").read_text())

Cells = dict[MetricId, Cell]


def limits(*metrics: tuple[MetricId, float]) -> tuple[MetricLimit, ...]:
    return tuple(MetricLimit(metric=m, allowed=p0, limit_ms=100.0 if m in LATENCY else None) for m, p0 in metrics)


VECTOR_LIMITS = limits(*((MetricId(m["id"]), m["p0"]) for m in VECTORS["metrics"]))
PARITY = ParityPolicy(cosine_min=0.99)


def vector_plan(**changes: Any) -> Plan:
    """The five metrics and the defaults that the vectors use."""
    fields: dict[str, Any] = {
        "rollout": "vectors",
        "steps": (0, 1000, 5000, 10000),
        "metrics": VECTOR_LIMITS,
        "parity": PARITY,
        "copies": 500,
        "horizon_s": 3600.0,
    }
    return Plan(**(fields | changes))


def script_windows(script: Mapping[str, Any]) -> Iterator[Cells]:
    for segment in script["segments"]:
        for _ in range(segment["times"]):
            for row in segment["cycle"]:
                yield {MetricId(metric): Cell(*counts) for metric, counts in row.items()}


HEALTHY: Cells = {
    MetricId.LAT_P50: Cell(50, 22, 450, 200),
    MetricId.LAT_P95: Cell(50, 2, 450, 15),
    MetricId.LAT_P99: Cell(50, 0, 450, 2),
    MetricId.ERROR: Cell(50, 0, 450, 0),
    MetricId.PARITY: Cell(25, 0, 0, 0),
}


def one_arm(cells: Cells, *, candidate: bool) -> Cells:
    """The same windows with one arm silent."""
    if candidate:
        return {m: Cell(c.n_c, c.k_c, 0, 0) for m, c in cells.items()}
    return {m: Cell(0, 0, c.n_b, c.k_b) for m, c in cells.items()}


def started(plan: Plan | None = None, **step: Any) -> Judge:
    """A judge at window 0 and time 0, in a step from 10 % towards 50 %."""
    judge = Judge(plan or vector_plan(), first_window=0)
    begin(judge, **step)
    return judge


def begin(judge: Judge, **step: Any) -> None:
    fields: dict[str, Any] = {
        "weight_bp": 1000,
        "next_weight_bp": 5000,
        "window": 0,
        "now": 0.0,
        "control": True,
        "baseline_required": True,
    }
    judge.start_step(**(fields | step))


def feed(judge: Judge, cells: Cells, *, first: int, count: int, **counts: Any) -> None:
    """Closes ``count`` equal windows."""
    fields: dict[str, Any] = {"compiles": 0, "answered": cells[MetricId.ERROR].n_c} | counts
    for window in range(first, first + count):
        judge.close_window(window, cells, **fields)
