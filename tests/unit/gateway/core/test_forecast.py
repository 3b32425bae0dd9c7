"""When a step would be through at present traffic: told where it can be foreseen, and only there."""

from dataclasses import replace

import pytest
from decision_cases import HEALTHY, begin, feed, started, vector_plan

from gateway.core.plan import MetricId, RuleParameters
from gateway.core.sequential import Cell
from gateway.core.verdict import Judge, VerdictName

SUSPECT = HEALTHY | {MetricId.ERROR: Cell(100, 1, 900, 1)}
AT_THE_LIMIT = HEALTHY | {MetricId.LAT_P50: Cell(50, 26, 450, 234)}


def judged(count: int) -> Judge:
    judge = started()
    feed(judge, HEALTHY, first=0, count=count)
    return judge


@pytest.mark.parametrize("count", [4, 7, 12])
def test_a_healthy_step_ends_about_when_it_was_foretold(count: int) -> None:
    """What is said after a minute or two holds to within a round of tests, though proof and windows are still few."""
    to_go_s = judged(count).verdict(now=count * 10.0).to_go_s
    assert to_go_s is not None
    foretold = count * 10.0 + to_go_s
    windows = next(n for n in range(count, 200) if judged(n).verdict(now=n * 10.0).name is VerdictName.ADVANCE)
    assert foretold == pytest.approx(windows * 10.0, abs=60.0)


def test_only_age_is_counted_to_the_second() -> None:
    """With all counts complete the rest of the step's time is known exactly."""
    verdict = judged(60).verdict(now=290.0)
    assert (verdict.reason, verdict.to_go_s) == ("too_young", 10.0)


def test_nothing_is_foretold_where_nothing_comes() -> None:
    """No traffic, or a candidate about as bad as it may be: no number is given."""
    assert started().verdict(now=100.0).to_go_s is None
    judge = started(vector_plan(max_step_s=36_000.0))
    feed(judge, AT_THE_LIMIT, first=0, count=60)
    verdict = judge.verdict(now=600.0)
    assert (verdict.reason, verdict.to_go_s) == ("not_proven", None)


def test_other_verdicts_foretell_nothing() -> None:
    """What speaks against the candidate does not end by itself, and what has passed needs nothing."""
    judge = started()
    feed(judge, SUSPECT, first=0, count=5)
    verdict = judge.verdict(now=50.0)
    assert (verdict.reason, verdict.to_go_s) == ("suspect", None)
    assert judged(60).verdict(now=600.0).to_go_s is None


def test_more_traffic_means_sooner() -> None:
    """Twice the events in the same time never take longer to suffice."""
    double = {metric: Cell(2 * c.n_c, 2 * c.k_c, 2 * c.n_b, 2 * c.k_b) for metric, c in HEALTHY.items()}
    for count in (4, 7, 12):
        judge = started()
        feed(judge, double, first=0, count=count)
        one, two = (j.verdict(now=count * 10.0).to_go_s for j in (judged(count), judge))
        assert one is not None
        assert two is not None
        assert two <= one


def test_a_new_step_forgets_what_the_last_one_counted() -> None:
    """The forecast is of the present step's own counts."""
    judge = judged(60)
    begin(judge, weight_bp=5000, next_weight_bp=10_000, window=60, now=600.0)
    assert judge.verdict(now=600.0).to_go_s is None
    assert replace(judge.verdict(now=600.0), to_go_s=None) == judge.verdict(now=600.0)


def test_answers_that_were_excused_too_often_are_in_the_forecast() -> None:
    """What keeps a metric from being proven must not be forgotten by what says when it will be."""
    judge = started(vector_plan(max_step_s=36_000.0))
    feed(judge, HEALTHY, first=0, count=60, excused=2)
    verdict = judge.verdict(now=600.0)
    assert verdict.reason == "not_proven"
    assert verdict.to_go_s is None or verdict.to_go_s > 0


def test_a_suspicion_is_not_hidden_by_an_open_wide_window() -> None:
    """Cautious bets on windows of a minute: what was suspect when one closed is suspect until the next does."""
    rule = RuleParameters(cautious=True)
    bad = HEALTHY | {MetricId.LAT_P99: Cell(100, 2, 900, 2)}
    judge = started(vector_plan(rule=rule, max_step_s=36_000.0))
    reasons = []
    for window in range(60):
        feed(judge, bad, first=window, count=1)
        reasons.append(judge.verdict(now=(window + 1) * 10.0).reason)
    closed = [n for n in range(5, 60, 6) if reasons[n] == "suspect"]
    assert closed
    assert all(reasons[n + later] in ("suspect", "evidence") for n in closed for later in range(6) if n + later < 60)
