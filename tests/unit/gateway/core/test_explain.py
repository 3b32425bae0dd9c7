"""The words of an explanation: for every end and every state the number, the limit, the samples and what to do."""

import re
from dataclasses import replace

import pytest
from fakes.explained import FIGURES, PLAN, by_evidence, pairs, rolled_back, row, run, told, under_way, verdict
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.policy import policy_of
from gateway.core.explain import Case, Explained, explain
from gateway.core.explain.case import LABELS
from gateway.core.figures import ArmFigures, FieldFigures, Figures, NoiseFigures, PairedFigures, Percentiles
from gateway.core.findings import BreakerCounts, CompileCounts, MetricRow, StratumFinding, Verdict, VerdictName
from gateway.core.plan import MetricId, ParityPolicy, Plan
from gateway.core.run import Outcome, Outlook, Override, Rollout, State


@pytest.mark.parametrize(
    ("metric", "seen", "limit", "baseline"),
    [
        (MetricId.LAT_P95, "candidate answers took longer than 400 ms", "longer than 400 ms", "3 of 3,702 (0.081 %)"),
        (
            MetricId.ERROR,
            "candidate requests failed or found it unavailable",
            "At most 5 % may fail or",
            "3 of 3,702 (0.081 %)",
        ),
        (
            MetricId.REFUSED,
            "candidate requests were refused although the baseline",
            "may be refused.",
            "0, by definition",
        ),
        (MetricId.PARITY, "compared pairs disagree", "the pairs may disagree. A", "its answers are what"),
        (
            MetricId.TTFT,
            "candidate streams had their first event later than 800 ms",
            "may have their first event later than 800 ms.",
            "3 of 3,702 (0.081 %) began later.",
        ),
        (
            MetricId.ITL,
            "candidate streams had more than 5 % of their gaps longer than 60 ms",
            "may have more than 5 % of their gaps longer than 60 ms.",
            "3 of 3,702 (0.081 %) had more.",
        ),
        (
            MetricId.STREAM_BROKEN,
            "candidate streams were broken off by it",
            "At most 5 % may be broken off.",
            "3 of 3,702 (0.081 %) were broken off.",
        ),
    ],
)
def test_a_rollback_on_evidence_has_every_number(metric: MetricId, seen: str, limit: str, baseline: str) -> None:
    """Seen, limit, baseline, samples, the bar in words, who answered, time to zero, and one change."""
    explained = explain(by_evidence(metric))
    facts = told(explained)
    assert explained.headline.startswith(f"Rolled back from 10 % for {metric}: 9.22 % of the ")
    assert "5 % may" in explained.headline
    assert facts["Seen"].startswith("38 of 412 (9.22 %)")
    assert seen in facts["Seen"]
    assert limit in facts["Limit"]
    assert baseline in facts["Baseline"]
    assert "412 " in facts["Samples"]
    assert "in 9 windows of 10 s" in facts["Samples"]
    assert "Step 2 of 4; evidence counted for 14 s." in facts["Samples"]
    assert "evidence 34 against a bar of 20: at most 1 healthy candidate in 20" in facts["Rule"]
    assert f"{metric} alone contributes 30" in facts["Rule"]
    assert "Declared to differ: dtype, device." in facts["Detail"]
    assert "203 live requests went to the candidate since judging began." in facts["Clients"]
    assert "answered 12 in its place" in facts["Clients"]
    assert "3,905 answers, 0 failures and 7 refusals (4xx)" in facts["Clients"]
    assert facts["Zero"].startswith("31 ms")
    assert "Missing" not in facts


JUDGED_ENDS = [
    by_evidence(MetricId.LAT_P95),
    by_evidence(MetricId.ERROR),
    by_evidence(MetricId.REFUSED),
    by_evidence(MetricId.PARITY),
    rolled_back("error", "breaker"),
    rolled_back("recompile", "recompile"),
    rolled_back(None, "gate", problems=("device (baseline 'cpu', candidate 'tpu'): not declared",), weight=0),
]


@pytest.mark.parametrize("figures", [FIGURES, None], ids=["figures", "none"])
@pytest.mark.parametrize("case", JUDGED_ENDS, ids=lambda case: f"{case.run.rule}-{case.run.metric}")
def test_after_a_rollback_exactly_one_thing_is_changed(case: Case, figures: Figures | None) -> None:
    """Do not expand, one variable, the rest kept, and the command to begin again; whether numbers are there or not."""
    text = explain(replace(case, figures=figures)).next
    assert text.startswith("Do not expand. ")
    assert text.count("Change one thing: ") == 1
    assert text.count("Keep ") == 1
    assert "and the baseline as they are" in text
    assert text.endswith('Then begin again: `canaryctl start PLAN --reason "..."`')


