from typing import Any

import pytest

from demo.failures import DemoFailed
from demo.load_view import Load
from demo.referee import (
    Decision,
    FaultTimer,
    against_decision,
    against_explanation,
    against_service,
    has_figures,
    outcome_of,
)
from demo.scenarios import SCENARIOS
from wire.admin import Explanation, Fact, MetricView


def asked(timer: FaultTimer, *looks: tuple[int, int, float]) -> list[bool]:
    return [timer.is_due(weight=weight, live=live, now=now) for weight, live, now in looks]


def test_fault_waits_for_five_seconds_of_live_weight() -> None:
    """A fault begins once, after 5 s at 10 % or more without a break."""
    timer = FaultTimer(SCENARIOS["crash"])
    early = asked(timer, (0, 9, 0.0), (1000, 9, 1.0), (1000, 9, 5.9), (0, 9, 6.0), (1000, 9, 7.0), (5000, 9, 11.9))
    assert early == [False] * 6
    assert asked(timer, (5000, 9, 12.0), (5000, 9, 99.0)) == [True, False]


def test_fault_waits_for_live_requests() -> None:
    """A fault that no live request could have met would show nothing."""
    timer = FaultTimer(SCENARIOS["crash"])
    assert asked(timer, (1000, 0, 0.0), (1000, 0, 30.0), (1000, 1, 30.5)) == [False, False, True]


def test_low_weight_never_starts_a_fault() -> None:
    """Below 10 % nothing breaks, however long it lasts."""
    assert asked(FaultTimer(SCENARIOS["crash"]), (999, 9, 0.0), (999, 9, 100.0)) == [False, False]


def test_good_has_no_fault() -> None:
    """The healthy scenario never breaks anything."""
    assert asked(FaultTimer(SCENARIOS["good"]), (10000, 9, 0.0), (10000, 9, 100.0)) == [False, False]


@pytest.mark.parametrize(
    ("state", "run_outcome", "outcome"),
    [
        ("stepping", None, None),
        ("baking", None, None),
        ("paused", None, None),
        ("done", "PROMOTED", "PROMOTED"),
        ("rolled_back", "ROLLED_BACK", "ROLLED_BACK"),
        ("rolled_back", "REFUSED", "REFUSED"),
        ("held", None, "INCONCLUSIVE"),
    ],
)
def test_outcome(make: Any, state: str, run_outcome: str | None, outcome: str | None) -> None:
    """The run's own outcome counts; a run held for lack of evidence is inconclusive; else it goes on."""
    assert outcome_of(make.status(state=state, run=make.run(outcome=run_outcome))) == outcome


@pytest.mark.parametrize(
    ("outcome", "time_to_zero_ms", "complete"),
    [("ROLLED_BACK", None, False), ("ROLLED_BACK", 4.2, True), ("PROMOTED", None, True), (None, None, True)],
)
def test_rollback_is_complete_when_acknowledged(
    make: Any, outcome: str | None, time_to_zero_ms: float | None, complete: bool
) -> None:
    """The figures of a rollback come with the workers' acknowledgement, those of any other decision with it."""
    status = make.status(run=make.run(outcome=outcome, time_to_zero_ms=time_to_zero_ms))
    assert has_figures(status) is complete


def decision(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "outcome": "ROLLED_BACK", "metric": "error", "weight": 1000, "live_candidate_requests": 2, "decided_at": 105.9,
        "fault_began": 100.0, "struck": 3, "metrics": [],
    }  # fmt: skip
    return Decision(**(fields | changes))


def test_nothing_against_what_was_expected() -> None:
    """A crash that is rolled back for errors, and a healthy candidate that is promoted, are as expected."""
    assert against_decision(SCENARIOS["crash"], decision()) == []
    promoted = decision(outcome="PROMOTED", metric=None, weight=10000, fault_began=None)
    assert against_decision(SCENARIOS["good"], promoted) == []
    assert decision().fault_to_decision_s == 5.9


@pytest.mark.parametrize(
    ("changes", "objection"),
    [
        ({"outcome": "INCONCLUSIVE"}, "outcome: INCONCLUSIVE; expected ROLLED_BACK"),
        ({"metric": "lat_p95"}, "metric: lat_p95 is named; expected error"),
        ({"metric": None}, "metric: none is named; expected error"),
        ({"live_candidate_requests": 0}, "live requests to the candidate: 0"),
        ({"fault_began": None}, "fault: it had not begun"),
        ({"struck": 0}, "fault: it met no request"),
        ({"fault_began": 106.0}, "fault: it began 0.1 s after the decision"),
        ({"weight": 999}, "weight: 9.99 % at the decision; at least 10 % is needed"),
    ],
)
def test_right_outcome_for_the_wrong_reason_is_wrong(changes: dict[str, Any], objection: str) -> None:
    """A rollback counts only for the scenario's metric, from live traffic, after the fault; else it is said why."""
    (found,) = against_decision(SCENARIOS["crash"], decision(**changes))
    assert found.startswith(objection)


