"""The plan of a run: steps, limits, durations. A plan that could never decide, or decide anything, cannot be built.

All durations are seconds. The base window is the unit of the decision rule: the default rule has windows of 10 s and
60 s; a plan with a base window of 1 s runs the same rule ten times faster (the demo does; it is marked as such).
"""

import itertools
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from gateway.core.compare.policy import ComparePolicy, policy_of_text
from gateway.core.strata import edge_problems
from gateway.core.types import FULL_WEIGHT


class PlanError(ValueError):
    """The plan is refused. ``problems`` lists every fault: field, value, what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class MetricId(StrEnum):
    LAT_P50 = "lat_p50"
    LAT_P95 = "lat_p95"
    LAT_P99 = "lat_p99"
    ERROR = "error"
    REFUSED = "refused"
    PARITY = "parity"
    TTFT = "ttft"
    ITL = "itl"
    STREAM_BROKEN = "stream_broken"


LATENCY: Final = (MetricId.LAT_P50, MetricId.LAT_P95, MetricId.LAT_P99)
STREAM: Final = (MetricId.TTFT, MetricId.ITL, MetricId.STREAM_BROKEN)
"""Of event streams, which are in no latency metric."""
TIMED: Final = (*LATENCY, MetricId.TTFT, MetricId.ITL)
"""What is bad by a limit in milliseconds."""
EXCUSABLE: Final = (*LATENCY, MetricId.TTFT)
"""What an answer leaves when it met a compile."""

# Weights before renormalising over the metrics that the plan uses, and whether the baseline is a control.
# Source: the decision rule's table of metrics; the others were added with 0.15, `refused` without control.
METRIC_WEIGHT: Final = {
    MetricId.LAT_P50: 0.10,
    MetricId.LAT_P95: 0.15,
    MetricId.LAT_P99: 0.30,
    MetricId.ERROR: 0.30,
    MetricId.PARITY: 0.15,
    MetricId.REFUSED: 0.15,
    MetricId.TTFT: 0.15,
    MetricId.ITL: 0.15,
    MetricId.STREAM_BROKEN: 0.15,
}
HAS_CONTROL: Final = {
    MetricId.LAT_P50: True,
    MetricId.LAT_P95: True,
    MetricId.LAT_P99: True,
    MetricId.ERROR: True,
    MetricId.PARITY: False,
    MetricId.REFUSED: False,
    MetricId.TTFT: True,
    MetricId.ITL: True,
    MetricId.STREAM_BROKEN: True,
}
DEFAULT_ALLOWED: Final = {
    MetricId.LAT_P50: 0.50,
    MetricId.LAT_P95: 0.05,
    MetricId.LAT_P99: 0.01,
    MetricId.ERROR: 0.003,
    MetricId.REFUSED: 0.001,
    MetricId.PARITY: 0.005,
    MetricId.TTFT: 0.05,
    MetricId.ITL: 0.05,
    MetricId.STREAM_BROKEN: 0.003,
}

LEAST_NOISE_PAIRS: Final = 20
MOST_NOISE_PAIRS: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLimit:
    """At most ``allowed`` of the events may be bad. ``limit_ms`` makes a timed event bad; None elsewhere."""

    metric: MetricId
    allowed: float
    limit_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityPolicy:
    """When two embeddings count as equal; frozen before the run, never loosened. NaN, shape and status always fail.

    The short form: whoever compares other answers, or other fields, writes a ``ComparePolicy``.
    """

    cosine_min: float
    max_abs: float | None = None
    source: str = "plan"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleParameters:
    """Parameters of the decision rule, defaults as measured. ``window_s`` is the narrow window; the wide one is 6x.

    cautious: bets on wide windows alone. relative: the candidate is also held to this many times the baseline's own
    rate where that is below the limit; None: to the limit.
    """

    window_s: float = 10.0
    alpha_rollback: float = 0.05
    alpha_promote: float = 0.05
    rho: float = 1.1
    rho_cap: float = 0.05
    trail_windows: int = 3
    trail_max_windows: int = 30
    control_wanted: int = 50
    control_min: int = 20
    control_window_bad: int = 3
    kappa: float = 20.0
    sign_probability: float = 0.55
    sign_min_expected: float = 10.0
    min_bad_windows: int = 3
    start_wealth: float = 0.5
    wide_windows: int = 6
    gamma: float = 0.1
    gamma_cap: float = 0.1
    warn: float = 3.0
    group_windows: int = 3
    min_groups: int = 8
    promote_every_windows: int = 3
    clean_slack: float = 0.05
    breaker_threshold: float = 8.0
    breaker_hold_s: int = 3
    cautious: bool = False
    relative: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One rollout from start to finish.

    steps: weights in basis points, rising; the first may be 0 (copies only).
    parity, compare: when answers count as equal; one of them. ``compare`` is a policy's canonical text, so that plans
        are equal, hashed and stored by what they say.
    copies: share of baseline-served traffic copied to the candidate, basis points.
    soak: allow more copies than the next step's weight warrants.
    control_at_full: False gives up the baseline as control at 100 % (the verdict says so).
    residual: basis points that stay on the baseline at 100 % for as long as it is the control; None: by the traffic.
    stretch_s: thin traffic may stretch max_step_s to this; None: it stands as written.
    strata: edges of classes by the size of a request's body, bytes, rising; empty: all requests are judged together.
    noise_pairs: pairs of the baseline with itself to be compared in the first step (core/floor.py); 0: none.
    """

    rollout: str
    kind: str = "migration"
    steps: tuple[int, ...]
    metrics: tuple[MetricLimit, ...]
    recompile_limit: int = 0
    parity: ParityPolicy | None = None
    compare: str | None = None
    copies: int = 0
    soak: bool = False
    min_step_s: float = 300.0
    max_step_s: float = 3600.0
    stretch_s: float | None = None
    min_events: int = 200
    min_windows: int = 20
    bake_s: float = 3600.0
    horizon_s: float = 7200.0
    control_at_full: bool = True
    residual: int | None = None
    excuse_share: float = 0.01
    declared_differences: tuple[str, ...] = ()
    preset: str = "default"
    rule: RuleParameters = field(default_factory=RuleParameters)
    strata: tuple[int, ...] = ()
    noise_pairs: int = 0

    def __post_init__(self) -> None:
        problems = [*_step_problems(self), *_metric_problems(self), *_duration_problems(self)]
        problems += [*edge_problems(self.strata), *_gate_problems(self.rule.relative)]
        if problems:
            raise PlanError(problems)

    @property
    def policy(self) -> ComparePolicy | None:
        """The field by field policy, None where ``parity`` is all that is asked, or nothing is compared."""
        return None if self.compare is None else policy_of_text(self.compare)

    @property
    def compares(self) -> bool:
        """Answers are compared at all."""
        return self.parity is not None or self.compare is not None

    @property
    def tolerance_source(self) -> str:
        """Where the tolerances come from; ``plan`` when somebody wrote them down."""
        if self.parity is not None:
            return self.parity.source
        return "plan" if self.policy is None else self.policy.source

    def limit(self, metric: MetricId) -> MetricLimit | None:
        """The limit on ``metric``, None when the plan does not use it."""
        return next((m for m in self.metrics if m.metric is metric), None)

    def latency_limits_ms(self) -> tuple[float | None, float | None, float | None]:
        """(p50, p95, p99) limits in milliseconds, None where unused."""
        p50, p95, p99 = (limit.limit_ms if (limit := self.limit(m)) else None for m in LATENCY)
        return p50, p95, p99

    def stream_limits_ms(self) -> tuple[float | None, float | None]:
        """Limits in milliseconds on the wait for a stream's first event and on the gaps in it, None where unused."""
        first, gap = (limit.limit_ms if (limit := self.limit(m)) else None for m in (MetricId.TTFT, MetricId.ITL))
        return first, gap


