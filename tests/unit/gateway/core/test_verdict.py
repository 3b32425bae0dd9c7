"""The judge: order of the rules, reasons, steps, checkpoints, and the vectors of the reference from end to end."""

import json
from dataclasses import replace
from typing import Any

import pytest
from decision_cases import HEALTHY, VECTORS, Cells, begin, feed, limits, one_arm, script_windows, started, vector_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.plan import MetricId, RuleParameters
from gateway.core.sequential import Cell
from gateway.core.verdict import Judge, Verdict, VerdictName

NEXT = {"weight_bp": 5000, "next_weight_bp": 10_000}
SICK, FINE = (5, 5), (5, 0)
SLOW = HEALTHY | {MetricId.LAT_P99: Cell(50, 3, 450, 2)}
BROKEN = HEALTHY | {MetricId.ERROR: Cell(50, 10, 450, 0)}


def beat(judge: Judge, *, baseline: tuple[int, int], candidate: tuple[int, int], seconds: int = 5) -> None:
    for _ in range(seconds):
        judge.second(baseline=baseline, candidate=candidate, failed_over_recently=False)


def proven_judge(**step: Any) -> Judge:
    """All that a step needs has been counted; only its age is left."""
    judge = started(**step)
    feed(judge, HEALTHY, first=0, count=30)
    return judge


def name_of(vector: dict[str, Any]) -> str:
    return str(vector["name"])


@pytest.mark.parametrize("script", VECTORS["scripts"], ids=name_of)
def test_scripts(script: dict[str, Any]) -> None:
    """First rollback with its metric, and first promotion, fall in the windows of the reference."""
    judge = started(next_weight_bp=round(script["w_next"] * 10_000))
    rolled = promoted = None
    for number, cells in enumerate(script_windows(script), start=1):
        judge.close_window(number - 1, cells, compiles=0, answered=0)
        verdict = judge.verdict(now=number * 10.0)
        if rolled is None and verdict.name is VerdictName.ROLL_BACK:
            rolled = {"bucket": number, "metric": verdict.metric}
        if rolled is None and promoted is None and verdict.name is VerdictName.ADVANCE:
            promoted = number
    assert rolled == script["first_rollback"]
    assert promoted == script["first_promote"]


def test_a_healthy_step_advances_when_old_enough() -> None:
    """With all proven the step waits for its age alone, and then advances."""
    judge = proven_judge()
    young, old = judge.verdict(now=299.0), judge.verdict(now=300.0)
    assert (young.name, young.reason, young.missing) == (VerdictName.HOLD, "too_young", ("step age: 299 of 300 s",))
    assert (old.name, old.reason, old.missing, old.rule) == (VerdictName.ADVANCE, "proven", (), None)
    assert all(row.passes for row in old.rows)
    assert "ready for 50 %" in old.text


def test_the_last_step_is_ready_to_bake() -> None:
    """Where no higher weight follows the sentence says what does."""
    judge = started(weight_bp=10_000, next_weight_bp=10_000)
    feed(judge, HEALTHY, first=0, count=60)
    assert "ready to bake" in judge.verdict(now=600.0).text


def test_the_rows_are_those_of_the_step() -> None:
    """Counts, limits and evidence of every metric stand in the table, and the evidence adds up."""
    verdict = proven_judge().verdict(now=300.0)
    p99 = next(row for row in verdict.rows if row.metric is MetricId.LAT_P99)
    assert (p99.n_c, p99.k_c, p99.n_b, p99.k_b) == (1500, 0, 13500, 60)
    assert (p99.allowed, p99.limit_ms, p99.bar) == (0.01, 100.0, 20.0)
    assert p99.proof is not None
    assert p99.proof > p99.proof_bar == pytest.approx(2.995732)
    assert sum(row.evidence for row in verdict.rows) == pytest.approx(verdict.evidence)
    assert len(verdict.rows) == 5


def test_evidence_rolls_back_and_names_the_leading_metric() -> None:
    """The verdict names metric and rule, and the sentence has number, limit, baseline and samples."""
    judge = started()
    feed(judge, SLOW, first=0, count=5)
    verdict = judge.verdict(now=50.0)
    assert (verdict.name, verdict.reason, verdict.metric, verdict.rule) == (
        VerdictName.ROLL_BACK,
        "evidence",
        MetricId.LAT_P99,
        "evidence",
    )
    assert verdict.evidence >= verdict.bar == 20.0
    assert "15 of 250 (6 %) candidate answers took longer than 100 ms" in verdict.text
    assert "allowed: 1 %; baseline: 10 of 2,250 (0.444 %)" in verdict.text


