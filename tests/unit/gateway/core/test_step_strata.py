"""A verdict with strata: it names the class, holds for one, shows each, and says where one disagrees with the whole."""

import json
from dataclasses import replace

import pytest
from decision_cases import started
from strata_cases import EDGES, LAT, LONG, MIDDLE, SHORT, Arm, Rates, Window, judged, lat_plan, stream, together

from gateway.core.findings import find_row
from gateway.core.plan import RuleParameters
from gateway.core.sequential import Cell
from gateway.core.step_strata import StepStrata
from gateway.core.verdict import Judge, VerdictName

MIX: Rates = (0.6, 0.35, 0.05)
HEALTHY = Arm(requests=200, mix=MIX, slow=(0.01, 0.01, 0.01))
SLOW_WHERE_LONG = Arm(requests=200, mix=MIX, slow=(0.01, 0.01, 0.4))


def window(short: Cell, middle: Cell, long: Cell) -> Window:
    strata = tuple({LAT: cell} for cell in (short, middle, long))
    return together(strata), strata


def test_a_rollback_names_the_class_and_shows_all() -> None:
    """Metric, class, its own numbers and its own baseline; the rows of the moment stay."""
    verdict = judged(started(lat_plan()), stream(SLOW_WHERE_LONG, HEALTHY, seed=5))[-1]
    assert (verdict.name, verdict.rule, verdict.metric, verdict.stratum) == (
        VerdictName.ROLL_BACK, "evidence", LAT, LONG,
    )  # fmt: skip
    row = verdict.row(LAT)
    assert row is not None
    assert verdict.text.startswith(f"lat_p95 in requests above 4096 B: {row.k_c} of {row.n_c} (")
    assert f"baseline: {row.k_b} of {row.n_b} (" in verdict.text
    assert "lat_p95 in requests above 4096 B contributes most" in verdict.text
    assert [finding.name for finding in verdict.strata] == [SHORT, MIDDLE, LONG]
    assert verdict.parts() == {LAT: pytest.approx(verdict.evidence, rel=1e-12)}
    assert verdict.parts()[LAT] > verdict.rows[0].evidence
    assert sum(finding.rows[0].n_c for finding in verdict.strata) == verdict.rows[0].n_c
    assert find_row(verdict.rows, verdict.strata, "lat_p95", None) == verdict.rows[0]
    assert find_row(verdict.rows, verdict.strata, "error", LONG) is None


def test_without_strata_the_same_windows_advance() -> None:
    """The contrast: over all requests the candidate keeps its limit, and is passed."""
    verdicts = judged(started(lat_plan(())), stream(SLOW_WHERE_LONG, HEALTHY, seed=5, windows=120))
    assert VerdictName.ROLL_BACK not in {verdict.name for verdict in verdicts}
    assert VerdictName.ADVANCE in {verdict.name for verdict in verdicts}
    assert all((verdict.strata, verdict.stratum) == ((), None) for verdict in verdicts)


def test_a_class_under_suspicion_holds_the_step_by_its_name() -> None:
    """The whole is proven and far from suspicion, one class stands at the warning: no more traffic."""
    plan = lat_plan(min_events=1, min_windows=1, min_step_s=1.0, rule=RuleParameters(min_bad_windows=50))
    judge = started(plan)
    good = window(Cell(400, 4, 400, 4), Cell(200, 2, 200, 2), Cell(20, 0, 20, 0))
    bad = window(Cell(400, 4, 400, 4), Cell(200, 2, 200, 2), Cell(20, 7, 20, 0))
    verdicts = judged(judge, [good] * 9)
    assert verdicts[-1].name is VerdictName.ADVANCE
    for number in range(9, 15):
        judge.close_window(number, bad[0], compiles=0, answered=620, strata=bad[1])
        found = judge.verdict(now=(number + 1) * 10.0)
        evidence = {finding.name: finding.evidence for finding in found.strata}
        if evidence[LONG] >= plan.rule.warn:
            break
    assert found.evidence < plan.rule.warn
    assert (found.name, found.reason, found.metric, found.stratum) == (VerdictName.HOLD, "suspect", LAT, LONG)
    assert found.missing[0].startswith("evidence against the candidate in requests above 4096 B alone: ")
    assert found.missing[0].endswith("must be below 3")
    assert "lat_p95 in requests above 4096 B: " in found.text