@pytest.mark.parametrize(
    ("load", "objection"),
    [
        (Load(sent=9, compared=3, failures=1), "clients: 1 requests failed and 0 were never sent"),
        (Load(sent=9, compared=3, unsent=2), "clients: 0 requests failed and 2 were never sent"),
        (Load(sent=9, compared=3, wrong_answers=1), "clients: 1 of 3 compared answers were wrong"),
        (Load(sent=9), "clients: no answer was compared"),
    ],
)
def test_what_clients_may_not_suffer(load: Load, objection: str) -> None:
    """A failed, unsent or wrong request is an objection, and so is not having compared any."""
    (found,) = against_service(SCENARIOS["crash"], load)
    assert found.startswith(objection)
    assert against_service(SCENARIOS["crash"], Load(sent=9, compared=3)) == []


def test_wrong_answers_are_the_fault_itself_where_they_are_shown() -> None:
    """Where the candidate's answers are wrong some may reach clients before the rollback; a failure still may not."""
    assert against_service(SCENARIOS["wrong"], Load(sent=9, compared=3, wrong_answers=1)) == []
    (found,) = against_service(SCENARIOS["wrong"], Load(sent=9, compared=3, failures=1))
    assert found.startswith("clients: 1 requests failed")


@pytest.mark.parametrize("name", ["recompile", "refuse"])
def test_traffic_that_never_changed_shows_nothing(name: str) -> None:
    """Where the fault is in the traffic, it began when the load generator sent the first request of the new kind."""
    right = {"metric": SCENARIOS[name].metrics[0]}
    (found,) = against_decision(SCENARIOS[name], decision(**right, fault_began=None, struck=0))
    assert found.startswith("fault: it had not begun")
    assert against_decision(SCENARIOS[name], decision(**right)) == []


def row(metric: str, bad: int) -> MetricView:
    return MetricView(
        metric=metric, allowed=0.05, limit_ms=None, candidate_events=40, candidate_bad=bad, baseline_events=90,
        baseline_bad=0, evidence=1.0, bar=20.0, proof=None, proof_bar=3.0, passes=False,
    )  # fmt: skip


@pytest.mark.parametrize(("name", "metric"), [("flap", "error"), ("refuse", "refused"), ("refuse", "parity")])
def test_a_run_that_is_only_held_is_tolerated_for_the_fault_alone(name: str, metric: str) -> None:
    """A candidate that is merely not promoted passes in two scenarios: long after the fault, with it in the numbers."""

    def against(**changes: Any) -> list[str]:
        held = {"outcome": "INCONCLUSIVE", "metric": None, "decided_at": 112.5, "metrics": [row(metric, 2)]}
        return against_decision(SCENARIOS[name], decision(**(held | changes)))

    assert against() == []
    assert [found.partition(",")[0] for found in against(decided_at=111.0)] == ["outcome: INCONCLUSIVE"]
    (found,) = against(metrics=[row(metric, 0), row("lat_p95", 5)])
    assert "no bad event counted" in found
    assert against(fault_began=None)[-1].startswith("fault: it had not begun")
    assert against(outcome="PROMOTED")[0].startswith("outcome: PROMOTED; expected ROLLED_BACK")
    assert against_decision(SCENARIOS["slow"], decision(outcome="INCONCLUSIVE"))[0].startswith("outcome: INCONCLUSIVE")


def test_an_unknown_outcome_is_no_outcome(make: Any) -> None:
    """A gateway that ends a run in a way that nothing here knows stops the demo."""
    with pytest.raises(DemoFailed, match="'VANISHED'"):
        outcome_of(make.status(run=make.run(outcome="VANISHED")))


def test_a_rollback_has_to_be_explained() -> None:
    """Number, limit, baseline, samples, rule and what to do next are asked for, and shapes where it compiled."""

    def said(*labels: str, **changes: Any) -> Explanation:
        fields: dict[str, Any] = {
            "at": 0.0, "state": "rolled_back", "weight": 0, "headline": "h", "next": "n",
            "facts": [Fact(label=label, text="t") for label in labels],
        }  # fmt: skip
        return Explanation(**(fields | changes))

    every = ("Seen", "Limit", "Baseline", "Samples", "Rule")
    assert against_explanation(SCENARIOS["slow"], "ROLLED_BACK", said(*every)) == []
    assert against_explanation(SCENARIOS["good"], "PROMOTED", said()) == []
    assert against_explanation(SCENARIOS["slow"], "ROLLED_BACK", said(*every[1:], next="")) == [
        "explanation: without Seen, headline or next"
    ]
    assert against_explanation(SCENARIOS["recompile"], "ROLLED_BACK", said(*every)) == ["explanation: without shapes"]
    named = said(*every, shapes=["1x128"])
    assert against_explanation(SCENARIOS["recompile"], "ROLLED_BACK", named) == []


def test_either_of_two_metrics_may_be_named() -> None:
    """A refusal shows in live traffic or in a pair of copies; both are the fault."""
    for metric in ("refused", "parity"):
        assert against_decision(SCENARIOS["refuse"], decision(metric=metric)) == []
    (found,) = against_decision(SCENARIOS["refuse"], decision(metric="error"))
    assert found == "metric: error is named; expected refused or parity"