def test_latency_shows_both_arms_p95_and_where_to_start() -> None:
    """A slow median points at the device, a slow tail at the queue; without medians neither is claimed."""
    explained = explain(by_evidence(MetricId.LAT_P95))
    assert (
        "p95 of successful answers since judging began: candidate 812 ms, baseline 41 ms" in told(explained)["Baseline"]
    )
    assert "in the last 6 s: candidate not measured" in told(explained)["Baseline"]
    assert (
        "median is 15 times the baseline's (300 ms against 20 ms): most answers are slower, so start with the device"
        in explained.next
    )
    late = Percentiles(count=50, p50=21.0, p95=900.0)
    tail = replace(
        FIGURES,
        candidate=replace(FIGURES.candidate, recent=late),
        baseline=replace(FIGURES.baseline, recent=Percentiles(count=50, p50=20.0, p95=40.0)),
    )
    assert (
        "1.05 times the baseline's (of late 21 ms against 20 ms): the tail is what is slow, so start with the queue"
        in explain(by_evidence(MetricId.LAT_P95, figures=tail)).next
    )
    unmeasured = explain(by_evidence(MetricId.LAT_P95, figures=None))
    assert "median" not in unmeasured.next
    assert "not measured" in told(unmeasured)["Baseline"]


@pytest.mark.parametrize(
    ("failed", "unavailable", "change"),
    [(40, 3, "the cause that the log names"), (3, 40, "its readiness or its capacity")],
)
def test_errors_are_told_apart(failed: int, unavailable: int, change: str) -> None:
    """A candidate that is away needs capacity, one that answers wrong needs its log."""
    figures = replace(FIGURES, candidate=ArmFigures(failed=failed, unavailable=unavailable))
    explained = explain(by_evidence(MetricId.ERROR, figures=figures))
    assert change in explained.next
    split = f"{failed} failed and {unavailable} found the candidate unavailable"
    assert split in told(explained)["Detail"]


def test_errors_say_how_far_the_requests_came() -> None:
    """The most frequent first: a refused connection is another night than a 500."""
    arm = ArmFigures(failed=41, phases=(("connect", 2), ("status", 38), ("body", 1)))
    detail = told(explain(by_evidence(MetricId.ERROR, figures=replace(FIGURES, candidate=arm))))["Detail"]
    assert "41 failed (38 with a status of 5xx or 429, 2 without a connection, 1 in mid-answer)" in detail


MAX_ABS = replace(PLAN, parity=ParityPolicy(cosine_min=0.99, max_abs=0.01))


@pytest.mark.parametrize(
    ("figures", "plan", "look", "change"),
    [
        (pairs(min_cosine=0.31), PLAN, "A cosine of 0.31 is no rounding", "the one of these that the test shows"),
        (pairs(min_cosine=0.9893), PLAN, "0.9893 (the limit is 0.99) looks like precision", "matmul precision"),
        (pairs(min_cosine=0.9995, max_abs=0.3), MAX_ABS, "largest difference is 0.3 (the limit is 0.01)", "scales"),
        (pairs(min_cosine=0.31, max_abs=0.3), MAX_ABS, "A cosine of 0.31 is no rounding", "the one of these"),
        (pairs(kinds=(("status", 34),)), PLAN, "disagree on what they accept", "catalogue"),
        (pairs(kinds=(("shape", 34),)), PLAN, "do not have the same form", "output"),
        (pairs(kinds=(("nan", 34),)), PLAN, "If it is the baseline, no change to the candidate helps", "dtype"),
        (pairs(min_cosine=None), PLAN, "Isolate it", "batching"),
    ],
)
def test_parity_is_told_apart_by_kind_and_bound(figures: Figures, plan: Plan, look: str, change: str) -> None:
    """Rounding, wrong rows, size, another form and refusals each have their one change; the worst request is named."""
    explained = explain(by_evidence(MetricId.PARITY, figures=figures, of_run={"plan": plan}))
    assert look in explained.next
    assert "request req-7 (its sender has the texts)" in explained.next
    one = explained.next.partition("Change one thing: ")[2].partition(" Keep ")[0]
    assert change in one
    assert "(or" not in one
    assert "Worst: request req-7" in told(explained)["Detail"]
    assert ("largest difference" in told(explained)["Detail"]) is (plan is MAX_ABS)
    may_be_wrong = "190 of the answers were the candidate's: any of them may be wrong" in told(explained)["Clients"]
    assert may_be_wrong is (change != "catalogue")


@pytest.mark.parametrize("kind", ["dtype", "missing_field", "unexpected_field", "undecodable", "infinity"])
def test_kinds_that_only_a_policy_of_fields_tells_have_their_advice(kind: str) -> None:
    """Another form of answer, or values that are no finite numbers: neither is told as a question of batching."""
    explained = explain(by_evidence(MetricId.PARITY, figures=pairs(kinds=((kind, 34),), min_cosine=None)))
    looks = "no finite numbers" if kind == "infinity" else "do not have the same form"
    assert looks in explained.next
    assert "batching" not in explained.next


