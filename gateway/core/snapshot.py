"""What control process and data workers say to one another: plain frozen values, no behaviour.

The control process sends ``WorkerSetup`` once, then ``Snapshot`` after ``Snapshot`` with a rising version,
and ``Drain``. A worker answers ``Hello``, one ``Ack`` for each snapshot, a ``Report`` each second (at once when
its breaker trips), and ``Pair`` for each pair of answers to be compared.
"""

from dataclasses import dataclass, field

from gateway.core.types import Lane, Role, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSnapshot:
    """One arm as the data plane needs it. Time-outs in seconds, ``base_path`` without a trailing slash."""

    name: str
    role: Role
    host: str
    port: int
    base_path: str
    profile: str
    ready: bool
    max_in_flight: int
    max_connections: int
    connect_s: float
    first_byte_s: float
    idle_s: float
    total_s: float
    keepalive_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The whole routing truth at one version. Shares are basis points; limits are milliseconds or None.

    weight: share of judged requests that belong to the candidate.
    copies: share of baseline-served judged requests copied to the candidate.
    reverse_copies: share of candidate-served judged requests copied to the baseline (parity only).
    candidate_was_ready: the candidate has been ready once in this epoch; before that, its absence is nobody's fault.
    judging: false in idle and after the end of a run: nothing is compared or sent to the candidate.
    strata: edges of classes by the size of a request's body, bytes; empty: requests are not told apart.
    stream_limits_ms: on the wait for a stream's first event, and on the gaps between its events.
    noise_copies: share of baseline-served judged requests copied to the baseline itself, instead of to the candidate.
    """

    version: int
    epoch: int
    run_id: str
    secret: bytes
    window_s: float
    weight: int
    copies: int
    reverse_copies: int
    lat_limits_ms: tuple[float | None, float | None, float | None]
    baseline: ArmSnapshot
    candidate: ArmSnapshot | None
    candidate_was_ready: bool
    model: str
    key_header: str | None
    judging: bool
    strata: tuple[int, ...] = ()
    stream_limits_ms: tuple[float | None, float | None] = (None, None)
    noise_copies: int = 0

    def arm(self, role: Role) -> ArmSnapshot:
        """The arm that plays ``role``; LookupError when there is no candidate."""
        if role is Role.BASELINE:
            return self.baseline
        if self.candidate is None:
            raise LookupError("this snapshot has no candidate")
        return self.candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSetup:
    """What a worker needs before its first request. Sizes in bytes, times in seconds.

    client_read_s: how long a client may keep a worker waiting for its body.
    wall_offset: wall time minus monotonic time in the control process, so that all processes of a replica, however
        late they were started, agree on windows; None: the worker's own.
    """

    name: str
    host: str
    port: int
    expose_timings: bool
    replay_buffer: int
    replay_buffer_total: int
    answer_hold: int
    max_body: int
    report_every_s: float
    access_log: str | None
    backlog: int = 2048
    client_read_s: float = 30.0
    wall_offset: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Stop listening after ``delay_s``, finish what runs within ``limit_s``, then leave."""

    delay_s: float
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """``port`` is the one the worker listens on."""

    name: str
    pid: int
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ack:
    """From here on nothing of an older version or epoch is written to an arm (streams in flight excepted).

    ``written`` counts the requests this worker wrote to the candidate so far.
    """

    name: str
    version: int
    epoch: int
    written: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """Additions to one window since the last report, of one class of requests (core/strata.py)."""

    window: int
    role: Role
    lane: Lane
    tally: Tally
    stratum: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyCounts:
    """Additions to one latency histogram since the last report: (bin, count), see core/histogram.py."""

    role: Role
    lane: Lane
    bins: list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowKeys:
    """Keys of the live requests of one window and arm since the last report, by their hashes (core/keys.py).

    hashes: distinct ones, at most MOST_KEYS. heavy: (hash, requests) of the heaviest, at most MOST_HEAVY.
    """

    window: int
    role: Role
    requests: int
    hashes: list[int]
    heavy: list[tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedCounts:
    """Sums over pairs, one block a window, and how many ratios were clipped: see core/compare/paired.py."""

    clipped: int
    blocks: list[tuple[int, int, int, int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One worker's news. ``epoch`` is the epoch whose requests are counted here; others come in reports of their own.

    open_since: wall time of the oldest judged request of this epoch still open, None when none is: windows that
        ended before it are complete on this worker.
    breaker: score of (baseline, candidate) after the last full second.
    seconds: (attempts, failed) of (baseline, candidate) for each full second since the last report.
    tripped: this worker's own breaker has taken the candidate out.
    copies: (direction, fate) -> count since the last report; direction is the arm that gets the copy.
    recent_failovers: requests failed over in the last ten seconds.
    compiled: answers of the candidate that named a shape as compiled, by shape, since the last report; at most
        MOST_SHAPES names an epoch.
    keys: where requests are split by a key of theirs.
    paired: latency of requests beside that of their copies, of windows of arrival, since the last report.
    """

    name: str
    version: int
    epoch: int
    at: float
    windows: list[WindowCounts]
    latencies: list[LatencyCounts]
    open_since: float | None
    breaker: tuple[float, float]
    seconds: list[tuple[int, int, int, int]]
    tripped: bool
    recent_failovers: int
    in_flight: tuple[int, int]
    connections: tuple[int, int]
    copies: dict[str, int] = field(default_factory=dict)
    compiled: dict[str, int] = field(default_factory=dict)
    keys: list[WindowKeys] = field(default_factory=list)
    paired: PairedCounts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One side of a pair. ``body`` is complete and at most ``answer_hold`` bytes.

    content_type: says how much of the body is JSON where an arm does (core/compare/framing.py).
    drawn: the request asked for text drawn at random, so that another try would answer otherwise.
    """

    status: int
    content_type: str
    body: bytes
    drawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Both answers to one request. ``served`` is the arm whose answer the client got; ``window`` is that of arrival.

    ``body_hash`` lets identical bodies within a window count once. ``noise``: both answers are the baseline's.
    """

    epoch: int
    window: int
    request_id: str
    path: str
    served: Role
    body_hash: bytes
    baseline: Answer
    candidate: Answer
    stratum: int = 0
    noise: bool = False


ToWorker = WorkerSetup | Snapshot | Drain
FromWorker = Hello | Ack | Report | Pair
