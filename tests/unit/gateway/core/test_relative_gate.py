"""The relative gate: no worse than so many times the baseline, also within a limit. It proves nothing.

Every count is drawn by seed, so a run of the tests is the same as any other.
"""

from dataclasses import replace
from typing import Any

import pytest
from decision_cases import VECTORS, Cells, begin, limits, script_windows, started, vector_plan
from hypothesis import given, settings
from hypothesis import strategies as st
from strata_cases import EDGES, LAT, Arm, Rates, hours_convicted, lat_plan

from gateway.core.control import rate_at_most, relative_rate
from gateway.core.plan import MetricId, Plan, PlanError, RuleParameters
from gateway.core.sequential import Cell, EvidenceAgainst, MetricEvidence
from gateway.core.verdict import Judge, Verdict, VerdictName

GATE = RuleParameters(relative=1.5)


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("events", "bad", "at_most"),
    [(0, 0, 1.0), (20, 0, 0.19617), (300, 0, 0.01585), (300, 30, 0.14047), (20, 20, 1.0), (100000, 500, 0.005467)],
)
def test_an_upper_bound_of_a_rate(events: int, bad: int, at_most: float) -> None:
    """Two standard errors above the centre; never above 1."""
    assert rate_at_most(events, bad) == pytest.approx(at_most, abs=1e-5)


@settings(max_examples=200)
@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_the_bound_is_above_the_rate_and_rises_with_it(counts: tuple[int, int]) -> None:
    """One more bad event of the baseline never means that the candidate is held to less."""
    n, k = counts
    assert k / n <= rate_at_most(n, k) <= rate_at_most(n, k + 1) <= 1.0


@pytest.mark.parametrize(
    ("rates", "at_most", "held_to"),
    [([0.0], 0.001, 0.005), ([0.004], 0.0045, 0.006), ([0.004, 0.05], 0.006, 0.075), ([0.004], 0.008, 0.008)],
    ids=["half of what is allowed", "the trail", "a bad window of both arms", "the upper bound"],
)
def test_what_a_gate_of_one_and_a_half_holds_to(rates: list[float], at_most: float, held_to: float) -> None:
    """The highest of them; 1 % is allowed."""
    assert relative_rate(0.01, rates, at_most, 1.5) == near(held_to)


def held(rule: RuleParameters, cell: Cell, windows: int = 30) -> tuple[float | None, float | None]:
    """(what promotion sees, what the bets hold to) after as many equal windows."""
    (limit,) = limits((LAT, 0.05))
    evidence = MetricEvidence(limit, rule, horizon_wide=60.0)
    for _ in range(windows):
        seen = evidence.close(cell, closes_wide=False)
    return seen, evidence._held_to(cell, evidence.trail.total())


def test_the_bets_are_held_to_less_and_the_proof_is_not() -> None:
    """A baseline at 2 %: 3 % with the gate. Beyond the limit, or with a thin control, the gate changes nothing."""
    assert held(RuleParameters(), Cell(50, 1, 1000, 20)) == (0.05, 0.05)
    assert held(GATE, Cell(50, 1, 1000, 20)) == (0.05, near(0.03))
    assert held(GATE, Cell(50, 1, 1000, 0)) == (0.05, 0.025)
    assert held(GATE, Cell(50, 1, 100, 90)) == held(RuleParameters(), Cell(50, 1, 100, 90))
    assert held(GATE, Cell(50, 1, 19, 0), windows=1) == (None, None)
    assert held(GATE, Cell(50, 1, 20, 0), windows=1) == (0.05, 0.05)


counts = st.integers(0, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(counts, counts), min_size=1, max_size=20), st.floats(1.01, 10.0), st.floats(0.0001, 0.5))
def test_with_a_gate_the_candidate_is_never_held_to_more(
    windows: list[tuple[tuple[int, int], tuple[int, int]]], gate: float, allowed: float
) -> None:
    """Nor to a rate that does not exist; and what promotion is given is the same."""
    (limit,) = limits((LAT, allowed))
    gated = MetricEvidence(limit, RuleParameters(relative=gate), horizon_wide=60.0)
    plain = MetricEvidence(limit, RuleParameters(), horizon_wide=60.0)
    for candidate, baseline in windows:
        cell = Cell(*candidate, *baseline)
        assert gated.close(cell, closes_wide=False) == plain.close(cell, closes_wide=False)
        less, more = (each._held_to(cell, each.trail.total()) for each in (gated, plain))
        assert (less is None) is (more is None)
        assert less is None or more is None or 0.0 < less <= more


