"""What follows from the traffic: expected times, horizon, the length of a step, the residual."""

from dataclasses import replace
from typing import Any

import pytest
from decision_cases import started, vector_plan

from gateway.core.outlook import MOST_RESIDUAL, events_to_prove, expect, min_horizon_s, residual, stretched_s, told
from gateway.core.plan import MetricId, MetricLimit, Plan, RuleParameters
from gateway.core.promotion import log_evidence, promotion_limit
from gateway.core.run import Run
from gateway.core.sequential import Cell
from gateway.core.verdict import VerdictName

P99 = MetricLimit(metric=MetricId.LAT_P99, allowed=0.01, limit_ms=80.0)
DAY_S = 86400.0


def run_of(plan: Plan, step: int = 0) -> Run:
    return Run(run_id="r", plan=plan, plan_digest="d", started_at=0.0, who="", reason="", step=step)


def live_plan(**changes: Any) -> Plan:
    fields: dict[str, Any] = {"steps": (100, 1000, 10_000), "metrics": (P99,), "parity": None, "copies": 0}
    return vector_plan(**(fields | changes))


@pytest.mark.parametrize("next_bp", [100, 1000, 10_000])
@pytest.mark.parametrize("allowed", [0.001, 0.01, 0.5, 0.85])
def test_as_many_events_prove_as_are_said_to(allowed: float, next_bp: int) -> None:
    """At half the allowed rate the proof is there with so many events, and not with one less."""
    rule = RuleParameters()
    limit = MetricLimit(metric=MetricId.ERROR, allowed=allowed)
    n = events_to_prove(limit, next_bp, rule)
    bound = promotion_limit(allowed, next_bp, rule)
    for events, proven in ((n, True), (n - 1.0, False)):
        assert (log_evidence(events, events * allowed / 2, bound, 1.0) >= 2.9957322736) is proven


@pytest.mark.parametrize(("rate", "weight"), [(20.0, 1000), (5.0, 1000), (40.0, 2500)])
def test_a_candidate_as_good_as_expected_passes_when_it_was_foretold(rate: float, weight: int) -> None:
    """The judge's own advance comes within a fifth of the expected time, fed evenly at half of the allowed rate."""
    metrics = (MetricLimit(metric=MetricId.ERROR, allowed=0.02),)
    plan = live_plan(steps=(weight, 5000, 10_000), metrics=metrics, stretch_s=DAY_S)
    expected = expect(run_of(plan), rate).step_s[0]
    assert expected is not None
    judge = started(plan, weight_bp=weight, next_weight_bp=5000, max_step_s=DAY_S)
    n_c, n_b = round(rate * 10 * weight / 10_000), round(rate * 10 * (1 - weight / 10_000))
    bad, passed = 0.0, None
    for window in range(400):
        bad += n_c * 0.01
        k_c, bad = int(bad), bad - int(bad)
        judge.close_window(window, {MetricId.ERROR: Cell(n_c, k_c, n_b, 0)}, compiles=0, answered=n_c)
        if judge.verdict(now=(window + 1) * 10.0).name is VerdictName.ADVANCE:
            passed = (window + 1) * 10.0
            break
    assert passed == pytest.approx(expected, rel=0.2, abs=30.0)


def test_one_request_a_second_does_not_prove_a_p99_at_one_percent_in_an_hour() -> None:
    """A plan whose step may last an hour is told at once that it will be held."""
    run = run_of(live_plan())
    run = replace(run, outlook=expect(run, 1.0))
    assert run.outlook is not None
    first = run.outlook.step_s[0]
    assert first is not None
    assert first > 5 * 3600
    assert "1 % about 13 h (but held after 60 min)" in told(run)


def test_more_traffic_and_more_copies_never_take_longer() -> None:
    """Expected times fall with the rate and with the copies, down to the plan's least time and the bake."""
    for faster, slower in (((2.0, 0), (1.0, 0)), ((1.0, 5000), (1.0, 0)), ((50_000.0, 0), (50.0, 0))):
        a, b = (expect(run_of(live_plan(copies=copies, soak=True)), rate).step_s for rate, copies in (faster, slower))
        assert all(x is not None and y is not None and x <= y for x, y in zip(a, b, strict=True))
    assert expect(run_of(live_plan()), 50_000.0).step_s == (300.0, 300.0, 3600.0)


@pytest.mark.parametrize("rate", [None, 0.0])
def test_without_traffic_the_plans_numbers_hold_and_that_is_said(rate: float | None) -> None:
    """Nothing is foretold, nothing is shortened, and the control keeps the largest share."""
    plan = live_plan(horizon_s=9000.0, stretch_s=DAY_S)
    run = run_of(plan)
    outlook = expect(run, rate)
    assert (outlook.rate, outlook.step_s, outlook.horizon_s) == (rate, (), 9000.0)
    assert stretched_s(run, rate) is None
    assert residual(plan, rate) == MOST_RESIDUAL
    said = told(replace(run, outlook=outlook))
    assert said.startswith("No times are foretold: ")
    assert ("no judged request came in" in said) is (rate == 0.0)
    assert said.endswith("Horizon of the evidence: 2.5 h.")