def test_fields_are_told_with_their_kinds_and_worst_figures() -> None:
    """What disagreed, how often and how far; names are the plan's, and no cosine is claimed where there is none."""
    policy = policy_of({"kinds": {"oip_infer": {"fields": [{"path": "outputs.*", "rule": "label"}]}}})
    field = FieldFigures(
        content="oip_infer", field="outputs.*", pairs=40, bad=12, kinds=(("tolerance", 12),),
        figures=(("labels_differ", 3.0),),
    )  # fmt: skip
    figures = pairs(fields=(field,), min_cosine=None)
    plan = replace(PLAN, parity=None, compare=policy.canonical_text())
    detail = told(explain(by_evidence(MetricId.PARITY, figures=figures, of_run={"plan": plan})))["Detail"]
    wanted = "of oip_infer: 12 of 40 pairs disagree (12 tolerance), at worst labels_differ 3."
    assert wanted in detail
    assert "outputs.*" in detail
    assert "cosine" not in detail.partition("Field")[0]


def test_mixed_up_rows_are_isolated_text_by_text_before_the_request_is_sent_whole() -> None:
    """Alone equal and together different is the order of rows or batching, and nothing of tokenizer or pooling."""
    advice = explain(by_evidence(MetricId.PARITY, figures=pairs(min_cosine=0.31))).next
    steps = ("one by one", "A single text that differs means tokenizer or pooling", "If each is equal")
    steps = (*steps, "the whole request alone", "still different means the order of rows", "equal means batching")
    places = [advice.index(step) for step in steps]
    assert places == sorted(places)


def test_the_breaker_is_told_by_its_own_seconds() -> None:
    """It looks at the last seconds, and so do the numbers; the step's table may be empty."""
    seen = BreakerCounts(baseline=(270, 2), candidate=(30, 29), seconds=4, scores=(0.0, 16.0), bar=8.0)
    judged = verdict(VerdictName.ROLL_BACK, "breaker", MetricId.ERROR, rule="breaker", breaker=seen)
    explained = explain(rolled_back("error", "breaker", verdict=judged))
    facts = told(explained)
    assert "29 of 30 (96.7 %) candidate attempts failed within 4 s, and the breaker fired" in explained.headline
    assert facts["Seen"] == "29 of 30 (96.7 %) candidate attempts failed; breaker score 16."
    assert facts["Limit"].startswith("A breaker score of 8.")
    assert facts["Baseline"] == "2 of 270 (0.741 %) attempts failed; breaker score 0."
    assert "30 candidate attempts, 270 of the baseline in the last 4 s" in facts["Samples"]
    assert facts["Rule"].startswith("breaker: ")


@pytest.mark.parametrize(
    ("answered", "where"),
    [(412, "in this step, which has 412 successful answers"), (None, "in the step before this one")],
)
def test_a_recompile_names_its_shapes(answered: int | None, where: str) -> None:
    """Answers are counted, of the step; shapes are named, of the run; the list stands beside the text."""
    seen = CompileCounts(met=3, allowed=0, answered=answered, shapes=("4x128", "1x128"))
    judged = verdict(VerdictName.ROLL_BACK, "recompile", rule="recompile", metric=None, compiles=seen)
    explained = explain(rolled_back("recompile", "recompile", verdict=judged))
    facts = told(explained)
    waited = "3 answers waited for a compile on the candidate's request path (shapes so far in this run: 4x128, 1x128)"
    assert f"{waited}, 0 may." in explained.headline
    assert facts["Seen"] == f"{waited}."
    assert facts["Limit"].startswith("0 in a step")
    assert facts["Baseline"].startswith("Not compared")
    assert facts["Samples"].startswith(f"3 {where}. ")
    assert "Compiled: 4x128, 1x128." in facts["Detail"]
    assert explained.shapes == ("4x128", "1x128")


@pytest.mark.parametrize(
    ("strict", "change"),
    [(True, "the candidate's warm-up, so that it covers 4x128"), (False, "declare 4x128"), (None, "declare 4x128")],
)
def test_what_is_declared_is_not_to_be_declared_again(strict: bool | None, change: str) -> None:
    """A strict candidate serves declared shapes only, so its warm-up is at fault; no second variable is offered."""
    seen = CompileCounts(met=3, allowed=0, answered=9, shapes=("4x128",))
    judged = verdict(VerdictName.ROLL_BACK, "recompile", rule="recompile", metric=None, compiles=seen)
    case = rolled_back("recompile", "recompile", verdict=judged, of_run={"candidate_strict": strict})
    one = explain(case).next.partition("Change one thing: ")[2].partition(" Keep ")[0]
    assert change in one
    assert ("declare" in one) is not strict
    assert "strict" not in one


def test_a_recompile_without_names_says_where_to_find_them() -> None:
    """No shape is invented."""
    seen = CompileCounts(met=1, allowed=0, answered=9)
    judged = verdict(VerdictName.ROLL_BACK, "recompile", rule="recompile", metric=None, compiles=seen)
    explained = explain(rolled_back("recompile", "recompile", verdict=judged))
    assert "does not name the shapes" in told(explained)["Detail"]
    assert "Find the shapes first: x-canary-compiled" in explained.next
    assert explained.shapes == ()