def test_a_conviction_stays_when_the_evidence_sinks_again() -> None:
    """Better windows between the conviction and the next look do not undo it."""
    judge = started()
    feed(judge, SLOW, first=0, count=5)
    before = judge.verdict(now=50.0)
    feed(judge, HEALTHY, first=5, count=60)
    after = judge.verdict(now=650.0)
    assert (after.name, after.metric, after.text) == (before.name, before.metric, before.text)
    assert after.evidence == before.evidence


def test_a_conviction_is_told_as_it_was_when_it_fell() -> None:
    """More of the same does not rewrite the reason of a rollback."""
    judge = started()
    feed(judge, SLOW, first=0, count=5)
    beat(judge, baseline=FINE, candidate=SICK, seconds=4)
    before = judge.checkpoint()["stops"]
    feed(judge, SLOW, first=5, count=5)
    beat(judge, baseline=FINE, candidate=SICK, seconds=4)
    assert judge.checkpoint()["stops"] == before


def test_the_breaker_rolls_back_within_seconds() -> None:
    """A candidate that fails everything is rolled back without a single closed window."""
    judge = started()
    beat(judge, baseline=FINE, candidate=SICK, seconds=4)
    verdict = judge.verdict(now=4.0)
    assert (verdict.name, verdict.reason, verdict.metric, verdict.rule) == (
        VerdictName.ROLL_BACK,
        "breaker",
        MetricId.ERROR,
        "breaker",
    )
    assert "20 of 20 (100 %) candidate attempts failed in the last 4 s" in verdict.text
    assert "baseline: 0 of 20 (0 %)" in verdict.text


def test_a_shared_outage_holds() -> None:
    """When both arms fail the judge holds and says so, and rolls nothing back."""
    judge = proven_judge()
    beat(judge, baseline=SICK, candidate=SICK)
    verdict = judge.verdict(now=400.0)
    assert (verdict.name, verdict.reason) == (VerdictName.HOLD, "shared_outage")
    beat(judge, baseline=(40, 0), candidate=(40, 0), seconds=1)
    assert judge.verdict(now=401.0).name is VerdictName.ADVANCE


def test_a_shared_outage_after_a_failover_rolls_back() -> None:
    """A candidate whose failures load the baseline cannot hide behind the baseline's."""
    judge = started()
    for _ in range(2):
        judge.second(baseline=SICK, candidate=SICK, failed_over_recently=True)
    assert judge.verdict(now=2.0).rule == "breaker"


def test_recompiles_come_first() -> None:
    """When several rules fire, the recompile is named: it explains the rest."""
    judge = started()
    feed(judge, BROKEN, first=0, count=8, compiles=1)
    beat(judge, baseline=FINE, candidate=SICK)
    verdict = judge.verdict(now=80.0)
    assert (verdict.name, verdict.metric, verdict.rule) == (VerdictName.ROLL_BACK, "recompile", "recompile")
    assert "recompile: 1 answer waited for a compile on" in verdict.text
    assert verdict.compiles is not None
    assert (verdict.compiles.met, verdict.compiles.allowed) == (1, 0)
    assert "allowed: 0" in verdict.text


def test_the_breaker_comes_before_the_evidence() -> None:
    """With breaker and evidence both fired, the breaker is named."""
    judge = started()
    feed(judge, BROKEN, first=0, count=8)
    assert judge.verdict(now=80.0).rule == "evidence"
    beat(judge, baseline=FINE, candidate=SICK)
    assert judge.verdict(now=85.0).rule == "breaker"


@pytest.mark.parametrize(("limit", "name"), [(2, VerdictName.ROLL_BACK), (3, VerdictName.HOLD)])
def test_a_lenient_recompile_limit_counts_per_step(limit: int, name: VerdictName) -> None:
    """More compiles in one step than the plan allows roll back; as many as it allows do not."""
    judge = started(vector_plan(recompile_limit=limit))
    feed(judge, HEALTHY, first=0, count=3, compiles=1)
    assert judge.verdict(now=30.0).name is name


def test_compiles_of_the_step_before_are_not_lost() -> None:
    """Windows that close after the next step began still count towards the step they belong to."""
    judge = started(vector_plan(recompile_limit=2))
    feed(judge, HEALTHY, first=0, count=2, compiles=1)
    begin(judge, window=4, now=40.0, **NEXT)
    feed(judge, HEALTHY, first=2, count=1, compiles=1)
    verdict = judge.verdict(now=41.0)
    assert verdict.rule == "recompile"
    assert "3 answers waited for a compile on the candidate's request path in the step before" in verdict.text


def test_compiles_start_over_with_the_step() -> None:
    """The limit is per step."""
    judge = started(vector_plan(recompile_limit=2))
    feed(judge, HEALTHY, first=0, count=2, compiles=1)
    begin(judge, window=2, now=20.0, **NEXT)
    feed(judge, HEALTHY, first=2, count=2, compiles=1)
    assert judge.verdict(now=40.0).name is VerdictName.HOLD