def _percents(steps: tuple[int, ...]) -> list[float]:
    """As plans are written."""
    return [step / 100 for step in steps]


def _step_problems(plan: Plan) -> list[str]:
    steps, problems = plan.steps, []
    if not plan.rollout:
        problems.append("rollout: '' is not allowed; name the rollout")
    if plan.kind not in ("migration", "upgrade"):
        problems.append(f"run_kind: '{plan.kind}' is not allowed; migration or upgrade")
    if not steps:
        problems.append("steps: [] is not allowed; at least one weight above 0")
        return problems
    if any(not 0 <= w <= FULL_WEIGHT for w in steps):
        problems.append(f"steps: {_percents(steps)} must lie between 0 and 100 percent")
    if any(b <= a for a, b in itertools.pairwise(steps)):
        problems.append(f"steps: {_percents(steps)} must rise from step to step")
    if steps[-1] == 0:
        problems.append("steps: the last weight is 0; a plan that never sends live traffic decides nothing")
    if plan.residual is not None and not 0 < plan.residual <= 500:
        problems.append(f"residual: {plan.residual} must lie above 0 and not above 500 basis points")
    if not 0 <= plan.copies <= FULL_WEIGHT:
        problems.append(f"copies.share: {plan.copies} must lie between 0 and 10000 basis points")
    if steps[0] == 0 and plan.copies == 0:
        problems.append("copies.share: 0 with a shadow step gives no evidence; raise it or drop the step")
    return problems


