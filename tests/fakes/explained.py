"""Cases to be explained: a plan, figures, verdicts, and rollouts that ended or go on."""

from dataclasses import replace
from typing import Any

from gateway.core.explain import Case, Explained
from gateway.core.figures import ArmFigures, ClientFigures, Figures, PairFigures, Percentiles
from gateway.core.findings import MetricRow, Rule, Verdict, VerdictName
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.run import Outcome, Rollout, Run, State

LIMITS = {MetricId.LAT_P95: 400.0, MetricId.TTFT: 800.0, MetricId.ITL: 60.0}
PLAN = Plan(
    rollout="demo",
    steps=(0, 1000, 5000, 10_000),
    metrics=tuple(
        MetricLimit(metric=m, allowed=0.05, limit_ms=LIMITS.get(m)) for m in (MetricId.LAT_P95, MetricId.ERROR)
    ),
    parity=ParityPolicy(cosine_min=0.99),
    copies=5000,
    max_step_s=3600.0,
    declared_differences=("dtype", "device"),
)
FIGURES = Figures(
    counted_from=905.0,
    baseline=ArmFigures(live=3702, total=Percentiles(count=3700, p50=20.0, p95=41.0)),
    candidate=ArmFigures(live=203, failed=40, unavailable=3, total=Percentiles(count=400, p50=300.0, p95=812.0)),
    clients=ClientFigures(answered=3905, refused=7, by_candidate=190, failed_over=12, spared=4),
    pairs=PairFigures(
        pairs=520, bad=34, min_cosine=0.31, kinds=(("tolerance", 34),), worst_id="req-7", worst="cosine 0.31 in row 0"
    ),
    recent_s=6.0,
)


def row(metric: MetricId, **changes: Any) -> MetricRow:
    values: dict[str, Any] = {
        "metric": metric, "allowed": 0.05, "limit_ms": LIMITS.get(metric), "n_c": 412, "k_c": 38, "n_b": 3702, "k_b": 3,
        "evidence": 30.0, "bar": 20.0, "proof": 1.0, "proof_bar": 3.0, "passes": False, "windows": 9,
    }  # fmt: skip
    return MetricRow(**(values | changes))


def verdict(name: VerdictName, reason: str, metric: MetricId | None = None, **changes: Any) -> Verdict:
    values: dict[str, Any] = {
        "text": "the sentence", "rule": None, "evidence": 34.0, "bar": 20.0, "rows": (row(metric),) if metric else (),
        "missing": (), "notes": (),
    }  # fmt: skip
    return Verdict(name=name, reason=reason, metric=metric, **(values | changes))


def run(**changes: Any) -> Run:
    values: dict[str, Any] = {
        "run_id": "r7", "plan": PLAN, "plan_digest": "d", "started_at": 900.0, "who": "ann", "reason": "try", "step": 1,
        "step_since": 1000.0, "judged_from": 905.0,
    }  # fmt: skip
    return Run(**(values | changes))


def rolled_back(metric: str | None, rule: str, **changes: Any) -> Case:
    ended = run(
        outcome=Outcome.REFUSED if rule == "gate" else Outcome.ROLLED_BACK, metric=metric, rule=rule,
        text=changes.pop("text", "the sentence"), decided_weight=changes.pop("weight", 1000), decided_at=1014.0,
        time_to_zero_s=changes.pop("zero", 0.031), live_candidate_requests=203,
        acknowledged=changes.pop("acknowledged", 2), **changes.pop("of_run", {}),
    )  # fmt: skip
    case = Case(rollout=Rollout(state=State.ROLLED_BACK, run=ended), now=2000.0, arms=("gpu", "tpu"), figures=FIGURES)
    return replace(case, **changes)


def by_evidence(metric: MetricId, **changes: Any) -> Case:
    rule: Rule = "evidence"
    judged = verdict(VerdictName.ROLL_BACK, rule, metric, rule=rule)
    return rolled_back(str(metric), rule, **{"verdict": judged, **changes})


def under_way(state: State, judged: Verdict | None, **changes: Any) -> Case:
    case = Case(
        rollout=Rollout(state=state, weight=1000, run=run(paused_from=State.STEPPING)), now=1014.0, arms=("gpu", "tpu"),
        verdict=judged, figures=FIGURES,
    )  # fmt: skip
    return replace(case, **changes)


def told(explained: Explained) -> dict[str, str]:
    return {fact.label: fact.text for fact in explained.facts}


def pairs(**changes: Any) -> Figures:
    return replace(FIGURES, pairs=replace(FIGURES.pairs, **changes))
