"""Numbers that would mislead: what they are of, what is not in them, and where they contradict."""

from dataclasses import replace

import pytest
from fakes.explained import FIGURES, PLAN, by_evidence, rolled_back, row, run, told, under_way, verdict

from gateway.core.explain import explain
from gateway.core.figures import ArmFigures, Figures, Percentiles
from gateway.core.findings import BreakerCounts, VerdictName
from gateway.core.plan import MetricId
from gateway.core.run import Outcome, Rollout, State

FAST = Percentiles(count=150, p50=20.0, p95=31.0)
SLOW = Percentiles(count=150, p50=20.0, p95=612.0)


def answered(total: Percentiles, recent: Percentiles, *, failed: int = 0) -> Figures:
    candidate = ArmFigures(live=300, failed=failed, total=total, recent=recent)
    return replace(FIGURES, candidate=candidate, baseline=ArmFigures(total=FAST, recent=FAST))


@pytest.mark.parametrize(
    ("figures", "hangs"),
    [
        (answered(FAST, FAST, failed=150), True),
        (answered(FAST, FAST), True),
        (answered(SLOW, FAST), False),
        (answered(FAST, SLOW), False),
        (answered(Percentiles(), Percentiles()), True),
    ],
    ids=["failed", "still open", "was slow", "is slow", "nothing answered"],
)
def test_answers_that_never_came_are_not_looked_for_in_percentiles(figures: Figures, hangs: bool) -> None:
    """More beyond the limit than the percentiles of successes allow: said, with the failed, and no phase is blamed."""
    explained = explain(by_evidence(MetricId.LAT_P95, figures=figures))
    assert ("More took too long than these percentiles allow" in told(explained)["Detail"]) is hangs
    assert (f"({figures.candidate.failed} failed" in told(explained)["Detail"]) is hangs
    assert ("queue" in explained.next) is not hangs
    assert ("what makes those requests hang" in explained.next) is hangs


@pytest.mark.parametrize(("k_c", "hangs"), [(20, False), (21, True)])
def test_as_many_as_the_percentiles_allow_do_not_hang(k_c: int, hangs: bool) -> None:
    """Five percent lie above a p95."""
    judged = verdict(VerdictName.ROLL_BACK, "evidence", MetricId.LAT_P95, rule="evidence")
    judged = replace(judged, rows=(row(MetricId.LAT_P95, n_c=400, k_c=k_c),))
    explained = explain(by_evidence(MetricId.LAT_P95, verdict=judged, figures=answered(FAST, FAST)))
    assert ("requests hang" in explained.next) is hangs


@pytest.mark.parametrize(
    ("p50", "count", "start"),
    [(29.8, 20, "start with the queue"), (30.0, 20, "start with the device"), (29.8, 19, "start with the device")],
)
def test_where_to_start_follows_the_ratio_of_late(p50: float, count: int, start: str) -> None:
    """From 1.5 times on the median is slow; of late only where twenty answers say so, else over all."""
    recent = Percentiles(count=count, p50=p50, p95=900.0)
    figures = answered(Percentiles(count=500, p50=200.0, p95=900.0), recent)
    assert start in explain(by_evidence(MetricId.LAT_P95, figures=figures)).next


def test_a_workers_breaker_is_told_as_one_workers() -> None:
    """Its name, of how many; what all workers have counted so far is not put against it."""
    seen = BreakerCounts(
        baseline=(9, 0), candidate=(12, 12), seconds=3, scores=(0.0, 16.0), bar=8.0, worker="w7", workers=4
    )
    judged = verdict(VerdictName.ROLL_BACK, "breaker", MetricId.ERROR, rule="breaker", breaker=seen)
    explained = explain(rolled_back("error", "breaker", verdict=judged))
    facts = told(explained)
    for text in (explained.headline, facts["Seen"], facts["Samples"]):
        assert "in worker w7 (of 4)" in text
    assert "found the candidate unavailable" not in facts.get("Detail", "")


def test_after_a_restart_counts_are_said_to_begin_there() -> None:
    """Live requests and percentiles of before are in no figure."""
    figures = replace(FIGURES, counted_from=86_400.0 * 20_000 + 3723.9)
    explained = explain(by_evidence(MetricId.LAT_P95, figures=figures))
    facts = told(explained)
    assert facts["Clients"].startswith(
        "203 live requests went to the candidate since 01:02:03 UTC, when this gateway began to count."
    )
    assert "since 01:02:03 UTC, when this gateway began to count: candidate 812 ms" in facts["Baseline"]
    assert "since judging began" not in " ".join(facts.values())
    assert "In all" not in " ".join(facts.values())


