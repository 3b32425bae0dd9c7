"""The admin API of the gateway: what canaryctl, the demo and a dashboard read and send.

Weights are basis points (10,000 = all traffic); times are seconds, latencies milliseconds, wall-clock
stamps seconds since the Unix epoch.
"""

from typing import Any, Final, Literal

import msgspec

STATUS_PATH: Final = "/v1/status"
HISTORY_PATH: Final = "/v1/history"
EXPLAIN_PATH: Final = "/v1/explain"
REPLAY_PATH: Final = "/v1/replay"
START_PATH: Final = "/v1/start"
COMMAND_PATH: Final = "/v1/commands/{command}"

CommandName = Literal["pause", "resume", "rollback", "promote", "finish"]
RunState = Literal["idle", "validating", "shadowing", "stepping", "paused", "held", "baking", "done", "rolled_back"]
VerdictName = Literal["ADVANCE", "HOLD", "INCONCLUSIVE", "ROLL_BACK"]


class StartRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``plan`` is the parsed plan document; it is frozen into the run with its digest."""

    plan: dict[str, Any]
    reason: str
    who: str


class CommandRequest(msgspec.Struct, frozen=True, kw_only=True):
    """``override`` belongs to ``promote`` alone and needs ``confirm`` = the rollout's name."""

    reason: str
    who: str
    override: bool = False
    confirm: str = ""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """``missing`` names workers that did not acknowledge weight 0 in time (rollback only)."""

    state: RunState
    epoch: int
    weight: int
    detail: str
    acknowledged: list[str] = []
    missing: list[str] = []
    time_to_zero_ms: float | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A command or request that changed nothing. ``problems`` names field, value and what is allowed."""

    error: str
    reason: str
    problems: list[str] = []


class LatencyView(msgspec.Struct, frozen=True, kw_only=True):
    """Percentiles of successful answers in milliseconds, with the number of answers behind them."""

    count: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class ArmView(msgspec.Struct, frozen=True, kw_only=True):
    """One arm. Counts are of the open run (idle: since the gateway started).

    ``compiles`` are the answers that met a compile.
    """

    name: str
    role: Literal["baseline", "candidate"]
    url: str
    ready: bool
    detail: str = ""
    emulated: bool | None = None
    device: str | None = None
    identity: str | None = None
    live: int = 0
    copies: int = 0
    failed: int = 0
    refused: int = 0
    unavailable: int = 0
    compiles: int = 0
    breaker: float = 0.0
    latency: LatencyView = LatencyView(count=0)
    recent: LatencyView = LatencyView(count=0)


class MetricView(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of the verdict. Counts are of the present step; ``evidence`` is E, ``bar`` its limit.

    ``proof`` is logE+ (the case for the candidate) and ``proof_bar`` what it must reach.
    """

    metric: str
    allowed: float
    limit_ms: float | None
    candidate_events: int
    candidate_bad: int
    baseline_events: int
    baseline_bad: int
    evidence: float
    bar: float
    proof: float | None
    proof_bar: float
    passes: bool


class StratumView(msgspec.Struct, frozen=True, kw_only=True):
    """One class of requests by the size of their body: its name, E of this class by itself, and its metrics."""

    name: str
    evidence: float
    metrics: list[MetricView] = []


class VerdictView(msgspec.Struct, frozen=True, kw_only=True):
    """``reason`` is the short code, ``text`` the sentence for people, ``missing`` what promotion still needs.

    ``to_go_s``: when a hold should end if traffic goes on as it is; None when that cannot be foreseen.
    ``strata`` are the classes of requests, empty unless the plan has any; ``stratum`` names the one that ``metric``
    is about, None: all requests together.
    """

    verdict: VerdictName
    reason: str
    text: str
    metric: str | None
    at: float
    evidence: float
    bar: float
    metrics: list[MetricView] = []
    missing: list[str] = []
    notes: list[str] = []
    to_go_s: float | None = None
    strata: list[StratumView] = []
    stratum: str | None = None


class FieldView(msgspec.Struct, frozen=True, kw_only=True):
    """One field of the plan's ``compare`` over the pairs that showed it, by the kind of answer.

    ``kinds`` counts the pairs by how the field went; ``figures`` are the worst of all pairs, never a mean.
    """

    content: str
    field: str
    pairs: int
    bad: int
    kinds: dict[str, int] = {}
    figures: dict[str, float] = {}


class ParityView(msgspec.Struct, frozen=True, kw_only=True):
    """Compared pairs of the open run. ``min_cosine`` is over all pairs, never a mean.

    ``not_compared`` counts pairs that were left out, by reason; they are evidence for nobody.
    """

    pairs: int = 0
    bad: int = 0
    min_cosine: float | None = None
    max_abs: float | None = None
    shed: int = 0
    worst: str = ""
    fields: list[FieldView] = []
    not_compared: dict[str, int] = {}


class OutlookView(msgspec.Struct, frozen=True, kw_only=True):
    """What was expected of the run when it was started; ``text`` says it in sentences.

    ``rate``: judged requests a second then, None: not known. ``step_s``: seconds that each step should take, None: it
    cannot be proven at that rate; empty without a rate. ``horizon_s``: planned length of the run.
    """

    rate: float | None
    step_s: list[float | None]
    horizon_s: float
    text: str