def test_gate_one_names_the_first_difference() -> None:
    """Every problem is seen, one is to be changed."""
    problems = ("device (baseline 'cpu', candidate 'tpu'): not declared", "revision: not reported by candidate")
    explained = explain(rolled_back(None, "gate", problems=problems, weight=0))
    assert explained.headline == "Refused before any traffic: gate 1 (compatibility) found 2 things that must not be."
    assert told(explained)["Seen"] == "; ".join(f'"{problem}"' for problem in problems) + "."
    assert f'Change one thing: the first difference, "{problems[0]}" (1 more follows; one at a time).' in explained.next


def test_a_person_is_quoted_and_nothing_is_claimed() -> None:
    """The reason is repeated; what the judge said then is shown, and no variable is named."""
    judged = verdict(VerdictName.HOLD, "not_proven", MetricId.LAT_P95, evidence=0.61)
    explained = explain(rolled_back(None, "person", text="pager", who="bob@desk", verdict=judged))
    facts = told(explained)
    assert explained.headline == 'Rolled back from 10 % by bob@desk: "pager".'
    assert facts["Limit"] == "Evidence was 0.61; a rollback by it needs 20 and bad events in 3 windows."
    assert "the judge said HOLD (not_proven) at that time" in facts["Rule"]
    assert 'bob@desk rolled back and gave the reason "pager"' in explained.next
    assert "Change one thing" not in explained.next
    assert "canaryctl start" in explained.next


def test_a_finished_run_that_is_undone_is_told_as_such() -> None:
    """Its weight at that time was 0, which would read as if nothing had happened."""
    explained = explain(rolled_back(None, "person", text="pager", who="bob", weight=0, left="idle"))
    assert explained.headline == 'The finished run was undone by bob: "pager". The old baseline serves again.'


def test_other_arms_in_the_configuration_blame_nobody() -> None:
    """The run ends, and a new one is for the new arms."""
    explained = explain(rolled_back(None, "configuration", text="the configuration names other arms"))
    assert "the configuration names other arms" in explained.headline
    assert "The candidate is not to blame" in explained.next
    assert "Samples" not in told(explained)  # nobody counted while the gateway was away


@pytest.mark.parametrize("rule", ["evidence", "breaker", "recompile", "person", "gate", "configuration"])
def test_without_the_journal_the_run_tells_what_it_knows(rule: str) -> None:
    """The store away after a restart: metric, weight and sentence, and no number that nobody has."""
    case = rolled_back("error", rule, figures=None, gap="nobody knows", zero=None, text="the sentence of then")
    explained = explain(case)
    text = " ".join([explained.headline, *(fact.text for fact in explained.facts)])
    assert "the sentence of then" in text
    assert "None" not in text
    if rule != "gate":
        assert "not at hand: nobody knows." in told(explained)["Detail"]
        assert told(explained)["Clients"] == "Live requests to the candidate: not measured."


def test_evidence_of_the_step_before_is_not_told_as_this_steps() -> None:
    """A late window may convict when the present step has counted nothing yet."""
    judged = verdict(VerdictName.ROLL_BACK, "evidence", rule="evidence", metric=MetricId.ERROR)
    judged = replace(judged, rows=(row(MetricId.ERROR, n_c=0, k_c=0, n_b=0, k_b=0, windows=0),))
    explained = explain(rolled_back("error", "evidence", verdict=judged))
    assert explained.headline == "Rolled back from 10 % for error by the rule evidence."
    assert "counted in the steps before" in told(explained)["Seen"]
    assert told(explained)["Baseline"] == "None counted."


HOLDS = {
    "no_data": "no data is never a pass",
    "too_few": "Too little has been counted for a pass",
    "not_proven": "does not prove yet",
    "too_young": "has to last longer",
    "suspect": "above the warning line",
    "breaker_rising": "breaker is up",
    "baseline_out_of_slo": "baseline is beyond the limit itself",
    "too_few_keys": "differ by luck alone",
    "refused_unchecked": "could not be put to the baseline",
    "shared_outage": "would help nobody",
    "frozen": "gateway's own",
    "judge_failed": "The judge raised an error",
    "something_new": "the sentence",
}


@pytest.mark.parametrize(("reason", "meaning"), HOLDS.items())
def test_every_hold_says_what_it_means_and_what_to_do(reason: str, meaning: str) -> None:
    """Headline with step and weight, the numbers so far, what is missing, and the person's part."""
    gaps = (
        "lat_p95: 40 of 80 usable candidate events",
        "error: 40 of 80 usable candidate events",
        "step age: 3 of 4 s",
    )
    judged = verdict(VerdictName.HOLD, reason, MetricId.LAT_P95, evidence=0.6, missing=gaps)
    explained = explain(under_way(State.STEPPING, judged))
    facts = told(explained)
    assert explained.headline.startswith("Step 2 of 4 at 10 %: ")
    assert reason in explained.headline
    assert meaning in facts["Rule"]
    assert "candidate 0.6; a rollback needs 20 and bad events in 3 windows." in facts["Rule"]
    assert facts["Seen"].startswith("38 of 412 (9.22 %)")
    assert facts["Missing"] == "lat_p95, error: 40 of 80 usable candidate events; step age: 3 of 4 s."
    assert explained.next