@pytest.mark.parametrize("restarted", [False, True])
def test_a_step_that_is_resumed_has_no_new_allowance(restarted: bool) -> None:
    """Answers that met a compile before a pause or a restart count on, late windows of before included, and so do all.

    Else a candidate that compiles all the time would only have to be paused often enough.
    """
    plan = vector_plan(recompile_limit=3)
    judge = started(plan)
    for round_ in range(2):
        feed(judge, HEALTHY, first=2 * round_, count=1, compiles=1, answered=10, shapes=("1x8", f"{round_}x8"))
        if restarted:
            judge = Judge(plan, first_window=0, resume=json.loads(json.dumps(judge.checkpoint())))
        begin(judge, window=2 * round_ + 2, now=10.0)
        feed(judge, HEALTHY, first=2 * round_ + 1, count=1, compiles=1, answered=10)
        assert judge.verdict(now=15.0).rule is (None if round_ == 0 else "recompile")
    compiles = judge.verdict(now=30.0).compiles
    assert compiles is not None
    assert (compiles.met, compiles.answered) == (4, 40)


def test_shapes_of_before_a_restart_are_kept() -> None:
    """Reports begin anew with the process, the run's shapes do not; those that lead now stand first."""
    judge = started()
    feed(judge, HEALTHY, first=0, count=1, shapes=("1x8", "2x8"))
    judge = Judge(vector_plan(), first_window=0, resume=json.loads(json.dumps(judge.checkpoint())))
    feed(judge, HEALTHY, first=1, count=1, compiles=1, shapes=("9x512", "2x8"))
    feed(judge, HEALTHY, first=2, count=1)
    compiles = judge.verdict(now=30.0).compiles
    assert compiles is not None
    assert compiles.shapes == ("9x512", "2x8", "1x8")


def test_a_step_that_never_settles_is_left_to_a_person() -> None:
    """Past max_step without proof the verdict is inconclusive, names what is missing, and changes no weight."""
    judge = started(vector_plan(min_events=5000))
    feed(judge, HEALTHY, first=0, count=90)
    assert judge.verdict(now=3600.0).name is VerdictName.HOLD
    verdict = judge.verdict(now=3601.0)
    assert (verdict.name, verdict.reason, verdict.rule) == (VerdictName.INCONCLUSIVE, "stuck", None)
    assert "Not settled after 3601 s" in verdict.text
    assert "lat_p50: 4500 of 5000 usable candidate events" in verdict.missing


def test_between_tests_the_verdict_says_what_it_waits_for() -> None:
    """Counts that suffice only since the last test wait for the next one."""
    judge = started(vector_plan(min_windows=31))
    feed(judge, HEALTHY, first=0, count=31)
    verdict = judge.verdict(now=310.0)
    assert (verdict.name, verdict.reason) == (VerdictName.HOLD, "not_proven")
    assert "lat_p99: enough counted since the last test; it is tested every 30 s" in verdict.missing
    feed(judge, HEALTHY, first=31, count=2)
    assert judge.verdict(now=330.0).name is VerdictName.ADVANCE


def test_a_step_that_passes_late_still_advances() -> None:
    """Age alone makes no proven step inconclusive."""
    judge = started()
    feed(judge, HEALTHY, first=0, count=380)
    assert judge.verdict(now=3800.0).name is VerdictName.ADVANCE


def reason_after(judge: Judge, now: float) -> tuple[VerdictName, str]:
    verdict = judge.verdict(now=now)
    assert verdict.missing
    return verdict.name, verdict.reason


def test_nothing_counted_is_no_data() -> None:
    """A step without a closed window holds for want of data."""
    assert reason_after(started(), 5.0) == (VerdictName.HOLD, "no_data")


@pytest.mark.parametrize("candidate", [True, False])
def test_one_silent_arm_is_no_data(candidate: bool) -> None:
    """Counts of one arm only never pass, and the silent arm is named."""
    judge = started()
    feed(judge, one_arm(HEALTHY, candidate=candidate), first=0, count=60)
    verdict = judge.verdict(now=600.0)
    assert (verdict.name, verdict.reason) == (VerdictName.HOLD, "no_data")
    assert any(text.startswith("baseline" if candidate else "candidate") for text in verdict.missing)


def test_an_arm_that_falls_silent_is_no_data() -> None:
    """Proof of half an hour ago does not stand for a candidate that no longer reports."""
    judge = proven_judge()
    feed(judge, one_arm(HEALTHY, candidate=False), first=30, count=31)
    assert reason_after(judge, 610.0) == (VerdictName.HOLD, "no_data")


