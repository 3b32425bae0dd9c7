"""What a step counts and what it lacks."""

import json
from dataclasses import replace
from typing import Any

import pytest
from decision_cases import HEALTHY, Cells, vector_plan

from gateway.core.plan import STREAM, MetricId, MetricLimit
from gateway.core.sequential import Cell
from gateway.core.step import Step, StepTerms, resume_step

HELD_TO: dict[MetricId, float | None] = {
    MetricId.LAT_P50: 0.5,
    MetricId.LAT_P95: 0.05,
    MetricId.LAT_P99: 0.01,
    MetricId.ERROR: 0.003,
    MetricId.PARITY: 0.005,
}


def step_from(window: int = 0, *, baking: bool = False, baseline_required: bool = True, **plan: Any) -> Step:
    terms = StepTerms(
        weight_bp=1000,
        next_weight_bp=5000,
        window=window,
        started=window * 10.0,
        control=True,
        baseline_required=baseline_required,
        baking=baking,
    )
    return Step(plan=vector_plan(**plan), terms=terms)


def close(step: Step, count: int, *, first: int = 0, cells: Cells = HEALTHY) -> None:
    for window in range(first, first + count):
        step.close(window, cells, HELD_TO)


def reasons(step: Step, *, now: float, next_window: int) -> set[str]:
    return {gap.reason for gap in step.gaps(now=now, next_window=next_window)}


def test_a_full_step_lacks_nothing() -> None:
    """Enough events in enough windows, proven, old enough, both arms heard."""
    step = step_from()
    close(step, 30)
    assert step.gaps(now=300.0, next_window=30) == []
    assert step.passed == frozenset(HEALTHY)


def test_the_promotion_test_runs_where_a_round_of_windows_ends() -> None:
    """Every third window, counted on the wall clock and not from the step's first."""
    step = step_from(1)
    tested = []
    for window in range(1, 9):
        close(step, 1, first=window)
        tested.append(step.proofs[MetricId.ERROR].proof)
    assert tested[0] is None
    assert [value != before for before, value in zip([None, *tested], tested, strict=False)] == [
        False, True, False, False, True, False, False, True,
    ]  # fmt: skip


def test_a_test_that_fell_into_a_gap_is_made_up_for() -> None:
    """Windows left out may hide the end of a round; the test then runs on what there was."""
    step = step_from()
    close(step, 1)
    step.cross_gap(1, 2)
    assert step.proofs[MetricId.ERROR].proof is None
    step.cross_gap(1, 3)
    assert step.proofs[MetricId.ERROR].proof is not None


def test_rounds_that_ended_before_the_step_are_not_its_own() -> None:
    """A gap that began in the step before does not test the new one on nothing."""
    step = step_from(4)
    step.cross_gap(1, 5)
    assert step.proofs[MetricId.ERROR].proof is None


def test_proof_on_too_few_events_does_not_pass() -> None:
    """However strong the proof, the floor of events and the floor of windows both stand."""
    floored: tuple[dict[str, Any], ...] = ({"min_events": 1501}, {"min_windows": 31})
    for floors in floored:
        step = step_from(**floors)
        close(step, 30)
        assert step.proofs[MetricId.ERROR].is_proven
        assert MetricId.ERROR not in step.passed


def test_excused_answers_weigh_on_latency_alone() -> None:
    """An answer left out for a compile was slow, not wrong: error and parity are proven as before."""
    fair, excused = step_from(), step_from()
    excused.count(compiles=0, answered=0, excused=9, refused_unchecked=(0, 0, 0, 0))
    for step in (fair, excused):
        close(step, 30)
    weaker = {m for m in HEALTHY if (excused.proofs[m].proof or 0.0) < (fair.proofs[m].proof or 0.0)}
    assert weaker == {MetricId.LAT_P50, MetricId.LAT_P95, MetricId.LAT_P99}
    assert all(excused.proofs[m].proof == fair.proofs[m].proof for m in HEALTHY if m not in weaker)


@pytest.mark.parametrize(
    ("baking", "needed", "longest"), [(False, 300.0, 3600.0), (True, 1000.0, 4600.0)], ids=["step", "bake"]
)
def test_ages(baking: bool, needed: float, longest: float) -> None:
    """A bake lasts its own time, and max_step begins after it."""
    step = step_from(baking=baking, bake_s=1000.0)
    assert step.terms.needed_age_s(step.plan) == needed
    assert step.terms.longest_age_s(step.plan) == longest


def test_a_step_may_be_given_longer_than_the_plan_says() -> None:
    """What the run was given at the step's begin holds, through a checkpoint too; one without it is as it was."""
    step = step_from(baking=True, bake_s=1000.0)
    longer = Step(plan=step.plan, terms=replace(step.terms, max_step_s=9000.0))
    assert longer.terms.longest_age_s(step.plan) == 10_000.0
    assert resume_step(step.plan, json.loads(json.dumps(longer.checkpoint()))).terms == longer.terms
    assert "max_step_s" not in json.dumps(step.checkpoint())
    assert resume_step(step.plan, json.loads(json.dumps(step.checkpoint()))).terms == step.terms