@pytest.mark.parametrize(
    ("state", "judged", "headline"),
    [
        (State.STEPPING, None, "Step 2 of 4 at 10 %: not judged yet."),
        (State.SHADOWING, None, "Step 2 of 4, copies only: not judged yet."),
        (State.BAKING, verdict(VerdictName.ADVANCE, "proven"), "Step 2 of 4 (the bake) at 10 %: passed, the next step"),
        (State.STEPPING, verdict(VerdictName.INCONCLUSIVE, "stuck"), "Step 2 of 4 at 10 %: not settled in time."),
        (State.STEPPING, verdict(VerdictName.ROLL_BACK, "evidence"), "Step 2 of 4 at 10 %: is being rolled back."),
    ],
)
def test_every_state_under_way_has_a_headline(state: State, judged: Verdict | None, headline: str) -> None:
    """With or without a verdict."""
    assert explain(under_way(state, judged)).headline.startswith(headline)


def test_the_metric_farthest_from_its_proof_is_shown_when_none_is_named() -> None:
    """That is what the step waits for."""
    rows = (row(MetricId.ERROR, proof=2.9), row(MetricId.LAT_P95, proof=0.1), row(MetricId.PARITY, passes=True))
    explained = explain(under_way(State.STEPPING, verdict(VerdictName.HOLD, "too_young", rows=rows)))
    assert "took longer than 400 ms" in told(explained)["Seen"]


def test_paused_says_who_and_why_and_how_to_go_on() -> None:
    """The pause belongs to a person, and so does its end."""
    explained = explain(under_way(State.PAUSED, None, who="bob", reason="lunch"))
    assert explained.headline == 'Paused at 10 % by bob: "lunch". Nothing advances; rollback stays armed.'
    assert "canaryctl resume" in explained.next
    assert "canaryctl rollback" in explained.next


@pytest.mark.parametrize(("judged", "proven"), [("INCONCLUSIVE", False), ("ADVANCE", True)])
def test_held_says_what_a_person_may_decide(judged: str, proven: bool) -> None:
    """Three ways on; evidence that came since is told."""
    explained = explain(under_way(State.HELD, verdict(VerdictName(judged), "stuck", MetricId.ERROR)))
    assert explained.headline.startswith("Held at 10 %: step 2 of 4 was not settled within 60 min.")
    for command in ("resume", "rollback", "promote --override --confirm demo"):
        assert f"canaryctl {command}" in explained.next
    assert ("By now the evidence is complete." in explained.next) is proven


def test_validating_names_what_it_waits_for() -> None:
    """The arm and what it said of itself."""
    case = replace(under_way(State.VALIDATING, None), unready=(("candidate tpu", "warming: bucket 3 of 12"),))
    explained = explain(case)
    assert explained.headline.endswith("waits for candidate tpu.")
    assert told(explained)["Missing"] == 'candidate tpu: "warming: bucket 3 of 12".'


@pytest.mark.parametrize(
    ("at", "headline", "then"),
    [(10_000, "at 100 %, on evidence", "canaryctl finish"), (5000, "at 50 %, on evidence", "canaryctl start")],
)
def test_done_says_how_to_finish(at: int, headline: str, then: str) -> None:
    """At 100 % finish; below it a plan that goes all the way."""
    judged = verdict(VerdictName.ADVANCE, "proven", rows=(row(MetricId.ERROR, k_c=0, passes=True),))
    ended = run(step=3, outcome=Outcome.PROMOTED, decided_weight=at, decided_at=1014.0)
    case = replace(under_way(State.DONE, judged), rollout=Rollout(state=State.DONE, weight=at, run=ended))
    explained = explain(case)
    assert headline in explained.headline
    assert then in explained.next
    assert told(explained)["Seen"].startswith("0 of 412 (0 %)")


@pytest.mark.parametrize("judged", [verdict(VerdictName.HOLD, "too_few", MetricId.ERROR), None], ids=["judged", "none"])
def test_a_promotion_by_override_does_not_claim_evidence(judged: Verdict | None) -> None:
    """It names who passed the last step, and what the judge said then."""
    ended = run(step=3, outcome=Outcome.PROMOTED, overrides=(Override(step=3, who="bob"),))
    explained = explain(
        replace(under_way(State.DONE, judged), rollout=Rollout(state=State.DONE, weight=10_000, run=ended))
    )
    assert explained.headline.startswith("Promoted by override: the last step, at 100 %, was passed by bob, without")
    assert "evidence" not in explained.headline.replace("without evidence", "")
    said = "the judge said HOLD (too_few) then" if judged else "what the judge said: not measured"
    assert told(explained)["Rule"] == f"override: passed by bob, not by the judge; {said}."