def test_counts_that_stop_coming_are_no_data() -> None:
    """When no window closes any more the judge does not live on what it has."""
    judge = proven_judge()
    assert judge.verdict(now=600.0).name is VerdictName.ADVANCE
    assert reason_after(judge, 601.0) == (VerdictName.HOLD, "no_data")


def test_too_few_events_hold() -> None:
    """A metric without enough events is named with what it has and needs."""
    judge = started()
    feed(judge, HEALTHY, first=0, count=7)
    verdict = judge.verdict(now=70.0)
    assert (verdict.name, verdict.reason) == (VerdictName.HOLD, "too_few")
    assert "parity: 175 of 200 usable candidate events" in verdict.missing
    assert "parity: 7 of 20 windows with candidate events" in verdict.missing
    assert "step age: 70 of 300 s" in verdict.missing


def test_parity_without_pairs_never_passes() -> None:
    """Live requests do not stand in for compared pairs."""
    judge = started()
    feed(judge, HEALTHY | {MetricId.PARITY: Cell()}, first=0, count=60)
    verdict = judge.verdict(now=600.0)
    assert (verdict.name, verdict.reason, verdict.metric) == (VerdictName.HOLD, "too_few", MetricId.PARITY)


def test_a_baseline_beyond_the_limit_proves_nothing() -> None:
    """While the baseline itself breaks the limit no window counts, and the hold says why."""
    judge = started()
    feed(judge, HEALTHY | {MetricId.LAT_P99: Cell(50, 0, 450, 135)}, first=0, count=60)
    verdict = judge.verdict(now=600.0)
    assert (verdict.name, verdict.reason, verdict.metric) == (
        VerdictName.HOLD,
        "baseline_out_of_slo",
        MetricId.LAT_P99,
    )
    assert "lat_p99: 60 windows left out, the baseline was beyond the limit" in verdict.notes


def test_a_baseline_too_thin_for_control_is_too_few() -> None:
    """Windows in which the baseline had too few events to compare with are named as such."""
    judge = started()
    feed(judge, {m: replace(c, n_b=1, k_b=0) for m, c in HEALTHY.items()}, first=0, count=15)
    verdict = judge.verdict(now=150.0)
    assert verdict.reason == "too_few"
    assert any("in which the baseline had too few events to compare with" in text for text in verdict.missing)


def test_suspicion_holds() -> None:
    """Evidence between warning and conviction holds, whatever else is proven."""
    judge = started()
    feed(judge, HEALTHY | {MetricId.ERROR: Cell(100, 1, 900, 1)}, first=0, count=5)
    verdict = judge.verdict(now=50.0)
    assert 3.0 <= verdict.evidence < 20.0
    assert (verdict.name, verdict.reason, verdict.metric) == (VerdictName.HOLD, "suspect", MetricId.ERROR)


def test_a_sick_candidate_is_suspect_before_the_breaker_fires() -> None:
    """Proven counts do not advance while the candidate's breaker score is up."""
    judge = proven_judge()
    beat(judge, baseline=FINE, candidate=SICK, seconds=2)
    assert reason_after(judge, 310.0) == (VerdictName.HOLD, "breaker_rising")


def test_a_sick_baseline_holds() -> None:
    """Nothing advances while the baseline fails: there is nothing to compare with."""
    judge = proven_judge()
    beat(judge, baseline=SICK, candidate=FINE, seconds=2)
    assert reason_after(judge, 310.0) == (VerdictName.HOLD, "baseline_out_of_slo")


def test_a_candidate_on_its_limit_is_not_proven() -> None:
    """Enough events that neither convict nor prove hold as not proven."""
    judge = started()
    on_the_limit = {m: replace(c, k_c=1) if m is MetricId.LAT_P99 else c for m, c in HEALTHY.items()}
    for window in range(60):
        judge.close_window(window, HEALTHY if window % 2 else on_the_limit, compiles=0, answered=50)
    verdict = judge.verdict(now=600.0)
    assert (verdict.name, verdict.reason, verdict.metric) == (VerdictName.HOLD, "not_proven", MetricId.LAT_P99)
    assert "needs 3.00" in verdict.missing[0]
    assert "30 of 3,000 (1 %)" in verdict.text


@pytest.mark.parametrize(
    ("unchecked", "holds"),
    [((1500, 3, 13500, 0), True), ((1500, 1, 13500, 0), False), ((1500, 3, 13500, 27), False), ((0, 0, 0, 0), False)],
)
def test_refusals_that_nobody_could_check_hold(unchecked: tuple[int, int, int, int], holds: bool) -> None:
    """The candidate's unchecked refusals may exceed the baseline's rate by at most the refused limit."""
    judge = started()
    feed(judge, HEALTHY, first=0, count=29)
    judge.close_window(29, HEALTHY, compiles=0, answered=50, refused_unchecked=unchecked)
    verdict = judge.verdict(now=310.0)
    assert (verdict.reason == "refused_unchecked") is holds
    assert (verdict.name is VerdictName.ADVANCE) is not holds


