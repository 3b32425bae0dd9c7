"""What the demo concludes: when the fault may begin, what the outcome is, and what speaks against it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from demo.failures import DemoFailed
from demo.load_view import Load
from demo.scenarios import FAULT_AFTER_S, FAULT_WEIGHT, Outcome, Scenario
from wire.admin import Explanation, MetricView, Status

_OUTCOMES: dict[str, Outcome] = {"PROMOTED": "PROMOTED", "ROLLED_BACK": "ROLLED_BACK", "REFUSED": "REFUSED"}

# A run that is only held counts as not promoted for the fault's sake once the fault was there for two wide windows.
HELD_AFTER_S: float = 12.0


@dataclass(slots=True)
class FaultTimer:
    """Says when the scenario's fault may begin: the live weight has stood long enough, and live requests came of it."""

    scenario: Scenario
    since: float | None = None
    has_begun: bool = False

    def is_due(self, *, weight: int, live: int, now: float) -> bool:
        """True once: begin now. ``weight`` in basis points, ``live`` requests that the candidate was asked so far."""
        if self.scenario.fault == "none" or self.has_begun:
            return False
        if weight < FAULT_WEIGHT:
            self.since = None
            return False
        if self.since is None:
            self.since = now
        if now - self.since < FAULT_AFTER_S or live == 0:
            return False
        self.has_begun = True
        return True


def outcome_of(status: Status) -> Outcome | None:
    """The outcome, None while the run goes on. A run that holds for lack of evidence is inconclusive.

    Raises DemoFailed for an outcome that nothing here knows.
    """
    if status.run is not None and status.run.outcome is not None:
        if status.run.outcome not in _OUTCOMES:
            raise DemoFailed(f"the gateway ended the run as {status.run.outcome!r}, which is no outcome known here")
        return _OUTCOMES[status.run.outcome]
    if status.state == "held":
        return "INCONCLUSIVE"
    return None


def has_figures(status: Status) -> bool:
    """Whether a decided run's figures are complete. Those of a rollback are, once every worker has acknowledged it."""
    run = status.run
    return run is None or run.outcome != "ROLLED_BACK" or run.time_to_zero_ms is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What the gateway decided, and on what. ``weight`` in basis points; stamps of the machine's wall clock.

    decided_at: when a decided run was decided, else when it was seen to be held. struck: how often the fault met a
    request or a poll. metrics: the judge's table.
    """

    outcome: Outcome
    metric: str | None
    weight: int
    live_candidate_requests: int
    decided_at: float
    fault_began: float | None
    struck: int
    metrics: Sequence[MetricView]

    @property
    def fault_to_decision_s(self) -> float | None:
        return None if self.fault_began is None else round(self.decided_at - self.fault_began, 2)


def against_decision(scenario: Scenario, decision: Decision) -> list[str]:
    """Why this is not what the scenario should lead to, or not for the right reason; empty when it is."""
    found = []
    if decision.outcome == scenario.expected:
        if decision.outcome == "ROLLED_BACK" and decision.metric not in scenario.metrics:
            found.append(f"metric: {decision.metric or 'none'} is named; expected {' or '.join(scenario.metrics)}")
    elif decision.outcome in scenario.tolerated:
        found += _against_hold(scenario, decision)
    else:
        found.append(f"outcome: {decision.outcome}; expected {scenario.expected}")
    if decision.live_candidate_requests == 0:
        found.append("live requests to the candidate: 0; without any, nothing is shown about live traffic")
    return found if scenario.fault == "none" else found + _against_fault(decision)


def _against_hold(scenario: Scenario, decision: Decision) -> list[str]:
    """A run that was only held must have been held with the fault in its numbers."""
    after_s = decision.fault_to_decision_s
    found = []
    if after_s is None or after_s < HELD_AFTER_S:
        found.append(f"outcome: {decision.outcome}, and not {HELD_AFTER_S:g} s after the fault began")
    if not any(row.candidate_bad for row in decision.metrics if row.metric in scenario.metrics):
        found.append(f"outcome: {decision.outcome}, and no bad event counted for {' or '.join(scenario.metrics)}")
    return found


def _against_fault(decision: Decision) -> list[str]:
    found = []
    after_s = decision.fault_to_decision_s
    if after_s is None:
        found.append("fault: it had not begun, so the decision was about something else")
    elif after_s <= 0:
        found.append(f"fault: it began {-after_s:g} s after the decision, so the decision was about something else")
    elif not decision.struck:
        found.append("fault: it met no request, so the decision was about something else")
    if decision.weight < FAULT_WEIGHT:
        found.append(
            f"weight: {decision.weight / 100:g} % at the decision; at least {FAULT_WEIGHT / 100:g} % is needed"
        )
    return found


def against_explanation(scenario: Scenario, outcome: Outcome, explanation: Explanation) -> list[str]:
    """What is missing in the gateway's explanation of a rollback; empty when nothing is."""
    if outcome != "ROLLED_BACK":
        return []
    labels = {fact.label for fact in explanation.facts if fact.text}
    lacking = [label for label in ("Seen", "Limit", "Baseline", "Samples", "Rule") if label not in labels]
    lacking += [] if explanation.headline and explanation.next else ["headline or next"]
    lacking += ["shapes"] if scenario.lenient and not explanation.shapes else []
    return [f"explanation: without {', '.join(lacking)}"] if lacking else []


def against_service(scenario: Scenario, load: Load) -> list[str]:
    """What clients had to suffer, or why that is not known; empty when every answer came and was right.

    Wrong answers are counted in every scenario; where the fault is that answers are wrong, some may reach clients
    before the rollback.
    """
    found = []
    if load.failures or load.unsent:
        found.append(f"clients: {load.failures} requests failed and {load.unsent} were never sent; none may")
    if load.wrong_answers and not scenario.client_sees:
        found.append(f"clients: {load.wrong_answers} of {load.compared} compared answers were wrong; none may be")
    if not load.compared:
        found.append("clients: no answer was compared with a known right one")
    return found