class PairedView(msgspec.Struct, frozen=True, kw_only=True):
    """Latency of the candidate as a multiple of the baseline's for the same request. It decides nothing.

    ``text`` is for people, empty without a pair. The factors (median over blocks of ``block_s`` seconds, and an
    interval for it that covers with at least ``coverage``) are None while there are too few blocks.
    """

    pairs: int = 0
    blocks: int = 0
    block_s: float = 0.0
    median: float | None = None
    low: float | None = None
    high: float | None = None
    coverage: float | None = None
    text: str = ""


class NoiseView(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs of the baseline with itself in the first step of the run; ``wanted`` 0: none are compared.

    ``in_noise``: so many disagree that the plan's tolerance lies within the baseline's own noise. ``text`` is for
    people.
    """

    wanted: int = 0
    pairs: int = 0
    bad: int = 0
    in_noise: bool = False
    text: str = ""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """The open or last run. ``steps`` are weights in basis points, the first 0 when it is shadow only.

    ``live_complete``: False when ``live_candidate_requests`` lacks what was counted before a restart.
    ``overrides`` are the steps that a person passed without evidence, and who did.
    ``longest_step_s``: after so long the present step is left to a person, the bake included.
    """

    run_id: str
    rollout: str
    kind: Literal["migration", "upgrade"]
    plan_digest: str
    state: RunState
    epoch: int
    step: int
    steps: list[int]
    weight: int
    started_at: float
    step_since: float
    reason: str
    who: str
    outcome: str | None = None
    metric: str | None = None
    rule: str | None = None
    decided_weight: int | None = None
    decided_at: float | None = None
    live_candidate_requests: int = 0
    live_complete: bool = True
    overrides: list[str] = []
    time_to_zero_ms: float | None = None
    outlook: OutlookView | None = None
    longest_step_s: float | None = None


class WorkerView(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    pid: int
    acknowledged_version: int
    age_s: float
    in_flight: int


class JournalLine(msgspec.Struct, frozen=True, kw_only=True):
    """One append-only line. ``data`` holds the numbers behind it."""

    seq: int
    at: float
    run_id: str | None
    epoch: int
    kind: str
    who: str
    text: str
    data: dict[str, Any] = {}


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about the rollout at one moment."""

    rollout: str
    replica: str
    at: float
    state: RunState
    weight: int
    epoch: int
    arms: list[ArmView]
    workers: list[WorkerView]
    store: str
    snapshot_version: int
    run: RunView | None = None
    verdict: VerdictView | None = None
    parity: ParityView = ParityView()
    paired: PairedView = PairedView()
    noise: NoiseView = NoiseView()
    control: dict[str, Any] = {}


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One labelled sentence: ``Seen``, ``Limit``, ``Baseline``, ``Samples``, ``Rule``, ``Missing``, ..."""

    label: str
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why the rollout stands where it stands, in plain words; every client prints the same.

    ``headline`` is one sentence; ``facts`` are to be shown in order; ``next`` is what to do now, and after a rollback
    the one variable to change. ``shapes`` are those that compiled on the candidate's request path.
    """

    at: float
    state: RunState
    weight: int
    headline: str
    facts: list[Fact]
    next: str
    run_id: str | None = None
    verdict: VerdictName | None = None
    outcome: str | None = None
    metric: str | None = None
    rule: str | None = None
    shapes: list[str] = []


class ReplayRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Changes nothing. ``plan``: a plan document to judge by instead of the run's own; ``at``: as if it were then."""

    run_id: str
    plan: dict[str, Any] | None = None
    at: float | None = None


class ReplayedVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict at wall time ``at`` while ``weight`` (basis points) was live."""

    at: float
    weight: int
    verdict: VerdictName
    reason: str
    metric: str | None
    evidence: float
    text: str


class ReplayedDecision(msgspec.Struct, frozen=True, kw_only=True):
    """A decision of then. ``differs`` names the numbers that the replay has otherwise; None: it has none to compare."""

    at: float
    kind: str
    text: str
    differs: list[str] | None


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """A run, judged again. ``changes`` are the verdicts each time that one followed another, ``final`` the last.

    ``same``: every decision of then, to the last bit; None where that cannot be said: under another plan, with holes
    in the recording (``holes`` says which), or when nothing had been decided. ``other_plan`` is its preset, None for
    the run's own. ``left_out``: changes beyond those shown.
    """

    run_id: str
    plan_digest: str
    other_plan: str | None
    windows: int
    changes: list[ReplayedVerdict]
    final: ReplayedVerdict | None
    decisions: list[ReplayedDecision]
    same: bool | None
    holes: list[str] = []
    notes: list[str] = []
    left_out: int = 0


class History(msgspec.Struct, frozen=True, kw_only=True):
    """Journal lines, oldest first."""

    lines: list[JournalLine]


class Ports(msgspec.Struct, frozen=True, kw_only=True):
    """What a process writes to its ``ports_file`` once it listens, so that port 0 is usable."""

    data: int
    admin: int
    pid: int
    admin_token_file: str | None = None