def test_all_requests_under_suspicion_hold_the_step_as_without_strata() -> None:
    """Evidence over all requests is halved for the bar of a rollback, and not for the guard: strata ease no pass."""
    bad = Cell(60, 6, 6, 0)  # 18 baseline requests a class in three windows say nothing, 54 together do
    windows = [window(bad, bad, bad)] * 3 + [window(*[Cell(60, 6, 0, 0)] * 3)] * 9
    without = judged(started(lat_plan(())), windows)
    number, found = next((n, v) for n, v in enumerate(judged(started(lat_plan()), windows)) if v.reason == "suspect")
    assert [v.reason for v in without[: number + 1]] == [*["too_few"] * number, "suspect"]
    assert found.evidence < lat_plan().rule.warn <= without[number].evidence
    assert (found.name, found.metric, found.stratum) == (VerdictName.HOLD, LAT, None)
    assert found.missing[0].startswith("evidence against the candidate over all requests alone: ")


def test_an_open_minute_hides_no_suspicion_of_a_class() -> None:
    """What a class has against the candidate is looked at as if the minute ended here."""
    good = Cell(400, 4, 400, 4)
    windows = [window(good, good, Cell(40, bad, 400, 4)) for bad in (4, 4, 4, 4, 4, 7, 1)]
    found = judged(started(lat_plan()), windows)[-1]
    assert found.strata[2].evidence < lat_plan().rule.warn
    assert (found.name, found.reason, found.stratum) == (VerdictName.HOLD, "suspect", LONG)


def test_a_step_is_proven_as_without_strata() -> None:
    """The proof over all requests is the same number at the same window, also while the baseline misses its limits."""
    sick = Arm(requests=200, mix=MIX, slow=(0.02, 0.05, 0.9))
    windows = [*stream(HEALTHY, HEALTHY, seed=8, windows=30), *stream(sick, sick, seed=9, windows=30)]
    with_strata, without = (judged(started(lat_plan(edges)), windows) for edges in (EDGES, ()))
    proofs = [[(v.name, v.rows[0].proof, v.rows[0].passes) for v in verdicts] for verdicts in (with_strata, without)]
    assert proofs[0] == proofs[1]
    assert VerdictName.ADVANCE in {verdict.name for verdict in without}
    assert any("windows left out" in note for note in without[-1].notes)