def test_a_run_of_an_earlier_version_tells_nothing() -> None:
    """It was started without expected times."""
    assert told(run_of(live_plan())) == ""


def test_the_horizon_is_the_planned_length_of_the_run() -> None:
    """At least two hours of the default rule; no step counts for more than it may last."""
    plan = live_plan(stretch_s=DAY_S)
    assert expect(run_of(plan), 50_000.0).horizon_s == min_horizon_s(plan.rule) == 7200.0
    slow = expect(run_of(plan), 2.0)
    assert slow.horizon_s == pytest.approx(sum(s or 0.0 for s in slow.step_s))
    hopeless = expect(run_of(plan), 1e-4)
    assert hopeless.step_s == (None, None, None)
    assert hopeless.horizon_s == 3 * DAY_S + plan.bake_s
    assert min_horizon_s(RuleParameters(window_s=1.0)) == 720.0
    said = told(replace(run_of(plan), outlook=hopeless))
    assert "1 % not at this traffic (held after 24 h)" in said
    assert "in all" not in said


def test_a_step_that_is_not_written_down_is_stretched_by_thin_traffic_alone() -> None:
    """Three times the expected time, never below the plan's and never above its bound; a written one stands."""
    plan = live_plan(stretch_s=DAY_S)
    for rate, most in ((5000.0, None), (1e-3, DAY_S)):
        assert stretched_s(run_of(plan), rate) == most
        assert stretched_s(run_of(replace(plan, stretch_s=None)), rate) is None
    expected = expect(run_of(plan), 2.0).step_s[0]
    assert expected is not None
    assert stretched_s(run_of(plan), 2.0) == pytest.approx(3 * expected)
    bake = run_of(replace(plan, bake_s=40_000.0), step=2)
    assert stretched_s(bake, 50.0) == stretched_s(run_of(plan, step=2), 50.0)  # the bake comes on top


@pytest.mark.parametrize(
    ("rate", "kept"),
    [(1.2, 0), (20 / 300 / 0.05, 500), (2.0, 334), (6.66, 101), (6.67, 100), (50.0, 100)],
)
def test_the_baseline_keeps_what_makes_it_a_control(rate: float, kept: int) -> None:
    """Twenty requests in 300 s out of 1 to 5 %; where even 5 % is too little there is no control."""
    assert residual(live_plan(), rate) == kept
    if kept:
        assert rate * 300 * kept / 10_000 >= 20 - 1e-9


@pytest.mark.parametrize("rate", [None, 0.0, 0.5, 50.0])
def test_a_written_residual_stands(rate: float | None) -> None:
    """Whatever the traffic, and a plan that gives the control up keeps nothing."""
    assert residual(live_plan(residual=250), rate) == 250
    assert residual(live_plan(residual=250, control_at_full=False), rate) == 0


def test_pairs_are_foretold_by_copies_and_not_required_without_a_baseline() -> None:
    """A plan with parity waits for pairs; at 100 % without control nobody does."""
    metrics = (MetricLimit(metric=MetricId.ERROR, allowed=0.05), MetricLimit(metric=MetricId.PARITY, allowed=0.005))
    few = vector_plan(metrics=metrics, copies=100, steps=(1000, 10_000))
    many = replace(few, copies=1000)
    a, b = (expect(run_of(plan), 20.0).step_s for plan in (few, many))
    assert a[0] is not None
    assert b[0] is not None
    assert a[0] > b[0]
    without = expect(run_of(replace(few, control_at_full=False, bake_s=0.0)), 20.0).step_s[1]
    assert without == 300.0


def test_a_thin_control_takes_its_time() -> None:
    """Where the baseline has just enough on average, half of the windows cannot be used."""
    plan = live_plan(steps=(9_900, 10_000), stretch_s=DAY_S, bake_s=0.0)
    full = [replace(plan, residual=kept) for kept in (100, 500)]
    thin, thick = (expect(run_of(each), 20 / 300 / 0.01).step_s[1] for each in full)
    assert thin is not None
    assert thick is not None
    assert 1.6 < thin / thick < 2.4


def test_copies_are_events_as_live_requests_are() -> None:
    """A step of copies alone is as quick as a live one that has as many events."""
    copied = vector_plan(steps=(0, 1000), metrics=(P99,), copies=1000, bake_s=0.0)
    live = replace(copied, steps=(1000, 1001), copies=0)
    a, b = (expect(run_of(plan), 20.0).step_s[0] for plan in (copied, live))
    assert a == pytest.approx(b, rel=1e-2)