def _metric_problems(plan: Plan) -> list[str]:
    problems = []
    seen = [m.metric for m in plan.metrics]
    if len(set(seen)) != len(seen):
        problems.append(f"slo: {[str(m) for m in seen]} names a metric twice")
    if not any(m in (*LATENCY, MetricId.ERROR) for m in seen):
        problems.append("slo: needs at least one latency metric or error; else nothing is checked")
    for m in plan.metrics:
        if not 0.0 < m.allowed < 0.9:
            problems.append(f"slo.{m.metric}.allowed: {m.allowed} must lie above 0 and below 0.9")
        if m.metric in TIMED and (m.limit_ms is None or m.limit_ms <= 0):
            problems.append(f"slo.{m.metric}.limit_ms: {m.limit_ms} must be above 0")
    if MetricId.PARITY in seen and not plan.compares:
        problems.append("parity: missing; slo.parity needs parity or compare, which say when outputs are equal")
    if plan.parity is not None and plan.compare is not None:
        problems.append("compare: given beside parity; only one of them can say when outputs are equal")
    if MetricId.PARITY in seen and plan.copies == 0:
        problems.append("copies.share: 0 leaves slo.parity without a single pair")
    if plan.parity is not None and not -1.0 <= plan.parity.cosine_min <= 1.0:
        problems.append(f"parity.cosine_min: {plan.parity.cosine_min} must lie between -1 and 1")
    if plan.noise_pairs and not LEAST_NOISE_PAIRS <= plan.noise_pairs <= MOST_NOISE_PAIRS:
        problems.append(
            f"noise_floor.pairs: {plan.noise_pairs} must be 0 (off) or {LEAST_NOISE_PAIRS} to {MOST_NOISE_PAIRS}"
        )
    if plan.noise_pairs and MetricId.PARITY not in seen:
        problems.append(f"noise_floor.pairs: {plan.noise_pairs} without slo.parity measures what nothing is held to")
    if plan.recompile_limit < 0:
        problems.append(f"slo.recompile.limit: {plan.recompile_limit} must be 0 or more")
    return problems


def _duration_problems(plan: Plan) -> list[str]:
    problems = [
        f"{name}: {value} must be above 0"
        for name, value in (
            ("rule.window_s", plan.rule.window_s),
            ("min_step_s", plan.min_step_s),
            ("max_step_s", plan.max_step_s),
            ("horizon_s", plan.horizon_s),
            ("min_events", plan.min_events),
            ("min_windows", plan.min_windows),
        )
        if value <= 0
    ]
    if plan.max_step_s <= plan.min_step_s:
        problems.append(f"max_step_s: {plan.max_step_s} must be above min_step_s ({plan.min_step_s})")
    if plan.stretch_s is not None and plan.stretch_s < plan.max_step_s:
        problems.append(f"stretch_s: {plan.stretch_s} must not be below max_step_s ({plan.max_step_s})")
    if plan.min_windows * plan.rule.window_s > plan.max_step_s:
        problems.append(
            f"min_windows: {plan.min_windows} windows of {plan.rule.window_s} s do not fit into"
            f" max_step_s ({plan.max_step_s})"
        )
    if plan.bake_s < 0:
        problems.append(f"bake_s: {plan.bake_s} must be 0 or more")
    return problems


def _gate_problems(relative: float | None) -> list[str]:
    if relative is None or 1.0 < relative <= 10.0:
        return []
    return [f"relative_gate: {relative} must be above 1 and at most 10 times the baseline's rate"]