@pytest.mark.parametrize("unchecked", [(1, 50, 0, 450), (50, -1, 450, 0), (50, 0, 0, 1)])
def test_impossible_refusals_are_refused_and_book_nothing(unchecked: tuple[int, int, int, int]) -> None:
    """Bad before events is a mistake of the caller, and must not pass for a rate of zero."""
    judge = started()
    before = judge.checkpoint()
    with pytest.raises(ValueError, match=r"refused_unchecked: .* with 0 <= k <= n"):
        judge.close_window(0, HEALTHY, compiles=0, answered=50, refused_unchecked=unchecked)
    assert judge.checkpoint() == before


def test_answers_excused_beyond_the_share_count_as_slow() -> None:
    """At most one percent of a step may be left out for a compile; what exceeds it weighs on the latency proof."""
    judge = started(vector_plan(recompile_limit=3))
    feed(judge, HEALTHY, first=0, count=30, excused=1)
    verdict = judge.verdict(now=310.0)
    assert (verdict.name, verdict.reason) == (VerdictName.HOLD, "not_proven")
    assert any(text.startswith("lat_p99: proof for the candidate") for text in verdict.missing)
    assert any("30 of 1,500 (2 %) answers met a compile" in note for note in verdict.notes)


def test_answers_excused_within_the_share_are_left_out() -> None:
    """Up to one percent of a step's answers may meet a compile without weighing on anything."""
    judge = started(vector_plan(recompile_limit=3))
    feed(judge, HEALTHY, first=0, count=29)
    judge.close_window(29, HEALTHY, compiles=3, answered=50, excused=15)
    verdict = judge.verdict(now=310.0)
    assert verdict.name is VerdictName.ADVANCE
    assert not any("recompile" in note for note in verdict.notes)


def test_a_new_step_starts_its_proof_over() -> None:
    """What was proven at the old weight proves nothing at the new one."""
    judge = proven_judge()
    begin(judge, weight_bp=5000, next_weight_bp=10_000, window=30, now=300.0)
    verdict = judge.verdict(now=900.0)
    assert verdict.name is VerdictName.HOLD
    assert all((row.n_c, row.proof, row.passes) == (0, None, False) for row in verdict.rows)


def test_windows_of_the_step_before_prove_nothing_and_can_still_convict() -> None:
    """A window that closes late belongs to the step it arrived in; evidence against the candidate knows no steps."""
    judge = started()
    begin(judge, window=30, now=300.0)
    feed(judge, SLOW, first=0, count=5)
    verdict = judge.verdict(now=301.0)
    assert (verdict.name, verdict.rule) == (VerdictName.ROLL_BACK, "evidence")
    assert all(row.n_c == 0 for row in verdict.rows)


def test_evidence_against_is_carried_through_steps() -> None:
    """A step up does not launder what was seen before it."""
    judge = started()
    feed(judge, SLOW, first=0, count=4)
    begin(judge, window=4, now=40.0)
    carried = judge.verdict(now=40.0).evidence
    assert 3.0 < carried < 20.0
    feed(judge, SLOW, first=4, count=1)
    assert judge.verdict(now=50.0).rule == "evidence"


def test_the_bake_waits_for_its_time() -> None:
    """At the last weight a bake passes only after the plan's bake time, and is not stuck before max_step after it."""
    plan = vector_plan(bake_s=1000.0, min_events=5000)
    judge = started(plan, weight_bp=10_000, next_weight_bp=10_000, baking=True)
    feed(judge, HEALTHY, first=0, count=98)
    assert "bake age: 990 of 1000 s" in judge.verdict(now=990.0).missing
    assert judge.verdict(now=4600.0).name is VerdictName.HOLD
    assert judge.verdict(now=4601.0).name is VerdictName.INCONCLUSIVE


def test_a_passed_bake_says_so() -> None:
    """After its time a proven bake is the end of the run."""
    judge = started(vector_plan(bake_s=600.0), weight_bp=10_000, next_weight_bp=10_000, baking=True)
    feed(judge, HEALTHY, first=0, count=60)
    verdict = judge.verdict(now=600.0)
    assert verdict.name is VerdictName.ADVANCE
    assert "the bake passes" in verdict.text


def test_at_full_weight_without_baseline_the_verdict_says_so() -> None:
    """Control off and no baseline counts required: the limits alone decide, and the notes say it."""
    judge = started(weight_bp=10_000, next_weight_bp=10_000, control=False, baseline_required=False)
    feed(judge, one_arm(HEALTHY, candidate=True), first=0, count=60)
    verdict = judge.verdict(now=600.0)
    assert verdict.name is VerdictName.ADVANCE
    assert any(note.startswith("control off") for note in verdict.notes)
    assert "baseline counts are not required in this step" in verdict.notes