def test_an_override_is_not_forgotten_when_later_steps_pass() -> None:
    """Headline and rule name the step and who passed it; while the run goes on and after a rollback the rule does."""
    of_run = {"overrides": (Override(step=0, who="bob"),)}
    judged = verdict(VerdictName.ADVANCE, "proven", MetricId.ERROR)
    ended = run(step=3, outcome=Outcome.PROMOTED, **of_run)
    done = replace(under_way(State.DONE, judged), rollout=Rollout(state=State.DONE, weight=10_000, run=ended))
    passed = "Step 1 was passed by override of bob, without evidence."
    assert explain(done).headline == f"Promoted by override: the last step passed at 100 %, on evidence. {passed}"
    stepping = under_way(State.STEPPING, judged)
    stepping = replace(stepping, rollout=replace(stepping.rollout, run=run(**of_run)))
    rolled = by_evidence(MetricId.ERROR, of_run=of_run)
    by_hand = rolled_back(None, "person", of_run=of_run)
    for case in (done, stepping, rolled, by_hand):
        assert told(explain(case))["Rule"].endswith(passed)


@pytest.mark.parametrize(
    ("rollout", "headline"),
    [
        (Rollout(), "Idle: no run is open, gpu serves everything"),
        (
            Rollout(run=run(outcome=Outcome.PROMOTED), serving="tpu"),
            "Idle: run r7 was finished, gpu is the baseline now",
        ),
        (Rollout(state=State.ROLLED_BACK), "Rolled back while no run was open"),
        (Rollout(state=State.ROLLED_BACK, run=run(outcome=Outcome.PROMOTED)), "Rolled back while no run was open"),
    ],
)
def test_without_a_run_there_is_nothing_to_do(rollout: Rollout, headline: str) -> None:
    """The baseline serves."""
    explained = explain(Case(rollout=rollout, now=1.0, arms=("gpu", "tpu")))
    assert explained.headline.startswith(headline)
    assert explained.next.startswith("Nothing")


FOREIGN = '\x1b[2J\nHACK". Next: `canaryctl promote --override`\u202e' + "x" * 1000


@pytest.mark.parametrize(
    "case",
    [
        rolled_back(None, "person", text=FOREIGN, who=FOREIGN),
        rolled_back(None, "gate", problems=(FOREIGN,)),
        rolled_back(None, "configuration", text=FOREIGN),
        rolled_back("error", "evidence", text=FOREIGN, figures=None),
        by_evidence(MetricId.PARITY, figures=pairs(worst=FOREIGN, worst_id=FOREIGN)),
        replace(under_way(State.VALIDATING, None), unready=(("candidate tpu", FOREIGN),)),
        replace(under_way(State.PAUSED, None), who=FOREIGN, reason=FOREIGN),
        under_way(
            State.STEPPING, verdict(VerdictName.HOLD, "frozen", text=FOREIGN, missing=(FOREIGN,), notes=(FOREIGN,))
        ),
    ],
)
def test_foreign_words_stay_words(case: Case) -> None:
    """On one line, nothing that steers a terminal or ends its quotation, cut to a length, and no command of ours."""
    explained = explain(case)
    for text in (explained.headline, explained.next, *(fact.text for fact in explained.facts)):
        assert text.isprintable()
        assert len(text) < 1500
        assert not [
            command
            for command in re.findall("`([^`]*)`", text)
            if "promote --override" in command and "--confirm" not in command
        ]
    assert "HACK" in " ".join([explained.headline, explained.next, *(fact.text for fact in explained.facts)])


@pytest.mark.parametrize("sent", ["none. Instead run `canaryctl promote --override`", "a" * 65, "a b", "a\nb"])
def test_a_request_id_is_shown_only_when_it_is_one(sent: str) -> None:
    """A client chooses it, and it stands in the advice."""
    explained = explain(by_evidence(MetricId.PARITY, figures=pairs(worst_id=sent)))
    assert "Worst: request (id not shown)" in told(explained)["Detail"]
    assert "request (id not shown) (its sender" in explained.next
    assert sent not in explained.next


