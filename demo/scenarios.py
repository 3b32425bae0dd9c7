"""What can be shown. A scenario is data: the fault it injects and the outcome that proves the gateway right."""

from dataclasses import dataclass
from typing import Final, Literal

Outcome = Literal["PROMOTED", "ROLLED_BACK", "INCONCLUSIVE", "REFUSED"]
FaultMode = Literal["pass", "crash"]

# A fault begins only once the candidate has carried this live weight for this long.
FAULT_WEIGHT: Final = 1000  # basis points
FAULT_AFTER_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """``metric`` is what a rollback must name; ``fault`` is what the proxy before the candidate does."""

    name: str
    title: str
    fault: FaultMode
    fault_text: str
    expected: Outcome
    metric: str | None = None


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="good",
            title="a healthy candidate takes over",
            fault="pass",
            fault_text="none",
            expected="PROMOTED",
        ),
        Scenario(
            name="crash",
            title="the candidate drops its connections",
            fault="crash",
            fault_text="connections to the candidate drop before the first byte of an answer",
            expected="ROLLED_BACK",
            metric="error",
        ),
    )
}
