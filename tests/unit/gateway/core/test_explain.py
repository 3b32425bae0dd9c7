"""The words of an explanation: for every end and every state the number, the limit, the samples and what to do."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.explain import Case, Explained, explain
from gateway.core.explain.sentences import LABELS
from gateway.core.figures import ArmFigures, ClientFigures, Figures, PairFigures, Percentiles
from gateway.core.findings import BreakerCounts, CompileCounts, MetricRow, Rule, Verdict, VerdictName
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.run import Outcome, Rollout, Run, State

LIMITS = {MetricId.LAT_P95: 400.0}
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
    baseline=ArmFigures(live=3702, total=Percentiles(count=3700, p50=20.0, p95=41.0)),
    candidate=ArmFigures(
        live=203, copies=209, failed=40, unavailable=3, total=Percentiles(count=400, p50=300.0, p95=812.0)
    ),
    clients=ClientFigures(answered=3905, by_candidate=190, failed_over=12, spared=4),
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
        "step_since": 1000.0,
    }  # fmt: skip
    return Run(**(values | changes))


def rolled_back(metric: str | None, rule: str, **changes: Any) -> Case:
    ended = run(
        outcome=Outcome.REFUSED if rule == "gate" else Outcome.ROLLED_BACK, metric=metric, rule=rule,
        text=changes.pop("text", "the sentence"), decided_weight=changes.pop("weight", 1000), decided_at=1014.0,
        time_to_zero_s=changes.pop("zero", 0.031), live_candidate_requests=203,
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


@pytest.mark.parametrize(
    ("metric", "seen", "limit", "baseline"),
    [
        (MetricId.LAT_P95, "candidate answers took longer than 400 ms", "longer than 400 ms", "3 of 3,702 (0.081 %)"),
        (MetricId.ERROR, "candidate requests failed or found it unavailable", "At most 5 %", "3 of 3,702 (0.081 %)"),
        (MetricId.REFUSED, "candidate requests were refused although the baseline", "At most 5 %", "0, by definition"),
        (MetricId.PARITY, "compared pairs disagree", "below cosine 0.99", "its answers are what"),
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
    assert "Step 2 of 4, 14 s after it began" in facts["Samples"]
    assert "evidence 34 against a bar of 20: at most 1 healthy candidate in 20" in facts["Rule"]
    assert f"{metric} alone contributes 30" in facts["Rule"]
    assert "Declared to differ: dtype, device." in facts["Detail"]
    assert "203 live requests" in facts["Clients"]
    assert "answered 12 in its place" in facts["Clients"]
    assert "3,905 answers and 0 failures" in facts["Clients"]
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
    assert "p95 since judging began: candidate 812 ms, baseline 41 ms" in told(explained)["Baseline"]
    assert "in the last 6 s: candidate not measured" in told(explained)["Baseline"]
    assert "median is slow, too (300 ms against 20 ms), so start with the device" in explained.next
    late = Percentiles(count=50, p50=21.0, p95=900.0)
    tail = replace(
        FIGURES,
        candidate=replace(FIGURES.candidate, recent=late),
        baseline=replace(FIGURES.baseline, recent=Percentiles(count=50, p50=20.0, p95=40.0)),
    )
    assert (
        "(of late 21 ms against 20 ms), only the tail is slow, so start with the queue"
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


@pytest.mark.parametrize(
    ("figures", "look", "change"),
    [
        (pairs(min_cosine=0.31), "A cosine of 0.31 is no rounding", "the one of these that the test shows"),
        (pairs(min_cosine=0.9893), "0.9893 (the limit is 0.99) looks like precision", "matmul precision"),
        (pairs(kinds=(("status", 34),)), "disagree on what they accept", "catalogue"),
        (pairs(kinds=(("shape", 34),)), "do not have the same form", "output"),
        (pairs(kinds=(("undecodable", 34),)), "do not have the same form", "output"),
        (pairs(kinds=(("nan", 34),)), "no finite numbers", "dtype"),
        (pairs(min_cosine=None), "Isolate it", "batching"),
    ],
)
def test_parity_is_told_apart_by_kind_and_distance(figures: Figures, look: str, change: str) -> None:
    """Rounding, wrong rows, another form and refusals each have their one change; the worst request is named."""
    explained = explain(by_evidence(MetricId.PARITY, figures=figures))
    assert look in explained.next
    assert "send request req-7 alone to both arms" in explained.next
    assert change in explained.next.partition("Change one thing: ")[2].partition(" Keep ")[0]
    assert "Worst: request req-7" in told(explained)["Detail"]
    may_be_wrong = "190 of the answers were the candidate's: any of them may be wrong" in told(explained)["Clients"]
    assert may_be_wrong is (change != "catalogue")


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
    ("answered", "where"), [(412, "among 412 answers of this step"), (None, "in the step before this one")]
)
def test_a_recompile_names_its_shapes(answered: int | None, where: str) -> None:
    """Headline, detail and the one change have them, and so has the list beside the text."""
    seen = CompileCounts(compiles=3, allowed=0, answered=answered, shapes=("4x128", "1x128"))
    judged = verdict(VerdictName.ROLL_BACK, "recompile", rule="recompile", metric=None, compiles=seen)
    explained = explain(rolled_back("recompile", "recompile", verdict=judged))
    facts = told(explained)
    assert "met 3 compiles (shapes 4x128, 1x128), 0 allowed" in explained.headline
    assert facts["Limit"].startswith("0 in a step")
    assert facts["Baseline"].startswith("Not compared")
    assert f"3 compiles {where}" in facts["Samples"]
    assert "Compiled: 4x128, 1x128." in facts["Detail"]
    assert "declare 4x128, 1x128" in explained.next
    assert explained.shapes == ("4x128", "1x128")


def test_a_recompile_without_names_says_where_to_find_them() -> None:
    """No shape is invented."""
    seen = CompileCounts(compiles=1, allowed=0, answered=9)
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
    assert "; ".join(problems) in told(explained)["Seen"]
    assert f"Change one thing: the first difference, {problems[0]} (1 more follows; one at a time)." in explained.next


def test_a_person_is_quoted_and_nothing_is_claimed() -> None:
    """The reason is repeated; what the judge said then is shown, and no variable is named."""
    judged = verdict(VerdictName.HOLD, "not_proven", MetricId.LAT_P95, evidence=0.61)
    explained = explain(rolled_back(None, "person", text="pager", who="bob@desk", verdict=judged))
    facts = told(explained)
    assert explained.headline == 'Rolled back from 10 % by bob@desk: "pager".'
    assert facts["Limit"] == "None was reached: evidence 0.61 against a bar of 20."
    assert "the judge said HOLD (not_proven)" in facts["Rule"]
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


@pytest.mark.parametrize("rule", ["evidence", "breaker", "recompile", "person", "gate", "configuration"])
def test_without_the_journal_the_run_tells_what_it_knows(rule: str) -> None:
    """The store away after a restart: metric, weight and sentence, and no number that nobody has."""
    case = rolled_back("error", rule, figures=None, journal_read=False, zero=None, text="the sentence of then")
    explained = explain(case)
    text = " ".join([explained.headline, *(fact.text for fact in explained.facts)])
    assert "the sentence of then" in text
    assert "None" not in text.replace("None was reached", "")
    if rule != "gate":
        assert "the store did not give the run's journal" in told(explained)["Detail"]
        assert "not measured" in told(explained)["Zero"]


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
    "too_few": "Too little has been counted",
    "not_proven": "does not prove yet",
    "too_young": "has to last longer",
    "suspect": "above the warning line",
    "baseline_out_of_slo": "baseline is beyond the limit itself",
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
    assert "Evidence against the candidate 0.6; a rollback needs 20." in facts["Rule"]
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
    case = replace(under_way(State.VALIDATING, None), waiting_for="candidate tpu: warming: bucket 3 of 12")
    explained = explain(case)
    assert "waits for candidate tpu: warming: bucket 3 of 12" in explained.headline
    assert told(explained)["Missing"] == "candidate tpu: warming: bucket 3 of 12."


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


def test_a_promotion_by_override_does_not_claim_evidence() -> None:
    """It names who passed the step."""
    ended = run(step=3, outcome=Outcome.PROMOTED)
    case = replace(under_way(State.DONE, None), rollout=Rollout(state=State.DONE, weight=10_000, run=ended))
    explained = explain(replace(case, overridden="bob"))
    assert "by override of bob, without evidence" in explained.headline
    assert told(explained)["Seen"] == "Passed by bob, not by the judge."


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


FOREIGN = "\x1b[2J\nHACK `rm -rf`\u202e" + "x" * 1000


@pytest.mark.parametrize(
    "case",
    [
        rolled_back(None, "person", text=FOREIGN, who=FOREIGN),
        rolled_back(None, "gate", problems=(FOREIGN,)),
        rolled_back(None, "configuration", text=FOREIGN),
        rolled_back("error", "evidence", text=FOREIGN, figures=None),
        by_evidence(MetricId.PARITY, figures=pairs(worst=FOREIGN, worst_id=FOREIGN)),
        replace(under_way(State.VALIDATING, None), waiting_for=FOREIGN),
        replace(under_way(State.PAUSED, None), who=FOREIGN, reason=FOREIGN),
        under_way(
            State.STEPPING, verdict(VerdictName.HOLD, "frozen", text=FOREIGN, missing=(FOREIGN,), notes=(FOREIGN,))
        ),
    ],
)
def test_foreign_words_stay_words(case: Case) -> None:
    """On one line, nothing that steers a terminal, cut to a length."""
    explained = explain(case)
    for text in (explained.headline, explained.next, *(fact.text for fact in explained.facts)):
        assert text.isprintable()
        assert len(text) < 1500
    assert "HACK" in " ".join([explained.headline, explained.next, *(fact.text for fact in explained.facts)])


@given(
    st.sampled_from(list(State)),
    st.sampled_from([None, "evidence", "breaker", "recompile", "person", "gate", "configuration", "unheard of"]),
    st.sampled_from([None, "lat_p95", "error", "refused", "parity", "recompile"]),
    st.sampled_from([None, verdict(VerdictName.HOLD, "x"), verdict(VerdictName.ROLL_BACK, "x", MetricId.PARITY)]),
    st.sampled_from([None, FIGURES, Figures()]),
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
    assert "None " not in explained.headline.replace("None was", "")
