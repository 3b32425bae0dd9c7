"""What can be shown. A scenario is data: where the fault lies, and the outcome that proves the gateway right."""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

from demo.faults import Crash, Flap, Mode, Slow, Wrong

Outcome = Literal["PROMOTED", "ROLLED_BACK", "INCONCLUSIVE", "REFUSED"]
# ``traffic``: nothing breaks, but requests come that nobody had planned for. The others are the fault proxy's.
FaultKind = Literal["none", "crash", "slow", "wrong", "flap", "traffic"]

# A fault begins only once the candidate has carried this live weight for this long.
FAULT_WEIGHT: Final = 1000  # basis points
FAULT_AFTER_S: Final = 5.0
SLOW_FACTOR: Final = 1.25  # of the limit L
# 20 % of the time. Each absence is long against the readiness poll (twice a second) and the judge's windows (1 s).
FLAP: Final = Flap(down_ms=5_000, period_ms=25_000)

LENGTHS: Final = (16, 32, 64, 128)
SHORT_LENGTHS: Final = (16, 32, 64)

# One request in four or five carries several texts in real traffic; here enough to see a mix-up of rows in seconds.
SEVERAL_MIX: Final = {
    "parts": [
        {"name": "title", "share": 0.35, "tokens": [5, 16]},
        {"name": "summary", "share": 0.20, "tokens": [17, 32]},
        {"name": "description", "share": 0.05, "tokens": [33, 64]},
        {"name": "several", "share": 0.40, "tokens": [5, 32], "texts": [2, 4]},
    ]
}
SHORT_MIX: Final = {
    "parts": [
        {"name": "title", "share": 0.45, "tokens": [5, 16]},
        {"name": "summary", "share": 0.27, "tokens": [17, 32]},
        {"name": "description", "share": 0.13, "tokens": [33, 64]},
        {"name": "several", "share": 0.12, "tokens": [5, 32], "texts": [2, 4]},
        {"name": "one word", "share": 0.03, "tokens": [3, 3]},
    ]
}
LONG_MIX: Final = {
    "parts": [
        {"name": "title", "share": 0.40, "tokens": [5, 16]},
        {"name": "summary", "share": 0.20, "tokens": [17, 32]},
        {"name": "leaflet", "share": 0.40, "tokens": [65, 128]},
    ]
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One way that a canary can go.

    expected: how it should end; tolerated: ends that are no promotion either and pass, though less clearly.
    metrics: what a rollback may name. candidate_lengths: of its catalogue. lenient: it compiles what is not declared.
    mix, then_mix: what clients send, and what they send once the fault has begun; None: the load generator's own mix.
    client_sees: whether a client may get a wrong answer before the rollback.
    """

    name: str
    title: str
    fault: FaultKind
    fault_text: str
    expected: Outcome
    tolerated: tuple[Outcome, ...] = ()
    metrics: tuple[str, ...] = ()
    candidate_lengths: tuple[int, ...] = LENGTHS
    lenient: bool = False
    mix: dict[str, Any] | None = None
    then_mix: dict[str, Any] | None = None
    client_sees: bool = False

    def mode(self, *, limit_ms: float) -> Mode | None:
        """What the fault proxy is to do once the fault begins; None where the proxy has no part in it."""
        match self.fault:
            case "crash":
                return Crash()
            case "slow":
                return Slow(math.ceil(SLOW_FACTOR * limit_ms))
            case "wrong":
                return Wrong()
            case "flap":
                return FLAP
            case "none" | "traffic":
                return None


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="good",
            title="a healthy candidate takes over",
            fault="none",
            fault_text="none",
            expected="PROMOTED",
        ),
        Scenario(
            name="crash",
            title="the candidate drops its connections",
            fault="crash",
            fault_text="connections to the candidate drop before the first byte of an answer",
            expected="ROLLED_BACK",
            metrics=("error",),
        ),
        Scenario(
            name="slow",
            title="the candidate answers too late",
            fault="slow",
            fault_text="every answer of the candidate comes a quarter later than the limit L allows",
            expected="ROLLED_BACK",
            metrics=("lat_p95",),
        ),
        Scenario(
            name="wrong",
            title="the candidate mixes up the rows of a request",
            fault="wrong",
            fault_text="vectors of requests with 2 to 4 texts are swapped; shapes and norms stay right",
            expected="ROLLED_BACK",
            metrics=("parity",),
            mix=SEVERAL_MIX,
            client_sees=True,
        ),
        Scenario(
            name="recompile",
            title="the candidate compiles in mid-traffic",
            fault="traffic",
            fault_text="texts of 65 to 128 tokens arrive; the candidate declares up to 64 and is lenient",
            expected="ROLLED_BACK",
            metrics=("recompile",),
            candidate_lengths=SHORT_LENGTHS,
            lenient=True,
            mix=SHORT_MIX,
            then_mix=LONG_MIX,
        ),
        Scenario(
            name="flap",
            title="the candidate is away a fifth of the time",
            fault="flap",
            fault_text="the candidate's readiness endpoint answers 503 for 20 % of the time",
            expected="ROLLED_BACK",
            tolerated=("INCONCLUSIVE",),
            metrics=("error",),
        ),
        Scenario(
            name="refuse",
            title="the candidate refuses what the baseline serves",
            fault="traffic",
            fault_text="texts of 65 to 128 tokens arrive; the candidate declares up to 64 and is strict",
            expected="ROLLED_BACK",
            tolerated=("INCONCLUSIVE",),
            metrics=("refused", "parity"),
            candidate_lengths=SHORT_LENGTHS,
            mix=SHORT_MIX,
            then_mix=LONG_MIX,
        ),
    )
}