def test_a_short_bake_still_has_the_age_of_a_step() -> None:
    """A bake time below min_step does not shorten the last step."""
    step = step_from(baking=True, bake_s=0.0)
    assert step.terms.needed_age_s(step.plan) == 300.0


def test_a_silent_baseline_matters_only_where_it_is_required() -> None:
    """Where the baseline is switched off by the plan its silence is not a gap."""
    alone = {m: Cell(c.n_c, c.k_c) for m, c in HEALTHY.items()}
    found = {}
    for required in (True, False):
        step = step_from(baseline_required=required)
        close(step, 30, cells=alone)
        found[required] = reasons(step, now=300.0, next_window=30)
    assert found == {True: {"no_data"}, False: set()}


@pytest.mark.parametrize(("later", "silent"), [(30, False), (31, True)])
def test_silence_is_measured_in_windows(later: int, silent: bool) -> None:
    """Thirty windows without an event are patience enough."""
    step = step_from()
    close(step, 30)
    next_window = 29 + later
    assert ("no_data" in reasons(step, now=next_window * 10.0, next_window=next_window)) is silent


def test_unchecked_refusals_are_summed_over_the_step() -> None:
    """The rates compared are those of the whole step, with the default limit where the plan has no refused metric."""
    step = step_from()
    close(step, 30)
    for k_c in (1, 0, 1):
        step.count(compiles=0, answered=100, excused=0, refused_unchecked=(1000, k_c, 9000, 0))
    assert step.refused_unchecked == (3000, 2, 27000, 0)
    assert reasons(step, now=300.0, next_window=30) == set()
    step.count(compiles=0, answered=100, excused=0, refused_unchecked=(0, 2, 0, 0))
    assert reasons(step, now=300.0, next_window=30) == {"refused_unchecked"}


def test_excused_streams_weigh_on_the_wait_for_their_first_event() -> None:
    """They left that metric when they met a compile; gaps and broken streams have nothing to do with it."""
    limits = tuple(MetricLimit(metric=m, allowed=0.05, limit_ms=100.0) for m in (MetricId.ERROR, *STREAM))
    proofs = []
    for excused in (0, 9):
        step = step_from(metrics=limits)
        step.count(compiles=0, answered=0, excused=excused, refused_unchecked=(0, 0, 0, 0))
        for window in range(3):
            cells = {limit.metric: Cell(100, 0, 900, 0) for limit in limits}
            step.close(window, cells, {limit.metric: 0.05 for limit in limits})
        proofs.append({metric: proof.proof for metric, proof in step.proofs.items()})
    fair, weaker = proofs
    assert {metric for metric in fair if weaker[metric] != fair[metric]} == {MetricId.TTFT}


@pytest.mark.parametrize(("excused", "answered", "too_many"), [(0, 0, 0), (2, 200, 0), (3, 299, 1), (5, 0, 5)])
def test_excused_answers_have_a_share(excused: int, answered: int, too_many: int) -> None:
    """One percent of the step's answers may be excused, rounded down."""
    step = step_from()
    step.count(compiles=0, answered=answered, excused=excused, refused_unchecked=(0, 0, 0, 0))
    assert step.excused_too_many == too_many


def test_only_what_was_left_out_is_excused() -> None:
    """A failed answer that met a compile is in the latency metrics as any failed one."""
    step = step_from()
    step.count(compiles=3, answered=100, excused=1, refused_unchecked=(0, 0, 0, 0))
    assert (step.compiles, step.excused) == (3, 1)


def test_a_checkpoint_holds_everything() -> None:
    """Through JSON and back the step has the same counts, terms and gaps."""
    step = step_from(2)
    close(step, 8, first=2)
    step.count(compiles=1, answered=400, excused=2, refused_unchecked=(4, 3, 2, 1))
    step.count_before(compiles=7, answered=70)
    again = resume_step(step.plan, json.loads(json.dumps(step.checkpoint())))
    assert again.checkpoint() == step.checkpoint()
    assert again.terms == step.terms
    assert again.gaps(now=200.0, next_window=10) == step.gaps(now=200.0, next_window=10)
    older = {key: value for key, value in step.checkpoint().items() if key not in ("resumes", "answered_before")}
    again = resume_step(step.plan, json.loads(json.dumps(older)))
    assert (again.resumes, again.compiles_before, again.answered_before) == (False, 7, 0)


def test_the_source_of_a_default_tolerance_is_told() -> None:
    """A parity tolerance that was measured on the emulator says so in every verdict."""
    plan = vector_plan()
    assert plan.parity is not None
    notes = step_from(parity=type(plan.parity)(cosine_min=0.99, source="measured on the emulator")).notes()
    assert notes == ["parity tolerance: measured on the emulator"]
