"""A run and the rollout that carries it: what is stored, routed by and shown. The table is in rollout.py."""

from dataclasses import dataclass
from enum import StrEnum

from gateway.core.plan import Plan
from gateway.core.types import FULL_WEIGHT


class State(StrEnum):
    IDLE = "idle"
    VALIDATING = "validating"
    SHADOWING = "shadowing"
    STEPPING = "stepping"
    PAUSED = "paused"
    HELD = "held"
    BAKING = "baking"
    DONE = "done"
    ROLLED_BACK = "rolled_back"


OPEN = frozenset({State.VALIDATING, State.SHADOWING, State.STEPPING, State.PAUSED, State.HELD, State.BAKING})
"""A run is open: a second start is refused."""
JUDGED = OPEN - {State.VALIDATING}
"""The judge's rollback is obeyed."""
ROUTED = JUDGED | {State.DONE}
"""The candidate may get traffic, and the breaker may take it away."""
ADVANCING = frozenset({State.SHADOWING, State.STEPPING, State.BAKING})
"""The judge's advance is obeyed."""


LEAST_CEILING = 1_000
"""Live and copied traffic together may always reach 10 % of the candidate's full share."""
LEAST_RESIDUAL = 100
"""Basis points: where the baseline is the control at 100 % it keeps at least 1 %."""


class Outcome(StrEnum):
    PROMOTED = "PROMOTED"
    ROLLED_BACK = "ROLLED_BACK"
    REFUSED = "REFUSED"


class NotNow(Exception):
    """The event does not fit the state. ``allowed`` names the states in which it would."""

    def __init__(self, event: str, state: State, allowed: str) -> None:
        super().__init__(f"{event} is not possible while the rollout is {state}; {allowed}")
        self.event, self.state = event, state


Arms = tuple[str, str]
"""Name and address of (baseline, candidate) as configured: what was judged, and what may therefore be routed to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """A step (index into the plan's) that a person passed without evidence."""

    step: int
    who: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What was expected of a run when it was started.

    rate: judged requests a second then; None: not known.
    step_s: seconds that each step was expected to take, None: it cannot be proven at that rate; empty without a rate.
    horizon_s: planned length of the run, for which the judge keeps its reserve.
    """

    rate: float | None
    step_s: tuple[float | None, ...]
    horizon_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One rollout from start to finish; the frozen plan comes with it, on the horizon of the outlook.

    step_since: since when the step's evidence has been counted: its begin, or the last resume or restart in it.
    judged_from: when counting for this run began. promoted_at: when its last step passed.
    candidate_strict: the candidate serves declared shapes only; None when it does not say.
    live_candidate_requests, live_counted_from: how many had gone to the candidate when the run was rolled back, and
        since when they had been counted; None when that is not known.
    acknowledged, unconfirmed: how many workers confirmed weight 0, and which did not; None and empty until measured.
    outlook: None for a run of an earlier version.
    max_step_s: seconds that the present step may last, the bake not counted, since it began in thin traffic; None: as
        long as the plan says.
    residual: basis points that the baseline keeps at 100 %, as it was when that step began; 0: none, no control.
        None before, and for a run of an earlier version.
    """

    run_id: str
    plan: Plan
    plan_digest: str
    started_at: float
    who: str
    reason: str
    step: int = 0
    step_since: float = 0.0
    paused_from: State | None = None
    outcome: Outcome | None = None
    metric: str | None = None
    rule: str | None = None
    text: str = ""
    decided_weight: int | None = None
    decided_at: float | None = None
    ended_at: float | None = None
    time_to_zero_s: float | None = None
    live_candidate_requests: int | None = None
    live_counted_from: float | None = None
    acknowledged: int | None = None
    unconfirmed: tuple[str, ...] = ()
    judged_from: float | None = None
    promoted_at: float | None = None
    candidate_strict: bool | None = None
    overrides: tuple[Override, ...] = ()
    arms: Arms = ("", "")
    outlook: Outlook | None = None
    max_step_s: float | None = None
    residual: int | None = None

    @property
    def step_weight(self) -> int:
        return self.plan.steps[self.step]

    @property
    def is_passed_by_override(self) -> bool:
        """A person passed the present step, and no evidence."""
        return bool(self.overrides) and self.overrides[-1].step == self.step

    @property
    def is_last_step(self) -> bool:
        """The last step is the bake."""
        return self.step + 1 == len(self.plan.steps)

    @property
    def copies_share(self) -> int:
        """Copies to the candidate in this step, basis points of what the baseline serves.

        Live and copied traffic together stay within the next step's weight or 10 %, unless the plan soaks: the judge
        must not load the candidate with more than the step that it is to decide about.
        """
        if self.plan.soak or self.step_weight == FULL_WEIGHT:
            return self.plan.copies
        room = max(self.next_weight, LEAST_CEILING) - self.step_weight
        return min(self.plan.copies, max(0, room * FULL_WEIGHT // (FULL_WEIGHT - self.step_weight)))

    @property
    def longest_step_s(self) -> float:
        """Seconds after which the present step, if it has not passed, is left to a person."""
        most = self.plan.max_step_s if self.max_step_s is None else self.max_step_s
        return most + self.plan.bake_s if self.is_last_step else most

    @property
    def kept_by_baseline(self) -> int:
        """Basis points that stay on the baseline whatever the weight, so that there is something to compare with."""
        if not self.plan.control_at_full:
            return 0
        return self.residual if self.residual is not None else self.plan.residual or LEAST_RESIDUAL

    @property
    def has_control(self) -> bool:
        """In the present step the candidate is compared with the baseline, and the baseline's counts are required."""
        return self.step_weight < FULL_WEIGHT or self.kept_by_baseline > 0

    @property
    def next_weight(self) -> int:
        """The weight that passing the present step leads to; after the last it is what bakes."""
        return self.plan.steps[-1] if self.is_last_step else self.plan.steps[self.step + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Everything that routing and judging follow.

    serving: the promoted arm, once a run was finished: it is the baseline for as long as it is configured as candidate.
    """

    state: State = State.IDLE
    epoch: int = 1
    weight: int = 0
    serving: str | None = None
    run: Run | None = None

    @property
    def swapped(self) -> bool:
        """The configured candidate serves, the configured baseline is the rollback target."""
        return self.serving is not None

    @property
    def routed_weight(self) -> int:
        """At 100 % the baseline keeps its residual, so that the candidate is still compared with something."""
        return self.weight if self.run is None else min(self.weight, FULL_WEIGHT - self.run.kept_by_baseline)