def test_a_class_without_requests_is_shown_and_not_required() -> None:
    """The step passes on the whole; the empty class has its row, which does not pass."""
    judge = started(lat_plan(min_events=100, min_windows=5, min_step_s=1.0))
    verdict = judged(judge, [window(Cell(200, 2, 200, 2), Cell(), Cell(3, 0, 3, 0))] * 30)[-1]
    assert verdict.name is VerdictName.ADVANCE
    assert [(finding.rows[0].n_c, finding.rows[0].passes) for finding in verdict.strata] == [
        (6000, True), (0, False), (90, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("short", "long", "note"),
    [
        (
            Cell(500, 5, 500, 5),
            Cell(50, 20, 50, 0),
            "lat_p95: within the limit of 5 % over all requests (25 of 550 (4.55 %) bad), beyond it in some:"
            " 20 of 50 (40 %) in requests above 4096 B",
        ),
        (
            Cell(500, 5, 500, 5),
            Cell(200, 80, 200, 0),
            "lat_p95: beyond the limit of 5 % over all requests (85 of 700 (12.1 %) bad), within it in some:"
            " 5 of 500 (1 %) in requests of up to 512 B",
        ),
        (Cell(500, 5, 500, 5), Cell(19, 19, 19, 0), None),
        (Cell(500, 100, 500, 5), Cell(200, 80, 200, 0), None),
        (Cell(), Cell(), None),
    ],
    ids=["hidden", "the other way round", "too few to speak of", "all beyond", "nothing"],
)
def test_a_class_that_disagrees_with_the_whole_is_noted(short: Cell, long: Cell, note: str | None) -> None:
    """On whichever side of the limit; few events say little, and agreement needs no note."""
    verdict = judged(started(lat_plan()), [window(short, Cell(), long)])[-1]
    assert [n for n in verdict.notes if "over all requests" in n] == ([] if note is None else [note])


def test_a_new_step_counts_anew_in_every_class() -> None:
    """The evidence against the candidate carries on, the counts do not."""
    judge = started(lat_plan())
    judged(judge, stream(SLOW_WHERE_LONG, HEALTHY, seed=5, windows=3))
    before = judge.verdict(now=30.0)
    judge.start_step(weight_bp=5000, next_weight_bp=10000, window=3, now=30.0, control=True, baseline_required=True)
    after = judge.verdict(now=30.0)
    assert [finding.rows[0].n_c for finding in after.strata] == [0, 0, 0]
    assert [finding.evidence for finding in after.strata] == [finding.evidence for finding in before.strata]


@pytest.mark.parametrize("cut", [1, 4, 20])
def test_a_restart_changes_no_verdict(cut: int) -> None:
    """The checkpoint, through JSON, carries evidence, counts and the stop with its class."""
    windows = list(stream(SLOW_WHERE_LONG, HEALTHY, seed=5, windows=24))
    judge, resumed = started(lat_plan()), started(lat_plan())
    for number, (cells, by_class) in enumerate(windows):
        if number == cut:
            resumed = Judge(lat_plan(), first_window=0, resume=json.loads(json.dumps(resumed.checkpoint())))
        for each in (judge, resumed):
            each.close_window(number, cells, compiles=0, answered=5, strata=by_class)
        now = (number + 1) * 10.0
        assert resumed.verdict(now=now) == judge.verdict(now=now)
    assert resumed.checkpoint() == judge.checkpoint()
    assert judge.verdict(now=240.0).stratum == LONG


def test_a_checkpoint_of_other_strata_is_of_another_plan() -> None:
    """Both ways; one of a plan without strata says nothing of them, as it always has."""
    plain, stratified = started(lat_plan(())).checkpoint(), started(lat_plan()).checkpoint()
    assert "strata" not in json.dumps(plain)
    for plan, saved in ((lat_plan(), plain), (lat_plan(()), stratified), (lat_plan((512,)), stratified)):
        with pytest.raises(ValueError, match=r"checkpoint\.plan"):
            Judge(plan, first_window=0, resume=saved)
    with pytest.raises(ValueError, match="strata: 1 classes, this plan makes 3"):
        StepStrata(lat_plan()).restore([{}])


def test_one_factor_on_every_duration_changes_no_decision() -> None:
    """The rule ten times faster on windows of a tenth decides the same at the same window."""
    windows = list(stream(SLOW_WHERE_LONG, HEALTHY, seed=6))
    plan = lat_plan()
    faster = replace(
        plan, rule=replace(plan.rule, window_s=1.0), min_step_s=plan.min_step_s / 10, max_step_s=plan.max_step_s / 10,
        bake_s=plan.bake_s / 10, horizon_s=plan.horizon_s / 10,
    )  # fmt: skip
    one = judged(started(plan), windows)
    other = judged(started(faster), windows, width_s=1.0)
    assert [(v.name, v.reason, v.metric, v.stratum, v.evidence, v.strata) for v in one] == [
        (v.name, v.reason, v.metric, v.stratum, v.evidence, v.strata) for v in other
    ]