@pytest.mark.parametrize(
    ("of_run", "now", "zero"),
    [
        ({}, 1015.0, "31 ms after the decision every worker had confirmed: no new request to the candidate."),
        ({"time_to_zero_s": None, "acknowledged": None}, 1015.0, "Routed; the workers are being waited for."),
        ({"time_to_zero_s": None, "acknowledged": None}, 1030.0, "Time to zero: not measured."),
        ({"acknowledged": 0}, 1030.0, "No worker was running"),
        ({"time_to_zero_s": None, "acknowledged": 1, "unconfirmed": ("w1", "w3")}, 1030.0, "by worker w1, w3"),
        ({"time_to_zero_s": None, "acknowledged": None, "rule": "configuration"}, 1030.0, "No worker was running"),
    ],
)
def test_time_to_zero_pending_unconfirmed_and_unwatched_are_three_things(
    of_run: dict[str, object], now: float, zero: str
) -> None:
    """Who did not confirm is named."""
    case = by_evidence(MetricId.ERROR)
    case = replace(case, now=now, rollout=replace(case.rollout, run=replace(case.run, **of_run)))
    assert zero in told(explain(case))["Zero"]


def test_a_verdict_of_the_promotion_is_not_one_of_the_rollback() -> None:
    """Nothing is judged after the last step has passed."""
    judged = verdict(VerdictName.ADVANCE, "proven", evidence=0.2)
    explained = explain(rolled_back(None, "person", verdict=judged, who="ann", of_run={"promoted_at": 1010.0}))
    facts = told(explained)
    assert "the judge said ADVANCE (proven) at the promotion, at 00:16:50 UTC" in facts["Rule"]
    assert "at that time" not in facts["Rule"]
    assert facts["Samples"] == "Step 2 of 4; evidence counted for 10 s."


def test_evidence_at_its_bar_without_a_rollback_says_what_lacks() -> None:
    """Bad events in several windows are the second condition, for the judge and beside a person's rollback."""
    judged = verdict(VerdictName.HOLD, "suspect", MetricId.ERROR, evidence=34.0)
    rule = told(explain(under_way(State.STEPPING, judged)))["Rule"]
    assert "at its bar; the bad events are not in enough windows yet" in rule
    assert "34; a rollback needs 20 and bad events in 3 windows" in rule
    below = told(explain(under_way(State.STEPPING, replace(judged, evidence=19.0))))["Rule"]
    assert "above the warning line" in below
    by_hand = told(explain(rolled_back(None, "person", verdict=judged)))
    assert by_hand["Limit"] == "Evidence was 34; a rollback by it needs 20 and bad events in 3 windows."


@pytest.mark.parametrize("sticky", [False, True])
def test_the_bars_error_rate_is_claimed_for_a_split_by_request_alone(sticky: bool) -> None:
    """And with three digits."""
    judged = verdict(VerdictName.ROLL_BACK, "evidence", MetricId.ERROR, rule="evidence", bar=1 / 0.03)
    rule = told(explain(by_evidence(MetricId.ERROR, verdict=judged, sticky=sticky)))["Rule"]
    assert "against a bar of 33.3: " in rule
    assert "at most 1 healthy candidate in 33.3 ever" in rule
    assert ("this split is by key, for which that does not hold" in rule) is sticky


@pytest.mark.parametrize(
    ("step", "copies", "lanes"), [(0, 5000, "(copied)"), (1, 5000, "(live and copied)"), (1, 0, "(live)")]
)
def test_samples_name_the_lanes_that_there_are(step: int, copies: int, lanes: str) -> None:
    """A shadow step has no live request, a plan without copies no copy."""
    plan = replace(PLAN, copies=copies, steps=PLAN.steps if copies else (500, 1000, 5000, 10_000))
    case = by_evidence(MetricId.ERROR, of_run={"plan": plan, "step": step})
    assert f"candidate requests {lanes} in 9 windows" in told(explain(case))["Samples"]


@pytest.mark.parametrize(
    ("metric", "k_b", "step", "said"),
    [
        (MetricId.ERROR, 500, 1, True),
        (MetricId.ERROR, 50, 1, False),
        (MetricId.ERROR, 500, 3, False),
        (MetricId.REFUSED, 500, 1, False),
    ],
)
def test_a_baseline_above_the_limit_raises_it_and_that_is_said(
    metric: MetricId, k_b: int, step: int, said: bool
) -> None:
    """Where the baseline is the control, and only there."""
    judged = verdict(VerdictName.ROLL_BACK, "evidence", metric, rule="evidence", rows=(row(metric, k_b=k_b),))
    plan = replace(PLAN, control_at_full=False)
    case = by_evidence(metric, verdict=judged, of_run={"plan": plan, "step": step})
    assert ("raises what the candidate is held to" in told(explain(case))["Limit"]) is said


def test_the_last_step_is_followed_by_the_promotion() -> None:
    """There is no next step."""
    judged = verdict(VerdictName.ADVANCE, "proven")
    case = under_way(State.BAKING, judged)
    case = replace(case, rollout=replace(case.rollout, run=run(step=3)))
    assert explain(case).headline.endswith("passed, the promotion follows.")


def test_a_promotion_whose_numbers_are_lost_claims_no_evidence() -> None:
    """It passed; on what is not at hand."""
    ended = run(step=3, outcome=Outcome.PROMOTED)
    case = replace(under_way(State.DONE, None), rollout=Rollout(state=State.DONE, weight=10_000, run=ended))
    assert explain(replace(case, figures=None)).headline == "Promoted: the last step passed at 100 %."