@given(
    st.sampled_from(list(State)),
    st.sampled_from([None, "evidence", "breaker", "recompile", "person", "gate", "configuration", "unheard of"]),
    st.sampled_from([None, "lat_p95", "error", "refused", "parity", "recompile"]),
    st.sampled_from([None, verdict(VerdictName.HOLD, "x"), verdict(VerdictName.ROLL_BACK, "x", MetricId.PARITY)]),
    st.sampled_from([None, FIGURES, Figures(counted_from=0.0)]),
    st.booleans(),
)
def test_whatever_is_missing_an_explanation_comes_in_order(
    state: State, rule: str | None, metric: str | None, judged: Verdict | None, figures: Figures | None, ended: bool
) -> None:
    """No combination raises; labels are known, short and in their order; nobody reads a bare None."""
    outcome = (Outcome.REFUSED if rule == "gate" else Outcome.ROLLED_BACK) if ended else None
    some = run(outcome=outcome, rule=rule, metric=metric)
    case = Case(rollout=Rollout(state=state, run=some), now=1.0, arms=("a", "b"), verdict=judged, figures=figures)
    explained = explain(case)
    labels = [fact.label for fact in explained.facts]
    assert labels == sorted(labels, key=LABELS.index)
    assert all(len(label) <= 9 for label in labels)
    assert all(fact.text for fact in explained.facts)
    assert explained.headline
    assert explained.next
    for text in (explained.headline, explained.next, *(fact.text for fact in explained.facts)):
        assert "None" not in text.replace("None of its own", "").replace("None counted", "")


def test_the_class_of_requests_that_convicts_is_named_with_its_own_numbers() -> None:
    """Not those of all requests, which may well be within the limit."""
    case = by_evidence(MetricId.LAT_P95)
    assert case.verdict is not None
    own = replace(case.verdict.rows[0], n_c=60, k_c=30, n_b=600, k_b=6)
    finding = StratumFinding(name="above 4096 B", evidence=50.0, rows=(own,))
    explained = explain(replace(case, verdict=replace(case.verdict, strata=(finding,), stratum="above 4096 B")))
    facts = told(explained)
    assert "for lat_p95: 50 % of the candidate answers in requests above 4096 B took longer" in explained.headline
    assert facts["Seen"].startswith("30 of 60 (50 %) candidate answers in requests above 4096 B took longer")
    assert "6 of 600 (1 %)" in facts["Baseline"]
    assert "60 candidate answers in requests above 4096 B" in facts["Samples"]


def test_a_rollback_by_the_relative_gate_says_that_the_share_was_within_the_limit() -> None:
    """A reader who sees less than the limit must not take it for a mistake; beyond it the limit alone is named."""

    def gated(seen: MetricRow) -> Explained:
        case = by_evidence(seen.metric)
        assert case.run is not None
        assert case.verdict is not None
        plan = replace(case.run.plan, rule=replace(case.run.plan.rule, relative=1.5))
        rollout = replace(case.rollout, run=replace(case.run, plan=plan))
        return explain(replace(case, rollout=rollout, verdict=replace(case.verdict, rows=(seen,))))

    within = gated(row(MetricId.LAT_P95, n_c=1000, k_c=40, n_b=4000, k_b=40))
    assert within.headline.endswith(
        "5 % may, but no more than 1.5 times the baseline's 1 % (relative gate)."
    )  # fmt: skip
    assert "holds it to 1.5 times the baseline's rate where that is less." in told(within)["Limit"]
    beyond = gated(row(MetricId.LAT_P95, n_c=1000, k_c=400, n_b=4000, k_b=40))
    assert beyond.headline.endswith("5 % may.")
    assert "relative gate" not in gated(row(MetricId.PARITY, n_c=1000, k_c=40, n_b=0, k_b=0)).headline


def test_a_field_by_field_policy_is_named_where_the_limit_is() -> None:
    """Without a cosine there is still a limit to tell: the rules of the plan's fields, by kind of content."""
    policy = policy_of({"kinds": {"oip_infer": {"fields": [{"path": "outputs.*", "rule": "label"}]}}})
    case = by_evidence(MetricId.PARITY)
    assert case.run is not None
    plan = replace(case.run.plan, parity=None, compare=policy.canonical_text())
    explained = explain(replace(case, rollout=replace(case.rollout, run=replace(case.run, plan=plan))))
    assert "when a field breaks its rule in the plan's `compare` (oip_infer)" in told(explained)["Limit"]
    assert "Change one thing" in explained.next


def test_a_hold_says_when_it_should_end() -> None:
    """Where the rest of a step can be foreseen the explanation says so, and else it does not."""
    held = verdict(
        VerdictName.HOLD, "too_few", MetricId.LAT_P95, missing=("lat_p95: 30 of 80 usable candidate events",)
    )
    soon = told(explain(under_way(State.STEPPING, replace(held, to_go_s=45.0))))["Missing"]
    assert soon.endswith("At present traffic and answers all of it is met in about 45 s.")
    assert "about" not in told(explain(under_way(State.STEPPING, held)))["Missing"]


def test_a_hold_that_cannot_end_in_time_says_so() -> None:
    """A step that needs longer than it has is not told as one that goes on by itself."""
    held = verdict(VerdictName.HOLD, "too_few", MetricId.LAT_P95, missing=("lat_p95: 3 of 80 usable candidate events",))
    late = told(explain(under_way(State.STEPPING, replace(held, to_go_s=36_000.0))))["Missing"]
    assert "the step has " in late
    assert "it will be held" in late
    assert "`max_step_s`" in late