@pytest.mark.parametrize(("required", "name"), [(True, VerdictName.HOLD), (False, VerdictName.ADVANCE)])
def test_pairs_are_required_only_where_the_baseline_is(required: bool, name: VerdictName) -> None:
    """Without a baseline there are no pairs to wait for, and the verdict says that parity was not proven anew."""
    judge = started(baseline_required=required)
    feed(judge, HEALTHY | {MetricId.PARITY: Cell()}, first=0, count=30)
    verdict = judge.verdict(now=300.0)
    assert verdict.name is name
    assert any("parity needs no new proof" in note for note in verdict.notes) is not required


def test_differing_pairs_still_roll_back_where_the_baseline_is_not_required() -> None:
    """Pairs that do arrive at full weight count against the candidate like any others."""
    judge = started(weight_bp=10_000, next_weight_bp=10_000, control=False, baseline_required=False)
    feed(judge, HEALTHY | {MetricId.PARITY: Cell(25, 1)}, first=0, count=5)
    assert judge.verdict(now=50.0).metric is MetricId.PARITY


def test_control_goes_off_with_the_first_window_of_its_step() -> None:
    """Windows of the step before are still held to the baseline they were served beside."""
    incident = HEALTHY | {MetricId.LAT_P99: Cell(50, 15, 450, 135)}
    judge = started()
    begin(judge, window=12, now=120.0, control=False)
    feed(judge, incident, first=0, count=12)
    assert judge.verdict(now=120.0).name is VerdictName.HOLD
    feed(judge, incident, first=12, count=4)
    assert judge.verdict(now=160.0).metric is MetricId.LAT_P99


def test_a_demo_says_that_it_is_one() -> None:
    """A preset that is not the default is named in every verdict."""
    judge = started(vector_plan(preset="demo", rule=RuleParameters(window_s=1.0)))
    assert "preset demo: windows of 1 s, never for production" in judge.verdict(now=1.0).notes


def test_bursts_are_told() -> None:
    """A proof that bursts weaken says by how much."""
    judge = started()
    for window in range(30):
        bad = 10 if window == 10 else 0
        judge.close_window(window, HEALTHY | {MetricId.LAT_P95: Cell(50, bad, 450, 15)}, compiles=0, answered=50)
    assert any(note.startswith("lat_p95: bad events come in bursts") for note in judge.verdict(now=300.0).notes)


def test_nothing_is_judged_before_a_step() -> None:
    """Windows and verdicts need a step to belong to."""
    judge = Judge(vector_plan(), first_window=0)
    for call in (
        lambda: judge.verdict(now=1.0),
        lambda: judge.close_window(0, HEALTHY, compiles=0, answered=0),
    ):
        with pytest.raises(ValueError, match="call start_step first"):
            call()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((-1, 100), "weight_bp: -1 must lie between 0 and 10000"),
        ((10_001, 10_001), "weight_bp: 10001 must lie between 0 and 10000"),
        ((0, 0), "next_weight_bp: 0 must lie between 1 and 10000"),
        ((500, 100), "next_weight_bp: 100 must lie between 500 and 10000"),
    ],
)
def test_a_step_with_impossible_weights_is_refused(weights: tuple[int, int], message: str) -> None:
    """A step leads upwards or stays where it is, within all traffic."""
    with pytest.raises(ValueError, match=message):
        started(weight_bp=weights[0], next_weight_bp=weights[1])


def test_a_window_is_closed_once() -> None:
    """A window that comes again, or late, is refused and changes nothing."""
    judge = started()
    feed(judge, HEALTHY, first=0, count=3)
    before = judge.checkpoint()
    with pytest.raises(ValueError, match="window: 2 is closed; the next is 3"):
        judge.close_window(2, SLOW, compiles=5, answered=50)
    assert judge.checkpoint() == before


counts = st.integers(min_value=0, max_value=60)


@st.composite
def cell(draw: st.DrawFn) -> Cell:
    n_c, n_b = draw(counts), draw(counts)
    return Cell(n_c, draw(st.integers(0, min(n_c, 3))), n_b, draw(st.integers(0, min(n_b, 3))))


METRICS = tuple(HEALTHY)
rows = st.one_of(st.just(HEALTHY), st.just(SLOW), st.fixed_dictionaries(dict.fromkeys(METRICS, cell())))
scripts = st.lists(rows, min_size=1, max_size=12)
seconds = st.lists(st.sampled_from([(FINE, SICK), (SICK, SICK), (FINE, FINE), (SICK, FINE)]), max_size=12)


