"""One state machine behind every health answer.

    starting ── spawned ──> loading ── loaded ──> warming ── warmed ──> ready
        └────────────┴──── drain ───┴──────────────┴────────────────────┴──> draining ── stop ──> stopped
        └────────────┴──── fail ────┴──────────────┴────────────────────┘──> failed ──── stop ──> stopped

``failed`` is terminal for serving: the reason stays readable until somebody stops the process.
An event that the table does not name changes nothing and is an error of ours.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from server.core.types import Bucket, BucketTiming
from server.core.warmup import cache_gain


class State(StrEnum):
    STARTING = "starting"
    LOADING = "loading"
    WARMING = "warming"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


class Event(StrEnum):
    SPAWNED = "spawned"
    LOADED = "loaded"
    WARMED = "warmed"
    DRAIN = "drain"
    FAIL = "fail"
    STOP = "stop"


TABLE: Final[dict[State, dict[Event, State]]] = {
    State.STARTING: {
        Event.SPAWNED: State.LOADING,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.LOADING: {
        Event.LOADED: State.WARMING,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.WARMING: {
        Event.WARMED: State.READY,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.READY: {Event.DRAIN: State.DRAINING, Event.FAIL: State.FAILED, Event.STOP: State.STOPPED},
    State.DRAINING: {Event.FAIL: State.FAILED, Event.STOP: State.STOPPED},
    State.FAILED: {Event.STOP: State.STOPPED},
    State.STOPPED: {},
}


class RefusedEvent(Exception):
    """An event that means nothing in this state."""


@dataclass(frozen=True, slots=True)
class Life:
    """Where a server is. ``was_ready`` stays True once it is; times are seconds of one monotonic clock."""

    since: float
    buckets: int = 0
    state: State = State.STARTING
    current: Bucket | None = None
    warmed: tuple[BucketTiming, ...] = ()
    was_ready: bool = False
    ready_after_s: float | None = None
    reason: str = ""

    def after(self, event: Event, now: float, *, reason: str = "") -> "Life":
        """The next life. Raises RefusedEvent, which changes nothing."""
        following = TABLE[self.state].get(event)
        if following is None:
            raise RefusedEvent(f"{event} in state {self.state}")
        if following is State.READY:
            if len(self.warmed) != self.buckets:
                raise RefusedEvent(f"warmed after {len(self.warmed)} of {self.buckets} buckets")
            return replace(self, state=following, current=None, was_ready=True, ready_after_s=now - self.since)
        return replace(self, state=following, current=None, reason=reason or self.reason)

    def began(self, bucket: Bucket) -> "Life":
        """A bucket's first call starts."""
        self._only_warming("bucket began")
        return replace(self, current=bucket)

    def finished(self, timing: BucketTiming) -> "Life":
        """A bucket is warm."""
        self._only_warming("bucket finished")
        return replace(self, current=None, warmed=(*self.warmed, timing))

    def _only_warming(self, what: str) -> None:
        if self.state is not State.WARMING:
            raise RefusedEvent(f"{what} in state {self.state}")

    @property
    def live(self) -> bool:
        """False once only a new process can help."""
        return self.state not in (State.FAILED, State.STOPPED)

    @property
    def ready(self) -> bool:
        return self.state is State.READY

    @property
    def started(self) -> bool:
        """The startup probe: once ready, always started."""
        return self.was_ready and self.live

    @property
    def serves(self) -> bool:
        """Whether a request is answered: also while draining, for those who have not noticed yet."""
        return self.was_ready and self.state in (State.READY, State.DRAINING)

    @property
    def detail(self) -> str:
        """One sentence for people."""
        match self.state:
            case State.STARTING:
                return "starting the device worker"
            case State.LOADING:
                return "loading the model and comparing it with the CPU reference"
            case State.WARMING:
                current = f", now {self.current}" if self.current else ""
                return f"warming bucket {min(len(self.warmed) + 1, self.buckets)} of {self.buckets}{current}"
            case State.READY:
                return self.summary
            case State.DRAINING:
                return "draining: finishing what was accepted"
            case State.STOPPED:
                return "stopped"
            case State.FAILED:
                return self.reason

    @property
    def summary(self) -> str:
        """How many buckets came from where: a compile cache that does not hit shows here."""
        count = {source: sum(1 for each in self.warmed if each.source == source) for source in ("compiled", "cache")}
        if not any(count.values()):
            return f"{len(self.warmed)} buckets, eager"
        gain = cache_gain(self.warmed)
        faster = "" if gain is None else f" (compiling them took {gain:.1f} times as long)"
        return f"{len(self.warmed)} buckets, {count['compiled']} compiled, {count['cache']} from cache{faster}"


SILENCE_LIMIT_S: Final[dict[State, float]] = {
    # Importing and tracing may hold the interpreter's lock for long; serving what is warm never does.
    State.LOADING: 300.0,
    State.WARMING: 300.0,
    State.READY: 30.0,
    State.DRAINING: 30.0,
}


def silent_too_long(life: Life, silent_s: float, *, compiling: bool) -> bool:
    """Whether a worker that was last heard ``silent_s`` seconds ago counts as dead.

    ``compiling``: what is on the device may be compiled at this moment, which is a warm-up in service.
    """
    limit = SILENCE_LIMIT_S.get(life.state)
    if limit is not None and compiling:
        limit = max(limit, SILENCE_LIMIT_S[State.WARMING])
    return limit is not None and silent_s > limit
