"""Seeded windows of requests in three classes, for tests of the rule with strata."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from decision_cases import Cells, limits, vector_plan

from gateway.core.plan import MetricId, Plan
from gateway.core.sequential import EMPTY, Cell
from gateway.core.stratified import evidence_against
from gateway.core.verdict import Judge, Verdict, VerdictName

LAT: MetricId = MetricId.LAT_P95
EDGES = (512, 4096)
SHORT, MIDDLE, LONG = "up to 512 B", "513 to 4096 B", "above 4096 B"

Rates = tuple[float, float, float]
Window = tuple[Cells, tuple[Cells, ...]]
"""The cells of all requests, and those of each class."""


def lat_plan(strata: tuple[int, ...] = EDGES, *, allowed: float = 0.05, **changes: Any) -> Plan:
    """``allowed`` of the answers may be slow; nothing else is judged."""
    fields: dict[str, Any] = {
        "metrics": limits((LAT, allowed)),
        "parity": None,
        "copies": 0,
        "steps": (1000, 5000, 10000),
        "strata": strata,
    }
    return vector_plan(**(fields | changes))


@dataclass(frozen=True, kw_only=True)
class Arm:
    """Requests a window, how they fall into the classes, and the share of slow ones in each."""

    requests: float
    mix: Rates
    slow: Rates


def together(strata: tuple[Cells, ...]) -> Cells:
    """The cells of all requests."""
    metrics = {metric for cells in strata for metric in cells}
    return {metric: sum((cells.get(metric, EMPTY) for cells in strata), EMPTY) for metric in metrics}


def stream(candidate: Arm, baseline: Arm, *, seed: int, windows: int = 360, bursts: bool = False) -> Iterator[Window]:
    """bursts: the slow share of each window is drawn anew around its mean, half for both arms, half for each alone."""
    rng = np.random.default_rng(seed)
    for _ in range(windows):
        shared = rng.gamma(2.0, 0.5) if bursts else 1.0
        strata = []
        for i in range(3):
            counts: list[int] = []
            for arm in (candidate, baseline):
                own = rng.gamma(2.0, 0.5) if bursts else 1.0
                n = int(rng.poisson(arm.requests * arm.mix[i]))
                counts += [n, int(rng.binomial(n, min(1.0, arm.slow[i] * shared * own)))]
            strata.append({LAT: Cell(*counts)})
        yield together(tuple(strata)), tuple(strata)


def convicted(plan: Plan, windows: Iterable[Window]) -> tuple[int, int | None] | None:
    """(window, class) of the conviction; None when there is none."""
    against = evidence_against(plan, first_window=0)
    for number, (cells, by_class) in enumerate(windows):
        against.close(number, cells, by_class)
        if against.convicts():
            return number, against.lead()[0]
    return None


def hours_convicted(plan: Plan, candidate: Arm, baseline: Arm, *, runs: int, bursts: bool = False) -> int:
    """Of ``runs`` hours, one a seed."""
    hours = (stream(candidate, baseline, seed=seed, bursts=bursts) for seed in range(runs))
    return sum(convicted(plan, hour) is not None for hour in hours)


def judged(judge: Judge, windows: Iterable[Window], *, width_s: float = 10.0) -> list[Verdict]:
    """Every window closed, and the judge asked after each; until it rolls back."""
    verdicts: list[Verdict] = []
    for number, (cells, by_class) in enumerate(windows):
        judge.close_window(number, cells, compiles=0, answered=cells[LAT].n_c, strata=by_class)
        verdicts.append(judge.verdict(now=(number + 1) * width_s))
        if verdicts[-1].name is VerdictName.ROLL_BACK:
            break
    return verdicts