@pytest.mark.parametrize("script", VECTORS["scripts"], ids=lambda script: str(script["name"]))
def test_without_a_gate_nothing_is_different(script: dict[str, Any]) -> None:
    """A checkpoint has its old form, and one of a plan with a gate is of another plan."""
    judge = started()
    for number, cells in enumerate(script_windows(script)):
        judge.close_window(number, cells, compiles=0, answered=0)
    assert "relative" not in str(judge.checkpoint())
    with pytest.raises(ValueError, match=r"checkpoint\.plan"):
        Judge(vector_plan(rule=GATE), first_window=0, resume=judge.checkpoint())


def gated(plan: Plan) -> Plan:
    return replace(plan, rule=replace(plan.rule, relative=1.5))


MIX: Rates = (0.6, 0.3, 0.1)


@pytest.mark.parametrize(
    ("strata", "allowed", "rate", "candidate", "baseline"),
    [
        ((), 0.05, 0.04, 50, 450),
        ((), 0.05, 0.05, 50, 450),
        ((), 0.01, 0.008, 50, 450),
        ((), 0.01, 0.01, 50, 450),
        ((), 0.05, 0.04, 400, 100),
        ((), 0.01, 0.008, 400, 100),
        ((), 0.01, 0.008, 495, 5),
        (EDGES, 0.05, 0.04, 400, 100),
        (EDGES, 0.01, 0.01, 50, 450),
    ],
)
def test_equal_arms_at_their_limit_are_hardly_ever_convicted(
    strata: tuple[int, ...], allowed: float, rate: float, candidate: float, baseline: float
) -> None:
    """At most 1 hour of 20, whichever arm has more of the requests."""
    pair = (Arm(requests=n, mix=MIX, slow=(rate, rate, rate)) for n in (candidate, baseline))
    assert hours_convicted(gated(lat_plan(strata, allowed=allowed)), *pair, runs=20) <= 1


def test_three_times_the_baseline_is_found_within_the_limit() -> None:
    """With the gate in each of five hours, without it in none."""
    plan = lat_plan(())
    candidate, baseline = (Arm(requests=n, mix=MIX, slow=(s, s, s)) for n, s in ((50, 0.036), (450, 0.012)))
    assert hours_convicted(gated(plan), candidate, baseline, runs=5) == 5
    assert hours_convicted(plan, candidate, baseline, runs=5) == 0


def test_metrics_without_a_control_and_steps_without_one_know_no_gate() -> None:
    """Parity is held to its limit; at 100 % without a baseline everything is."""
    against = EvidenceAgainst(vector_plan(rule=GATE), first_window=0)
    parity = against.metrics[MetricId.PARITY]
    assert parity._held_to(Cell(25, 0), (0, 0)) == parity.allowed
    against.set_control(False)
    latency = against.metrics[MetricId.LAT_P95]
    assert latency._held_to(Cell(50, 1, 1000, 1), (3000, 3)) == latency.allowed


def judged(judge: Judge, cells: Cells, windows: int) -> Verdict:
    for number in range(windows):
        judge.close_window(number, cells, compiles=0, answered=500)
    return judge.verdict(now=windows * 10.0)


def test_the_verdict_says_what_the_gate_did() -> None:
    """A rollback within the limit names the gate; where there is no control nothing is said of it."""
    plan = gated(lat_plan(()))
    cells: Cells = {LAT: Cell(500, 20, 5000, 40)}
    verdict = judged(started(plan), cells, 60)
    assert (verdict.name, verdict.rule, verdict.metric) == (VerdictName.ROLL_BACK, "evidence", LAT)
    assert "allowed: 5 %; baseline: " in verdict.text
    assert ". The relative gate holds it to 1.5 times the baseline's rate where that is less. Evidence" in verdict.text
    note = "relative gate: beyond 1.5 times the baseline's rate counts against the candidate, within a limit as well"
    assert note in verdict.notes
    judge = started(plan)
    begin(judge, weight_bp=10_000, next_weight_bp=10_000, control=False, baseline_required=False)
    verdict = judged(judge, cells, 60)
    assert verdict.rule is None
    assert not any("relative gate" in text for text in (*verdict.notes, verdict.text))
    assert not any("relative gate" in note for note in judged(started(lat_plan(())), cells, 60).notes)


@pytest.mark.parametrize("gate", [1.0, 0.5, 10.1, float("nan")])
def test_a_gate_has_bounds(gate: float) -> None:
    """The error names field, value and what is allowed."""
    with pytest.raises(PlanError, match=r"relative_gate: .* must be above 1 and at most 10 times the baseline's rate"):
        lat_plan(rule=RuleParameters(relative=gate))


def test_bursts_of_each_arm_alone_convict_nobody() -> None:
    """The slow share of every window is drawn anew, half for both arms and half for each alone."""
    arms = [Arm(requests=n, mix=MIX, slow=(0.008, 0.008, 0.008)) for n in (50, 450)]
    assert hours_convicted(gated(lat_plan((), allowed=0.01)), *arms, runs=20, bursts=True) <= 1