def play(judge: Judge, script: list[Cells], beats: list[Any], *, first: int = 0, unit: float = 10.0) -> list[Verdict]:
    """Each window booked three times over, with a verdict after each."""
    verdicts, window = [], first
    for row in script:
        for _ in range(3):
            judge.close_window(window, row, compiles=0, answered=row[MetricId.ERROR].n_c)
            window += 1
            verdicts.append(judge.verdict(now=window * unit))
    for baseline, candidate in beats:
        judge.second(baseline=baseline, candidate=candidate, failed_over_recently=False)
        verdicts.append(judge.verdict(now=window * unit))
    return verdicts


@settings(max_examples=40)
@given(scripts, st.booleans())
def test_one_sided_evidence_never_advances(script: list[Cells], candidate: bool) -> None:
    """Whatever one arm alone reports, the step does not go up."""
    judge = started(vector_plan(min_events=1, min_windows=1, min_step_s=1.0))
    verdicts = play(judge, [one_arm(row, candidate=candidate) for row in script], [])
    assert VerdictName.ADVANCE not in {verdict.name for verdict in verdicts}


@settings(max_examples=40)
@given(st.integers(0, 500), st.floats(min_value=0.0, max_value=3600.0))
def test_empty_windows_never_advance(count: int, now: float) -> None:
    """No number of empty windows and no age is evidence."""
    judge = started()
    if count:
        judge.close_window(count - 1, {}, compiles=0, answered=0)
    assert judge.verdict(now=now).name is VerdictName.HOLD


def scaled_plan(factor: float) -> Any:
    return vector_plan(
        rule=RuleParameters(window_s=10.0 / factor),
        horizon_s=3600.0 / factor,
        min_step_s=300.0 / factor,
        max_step_s=800.0 / factor,
        bake_s=600.0 / factor,
        min_events=100,
    )


@settings(max_examples=30)
@given(scripts, seconds)
def test_scaling_all_durations_scales_the_decision(script: list[Cells], beats: list[Any]) -> None:
    """With every duration ten times shorter the same windows give the same verdicts ten times sooner."""
    slow = play(started(scaled_plan(1.0)), script, beats)
    fast = play(started(scaled_plan(10.0)), script, beats, unit=1.0)
    for one, other in zip(slow, fast, strict=True):
        assert (one.name, one.reason, one.metric, one.rule) == (other.name, other.reason, other.metric, other.rule)
        assert (one.evidence, one.rows) == (other.evidence, other.rows)


@settings(max_examples=40)
@given(scripts, seconds, scripts, seconds)
def test_a_checkpoint_decides_the_same(
    before: list[Cells], beats_before: list[Any], after: list[Cells], beats_after: list[Any]
) -> None:
    """Through JSON and back at any point, every later verdict is equal in every field."""
    plan = vector_plan(min_events=100, min_windows=3, min_step_s=30.0)
    judge = started(plan)
    play(judge, before, beats_before)
    resumed = Judge(plan, first_window=0, resume=json.loads(json.dumps(judge.checkpoint())))
    first = len(before) * 3
    assert resumed.verdict(now=first * 10.0) == judge.verdict(now=first * 10.0)
    assert play(resumed, after, beats_after, first=first) == play(judge, after, beats_after, first=first)


@settings(max_examples=30)
@given(scripts, st.integers(1, 80), scripts)
def test_a_gap_is_a_row_of_empty_windows(before: list[Cells], gap: int, after: list[Cells]) -> None:
    """Windows left out and windows booked empty lead to the same verdicts."""
    plan = vector_plan(min_events=100, min_windows=3, min_step_s=30.0)
    skipped, spelled = started(plan), started(plan)
    for judge in (skipped, spelled):
        play(judge, before, [])
    first = len(before) * 3
    feed(spelled, {m: Cell() for m in METRICS}, first=first, count=gap)
    ours, theirs = (play(judge, after, [], first=first + gap) for judge in (skipped, spelled))
    for one, other in zip(ours, theirs, strict=True):
        assert (one.name, one.reason, one.metric) == (other.name, other.reason, other.metric)
        assert one.evidence == pytest.approx(other.evidence, rel=1e-9)
        assert [row.proof for row in one.rows] == [row.proof for row in other.rows]


@settings(max_examples=30)
@given(scripts, scripts)
def test_replicas_may_be_merged_in_any_order(one: list[Cells], other: list[Cells]) -> None:
    """The judge is a function of the summed windows, however the sums came about."""
    pairs = list(zip(one, other, strict=False))
    left = [{m: a[m] + b[m] for m in METRICS} for a, b in pairs]
    right = [{m: b[m] + a[m] for m in METRICS} for a, b in pairs]
    assert play(started(), left, []) == play(started(), right, [])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 2}, "checkpoint.format: 2 is not known; allowed: 1"),
        ({"plan": {}}, "is of another plan"),
        ({"stops": None}, "must be what checkpoint"),
        ({"against": {}}, "must be what checkpoint"),
        ({"step": {"terms": {}}}, "must be what checkpoint"),
    ],
)
def test_a_foreign_checkpoint_is_refused(change: dict[str, Any], message: str) -> None:
    """Numbers of another format or plan are not taken for this run's."""
    saved = proven_judge().checkpoint() | change
    with pytest.raises(ValueError, match=message):
        Judge(vector_plan(), first_window=0, resume=saved)