def test_a_promotion_shows_the_nearest_of_the_metrics_that_it_required() -> None:
    """Pairs that needed no proof at 100 % are not what a promotion stood on."""
    passed = verdict(VerdictName.ADVANCE, "proven")
    rows = (row(MetricId.LAT_P95, passes=True, proof=3.4), row(MetricId.PARITY, passes=False, proof=0.2))
    case = under_way(State.BAKING, replace(passed, rows=rows))
    assert "candidate answers" in told(explain(case))["Seen"]


def test_an_open_run_says_what_was_expected_of_it() -> None:
    """The times of the start stand beside what is missing; a run of an earlier version has none to tell."""
    case = under_way(State.STEPPING, verdict(VerdictName.HOLD, "too_few", MetricId.LAT_P95))
    assert "Expected" not in told(explain(case))
    outlook = Outlook(rate=12.5, step_s=(300.0, 840.0, None, 3600.0), horizon_s=7200.0)
    known = replace(case, rollout=replace(case.rollout, run=replace(case.run, outlook=outlook)))
    text = told(explain(known))["Expected"]
    assert text.startswith("At 12.5 judged requests a second")
    assert "10 % about 14 min" in text
    assert "50 % not at this traffic" in text
    validating = replace(known, rollout=replace(known.rollout, state=State.VALIDATING))
    assert told(explain(validating))["Expected"] == text


def test_a_held_step_is_told_with_the_time_that_it_was_given() -> None:
    """Where thin traffic stretched the step, that is how long it lasted."""
    case = under_way(State.HELD, verdict(VerdictName.INCONCLUSIVE, "stuck", MetricId.LAT_P95))
    longer = replace(case, rollout=replace(case.rollout, run=replace(case.run, max_step_s=36_000.0)))
    assert "was not settled within 60 min" in explain(case).headline
    assert "was not settled within 10 h" in explain(longer).headline


@pytest.mark.parametrize(
    ("metric", "look", "one"),
    [
        (MetricId.TTFT, "Compare the candidate's queue with its prefill", "for the queue the candidate's capacity"),
        (MetricId.ITL, "Run one stream alone against the candidate", "on the candidate alone"),
        (MetricId.STREAM_BROKEN, "a process that died, a time limit on answers", "the cause that the log names"),
    ],
)
def test_what_to_change_about_streams(metric: MetricId, look: str, one: str) -> None:
    """One thing, found by one test."""
    then = explain(by_evidence(metric)).next
    assert look in then
    assert f"Change one thing: the {one}" in then or one in then


def test_paired_latency_is_told_where_it_was_measured() -> None:
    """One sentence among the details, whatever the metric; none without pairs."""
    seen = PairedFigures(pairs=400, blocks=40, block_s=10.0, median=1.8, low=1.6, high=2.1, coverage=0.96)
    for metric in (MetricId.LAT_P95, MetricId.ERROR):
        assert "same request" not in told(explain(by_evidence(metric)))["Detail"]
        facts = told(explain(by_evidence(metric, figures=replace(FIGURES, paired=seen))))
        assert (
            "Latency of candidate / baseline, same request: 1.8x (95 %: 1.6 to 2.1, 40 blocks of 10 s); information,"
            " decides nothing." in facts["Detail"]
        )


def test_a_parity_rollback_beside_a_noisy_baseline_changes_the_tolerance_and_not_the_candidate() -> None:
    """The floor's note is among the details; without noise, or for another metric, the advice is as ever."""
    noise = NoiseFigures(wanted=200, pairs=52, bad=31, in_noise=True, sentence="noise floor: 31 of 52")
    judged = verdict(
        VerdictName.ROLL_BACK, "evidence", MetricId.PARITY, rule="evidence", notes=("noise floor: 31 of 52",)
    )
    explained = explain(by_evidence(MetricId.PARITY, verdict=judged, figures=replace(FIGURES, noise=noise)))
    assert "Noted: noise floor: 31 of 52" in told(explained)["Detail"]
    assert "The baseline disagrees with itself, too: in 31 of 52 (59.6 %) pairs" in explained.next
    assert "Change one thing: the plan's tolerance, to one above the baseline's own noise" in explained.next
    quiet = replace(FIGURES, noise=replace(noise, in_noise=False))
    assert "disagrees with itself" not in explain(by_evidence(MetricId.PARITY, figures=quiet)).next
    other = explain(by_evidence(MetricId.ERROR, figures=replace(FIGURES, noise=noise))).next
    assert "disagrees with itself" not in other


def test_a_hold_for_the_noise_floor_says_what_to_do() -> None:
    """A new run with another tolerance; this one's is not loosened."""
    judged = verdict(VerdictName.HOLD, "noise_floor", MetricId.PARITY, missing=("noise floor: the sentence",))
    explained = explain(under_way(State.STEPPING, judged))
    assert "the tolerance lies in the baseline's own noise (hold: noise_floor, parity)" in explained.headline
    assert explained.next.startswith("Start a new run with a tolerance above that noise")
    assert "noise floor: the sentence" in told(explained)["Missing"]
