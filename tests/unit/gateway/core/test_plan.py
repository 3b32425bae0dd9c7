"""Plans that could decide nothing, or anything, cannot be built."""

from dataclasses import replace
from typing import Any

import pytest
from decision_cases import PARITY, VECTOR_LIMITS, limits, vector_plan

from gateway.core.plan import (
    DEFAULT_ALLOWED,
    HAS_CONTROL,
    METRIC_WEIGHT,
    STREAM,
    MetricId,
    MetricLimit,
    ParityPolicy,
    Plan,
    PlanError,
    RuleParameters,
)

ERROR_ONLY = limits((MetricId.ERROR, 0.01))


def test_a_sound_plan_is_built() -> None:
    """The plan of the vectors is sound, and gives its limits by name."""
    plan = vector_plan()
    assert plan.limit(MetricId.LAT_P99) == MetricLimit(metric=MetricId.LAT_P99, allowed=0.01, limit_ms=100.0)
    assert plan.limit(MetricId.REFUSED) is None
    assert plan.latency_limits_ms() == (100.0, 100.0, 100.0)


def test_unused_latency_limits_are_none() -> None:
    """A plan without p50 and p99 has no limits there."""
    plan = vector_plan(metrics=limits((MetricId.LAT_P95, 0.05)))
    assert plan.latency_limits_ms() == (None, 100.0, None)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"rollout": ""}, "rollout: '' is not allowed"),
        ({"kind": "trial"}, "run_kind: 'trial' is not allowed; migration or upgrade"),
        ({"steps": ()}, "steps: [] is not allowed"),
        ({"steps": (0, 10_001)}, "must lie between 0 and 100 percent"),
        ({"steps": (-1, 100)}, "must lie between 0 and 100 percent"),
        ({"steps": (1000, 500)}, "must rise from step to step"),
        ({"steps": (1000, 1000)}, "must rise from step to step"),
        ({"steps": (0,)}, "the last weight is 0"),
        ({"copies": 10_001}, "copies.share: 10001 must lie between 0 and 10000"),
        ({"copies": 0, "metrics": ERROR_ONLY}, "copies.share: 0 with a shadow step gives no evidence"),
        ({"copies": 0, "steps": (1000,)}, "copies.share: 0 leaves slo.parity without a single pair"),
        ({"metrics": (*ERROR_ONLY, *ERROR_ONLY)}, "names a metric twice"),
        ({"metrics": limits((MetricId.PARITY, 0.01))}, "needs at least one latency metric or error"),
        ({"metrics": ()}, "needs at least one latency metric or error"),
        ({"metrics": limits((MetricId.ERROR, 0.0))}, "slo.error.allowed: 0.0 must lie above 0 and below 0.9"),
        ({"metrics": limits((MetricId.ERROR, 0.9))}, "slo.error.allowed: 0.9 must lie above 0 and below 0.9"),
        ({"metrics": (MetricLimit(metric=MetricId.LAT_P95, allowed=0.05),)}, "slo.lat_p95.limit_ms: None"),
        ({"metrics": (MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=0.0),)}, "slo.lat_p95.limit_ms: 0.0"),
        ({"parity": None}, "parity: missing"),
        ({"parity": ParityPolicy(cosine_min=1.1)}, "parity.cosine_min: 1.1 must lie between -1 and 1"),
        ({"recompile_limit": -1}, "slo.recompile.limit: -1 must be 0 or more"),
        ({"rule": RuleParameters(window_s=0.0)}, "rule.window_s: 0.0 must be above 0"),
        ({"min_step_s": 0.0}, "min_step_s: 0.0 must be above 0"),
        ({"horizon_s": -1.0}, "horizon_s: -1.0 must be above 0"),
        ({"min_events": 0}, "min_events: 0 must be above 0"),
        ({"min_windows": 0}, "min_windows: 0 must be above 0"),
        ({"max_step_s": 300.0}, "max_step_s: 300.0 must be above min_step_s (300.0)"),
        ({"min_windows": 361}, "min_windows: 361 windows of 10.0 s do not fit into max_step_s (3600.0)"),
        ({"bake_s": -1.0}, "bake_s: -1.0 must be 0 or more"),
        ({"stretch_s": 3599.0}, "stretch_s: 3599.0 must not be below max_step_s (3600.0)"),
        ({"residual": 0}, "residual: 0 must lie above 0 and not above 500 basis points"),
        ({"residual": 501}, "residual: 501 must lie above 0 and not above 500 basis points"),
    ],
)
def test_an_unsound_plan_is_refused(change: dict[str, Any], problem: str) -> None:
    """The fault is named with field, value and what is allowed."""
    with pytest.raises(PlanError) as refused:
        vector_plan(**change)
    assert any(problem in text for text in refused.value.problems)


def test_all_faults_are_reported_at_once() -> None:
    """One attempt shows every problem."""
    with pytest.raises(PlanError) as refused:
        vector_plan(rollout="", steps=(500, 100), min_events=0, bake_s=-1.0)
    assert len(refused.value.problems) == 4
    assert str(refused.value) == "; ".join(refused.value.problems)


def test_every_metric_has_its_defaults() -> None:
    """Weight, control and default limit are given for every metric."""
    for table in (METRIC_WEIGHT, HAS_CONTROL, DEFAULT_ALLOWED):
        assert set(table) == set(MetricId)


def test_the_defaults_are_those_of_the_rule() -> None:
    """A plan that says nothing has the floors and durations of the measured rule."""
    plan = Plan(rollout="r", steps=(100, 10_000), metrics=VECTOR_LIMITS, parity=PARITY, copies=500)
    assert (plan.min_step_s, plan.min_events, plan.min_windows, plan.max_step_s) == (300.0, 200, 20, 3600.0)
    assert (plan.bake_s, plan.horizon_s, plan.recompile_limit, plan.excuse_share) == (3600.0, 7200.0, 0, 0.01)


def test_limits_on_streams_are_in_milliseconds() -> None:
    """None where the plan does not judge them; each of them needs its limit."""
    assert vector_plan().stream_limits_ms() == (None, None)
    first, gap, broken = (
        MetricLimit(metric=m, allowed=0.05, limit_ms=ms) for m, ms in zip(STREAM, (800.0, 60.0, None), strict=True)
    )
    assert vector_plan(metrics=(*VECTOR_LIMITS, first, gap, broken)).stream_limits_ms() == (800.0, 60.0)
    with pytest.raises(PlanError) as refused:
        vector_plan(metrics=(*VECTOR_LIMITS, replace(first, limit_ms=None), replace(gap, limit_ms=0.0)))
    assert refused.value.problems == [
        "slo.ttft.limit_ms: None must be above 0",
        "slo.itl.limit_ms: 0.0 must be above 0",
    ]