def test_a_checkpoint_of_looser_limits_is_refused() -> None:
    """Evidence gathered under other limits has another meaning."""
    saved = proven_judge().checkpoint()
    plan = vector_plan(metrics=limits((MetricId.LAT_P99, 0.02), (MetricId.ERROR, 0.003)))
    with pytest.raises(ValueError, match="is of another plan"):
        Judge(plan, first_window=0, resume=saved)


def test_a_shared_outage_survives_a_restart() -> None:
    """A judge that holds for a shared outage holds after a restart, until the next second says otherwise."""
    judge = proven_judge()
    beat(judge, baseline=SICK, candidate=SICK)
    resumed = Judge(vector_plan(), first_window=0, resume=json.loads(json.dumps(judge.checkpoint())))
    assert resumed.verdict(now=310.0) == judge.verdict(now=310.0)
    assert resumed.verdict(now=310.0).reason == "shared_outage"


def test_a_fired_rule_survives_a_restart() -> None:
    """A rollback decided before a crash is decided after it."""
    judge = started()
    beat(judge, baseline=FINE, candidate=SICK)
    resumed = Judge(vector_plan(), first_window=0, resume=json.loads(json.dumps(judge.checkpoint())))
    assert resumed.verdict(now=6.0) == judge.verdict(now=6.0)
    assert resumed.verdict(now=6.0).rule == "breaker"


def test_a_checkpoint_without_the_newer_fields_is_still_read() -> None:
    """Shapes and the numbers behind a fired rule came later: an older checkpoint has the sentence alone."""
    judge = started()
    judge.close_window(0, HEALTHY, compiles=1, answered=50, shapes=("4x128",))
    saved = json.loads(json.dumps(judge.checkpoint()))
    del saved["shapes"]
    for name in ("rows", "breaker", "compiles"):
        del saved["stops"]["recompile"][name]
    verdict = Judge(vector_plan(), first_window=0, resume=saved).verdict(now=10.0)
    assert (verdict.rule, verdict.text, verdict.compiles) == ("recompile", judge.verdict(now=10.0).text, None)


def test_the_breaker_tells_of_the_seconds_in_which_the_candidate_failed() -> None:
    """Healthy seconds before it would make half of a total failure look like a third."""
    judge = started()
    beat(judge, baseline=FINE, candidate=FINE, seconds=9)
    beat(judge, baseline=FINE, candidate=SICK, seconds=4)
    seen = judge.verdict(now=13.0).breaker
    assert seen is not None
    assert (seen.candidate, seen.baseline, seen.seconds) == ((20, 20), (20, 0), 4)


def test_a_conviction_keeps_its_rows() -> None:
    """The table beside a rollback is the one it was decided on."""
    judge = started()
    feed(judge, SLOW, first=0, count=5)
    before = judge.verdict(now=50.0).rows
    feed(judge, HEALTHY, first=5, count=20)
    assert judge.verdict(now=250.0).rows == before


def test_lanes_that_disagree_are_noted_and_decide_nothing() -> None:
    """The verdict is the same but for the note; a checkpoint carries the lanes on, a new step begins them anew."""
    plain, noted = started(), started()
    feed(plain, HEALTHY, first=0, count=60)
    feed(noted, HEALTHY, first=0, count=60, lanes={MetricId.LAT_P95: (20, 0, 30, 4)})
    (note,) = noted.verdict(now=600.0).notes
    assert note.startswith("mirror load: lat_p95: 0 of")
    assert replace(noted.verdict(now=600.0), notes=()) == replace(plain.verdict(now=600.0), notes=())
    again = Judge(vector_plan(), first_window=0, resume=json.loads(json.dumps(noted.checkpoint())))
    assert again.verdict(now=600.0).notes == (note,)
    assert "mirror" not in plain.checkpoint()
    begin(noted, weight_bp=5000, next_weight_bp=10_000, window=60, now=600.0)
    assert noted.verdict(now=600.0).notes == ()


def test_a_step_that_was_given_longer_is_not_stuck_before() -> None:
    """The limit of the verdict is the step's own."""
    judge = started(max_step_s=9000.0)
    assert judge.verdict(now=8999.0).name is VerdictName.HOLD
    stuck = judge.verdict(now=9001.0)
    assert (stuck.name, "limit 9000 s" in stuck.text) == (VerdictName.INCONCLUSIVE, True)
