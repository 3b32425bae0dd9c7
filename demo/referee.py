"""What the demo concludes from a status: when the fault may begin, and what the outcome is. Pure."""

from dataclasses import dataclass

from demo.scenarios import FAULT_AFTER_S, FAULT_WEIGHT, FaultMode, Outcome, Scenario
from wire.admin import Status

_OUTCOMES: dict[str, Outcome] = {
    "PROMOTED": "PROMOTED",
    "ROLLED_BACK": "ROLLED_BACK",
    "INCONCLUSIVE": "INCONCLUSIVE",
    "REFUSED": "REFUSED",
}


@dataclass(slots=True)
class FaultTimer:
    """Arms the scenario's fault once the live weight has stood long enough."""

    scenario: Scenario
    since: float | None = None
    begun_at: float | None = None

    def due(self, weight: int, now: float) -> FaultMode | None:
        """The mode to switch to now, once; None before and after. ``now`` in seconds, ``weight`` in basis points."""
        if self.scenario.fault == "pass" or self.begun_at is not None:
            return None
        if weight < FAULT_WEIGHT:
            self.since = None
            return None
        if self.since is None:
            self.since = now
        if now - self.since < FAULT_AFTER_S:
            return None
        self.begun_at = now
        return self.scenario.fault


def outcome_of(status: Status) -> Outcome | None:
    """The outcome, None while the run goes on. A run that holds for lack of evidence is inconclusive."""
    if status.run is not None and status.run.outcome is not None:
        return _OUTCOMES.get(status.run.outcome, "INCONCLUSIVE")
    if status.state in ("held", "inconclusive"):
        return "INCONCLUSIVE"
    return None


def as_expected(scenario: Scenario, outcome: Outcome, metric: str | None) -> bool:
    """Whether the gateway decided what it should have, for the right reason."""
    return outcome == scenario.expected and (scenario.metric is None or metric == scenario.metric)
