"""One state machine behind every health answer.

    starting ── spawned ──> loading ── loaded ──> warming ── warmed ──> ready
        └────────────┴──── drain ───┴──────────────┴────────────────────┴──> draining ── stop ──> stopped
        └────────────┴──── fail ────┴──────────────┴────────────────────┘──> failed ──── stop ──> stopped

    loading, warming, ready ── stalled ──> stuck ── recovered ──> where it was
    starting, loading, warming, ready, stuck ── lost ──> starting, with one more restart

``stuck`` is a worker that is there and does not answer: live no more, but it may come back, and then goes on where it
was. ``lost`` is a worker that is gone and is started again. ``failed`` is terminal for serving: the reason stays
readable until somebody stops the process. An event that the table does not name changes nothing and is an error of
ours.
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
    STUCK = "stuck"


class Event(StrEnum):
    SPAWNED = "spawned"
    LOADED = "loaded"
    WARMED = "warmed"
    STALLED = "stalled"
    RECOVERED = "recovered"
    LOST = "lost"
    DRAIN = "drain"
    FAIL = "fail"
    STOP = "stop"


# None: back to the state in which it was stuck.
TABLE: Final[dict[State, dict[Event, State | None]]] = {
    State.STARTING: {
        Event.SPAWNED: State.LOADING,
        Event.LOST: State.STARTING,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.LOADING: {
        Event.LOADED: State.WARMING,
        Event.STALLED: State.STUCK,
        Event.LOST: State.STARTING,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.WARMING: {
        Event.WARMED: State.READY,
        Event.STALLED: State.STUCK,
        Event.LOST: State.STARTING,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.READY: {
        Event.STALLED: State.STUCK,
        Event.LOST: State.STARTING,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.STUCK: {
        Event.RECOVERED: None,
        Event.LOST: State.STARTING,
        Event.DRAIN: State.DRAINING,
        Event.FAIL: State.FAILED,
        Event.STOP: State.STOPPED,
    },
    State.DRAINING: {Event.FAIL: State.FAILED, Event.STOP: State.STOPPED},
    State.FAILED: {Event.STOP: State.STOPPED},
    State.STOPPED: {},
}


class RefusedEvent(Exception):
    """An event that means nothing in this state."""


@dataclass(frozen=True, slots=True)
class Life:
    """Where a server is; times are seconds of one monotonic clock.

    ``was_ready`` stays True once it is, ``ready_after_s`` is the time to the first ready. ``serves``: whether a request
    is answered, also while draining, for those who have not noticed yet. ``loss`` is the reason of the latest restart.
    ``stuck_in`` is meaningful while stuck. ``leaving`` is True from the drain on, also
    when it fails then. ``loaded_at`` is when the latest warm-up began, ``due`` when it should end;
    None: not known.
    """

    since: float
    buckets: int = 0
    state: State = State.STARTING
    current: Bucket | None = None
    warmed: tuple[BucketTiming, ...] = ()
    was_ready: bool = False
    serves: bool = False
    ready_after_s: float | None = None
    reason: str = ""
    restarts: int = 0
    loss: str = ""
    stuck_in: State = State.STARTING
    leaving: bool = False
    loaded_at: float = 0.0
    due: float | None = None

    def after(self, event: Event, now: float, *, reason: str = "") -> "Life":
        """The next life. Raises RefusedEvent, which changes nothing."""
        if event not in TABLE[self.state]:
            raise RefusedEvent(f"{event} in state {self.state}")
        following = TABLE[self.state][event] or self.stuck_in
        if event is Event.WARMED and len(self.warmed) != self.buckets:
            raise RefusedEvent(f"warmed after {len(self.warmed)} of {self.buckets} buckets")
        moved = replace(
            self,
            state=following,
            serves=following is State.READY or (self.serves and following is State.DRAINING),
            reason=reason or self.reason,
            leaving=self.leaving or event in (Event.DRAIN, Event.STOP),
        )
        match event:
            case Event.WARMED:
                first_s = now - self.since if self.ready_after_s is None else self.ready_after_s
                return replace(moved, current=None, was_ready=True, ready_after_s=first_s)
            case Event.LOADED:
                return replace(moved, loaded_at=now)
            case Event.STALLED:
                return replace(moved, stuck_in=self.state)
            case Event.LOST:
                return replace(moved, current=None, warmed=(), restarts=self.restarts + 1, loss=reason, due=None)
            case Event.RECOVERED:
                return moved
            case _:
                return replace(moved, current=None)

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
        """False where a new process can help. A worker that is being restarted in place needs none."""
        return self.state not in (State.FAILED, State.STUCK, State.STOPPED)

    @property
    def ready(self) -> bool:
        return self.state is State.READY

    @property
    def started(self) -> bool:
        """The startup probe: once ready, always started."""
        return self.was_ready and self.live

    @property
    def detail(self) -> str:
        """One sentence for people."""
        match self.state:
            case State.STARTING:
                return "starting the device worker" + self._again
            case State.LOADING:
                return "loading the model and comparing it with the CPU reference" + self._again
            case State.WARMING:
                current = f", now {self.current}" if self.current else ""
                return (
                    f"warming bucket {min(len(self.warmed) + 1, self.buckets)} of {self.buckets}{current}{self._again}"
                )
            case State.READY:
                return self.summary
            case State.DRAINING:
                return "draining: finishing what was accepted"
            case State.STOPPED:
                return "stopped"
            case State.FAILED | State.STUCK:
                return self.reason

    @property
    def _again(self) -> str:
        return f" (restart {self.restarts}: {self.loss})" if self.restarts else ""

    @property
    def summary(self) -> str:
        """How many buckets came from where: a compile cache that does not hit shows here."""
        count = {source: sum(1 for each in self.warmed if each.source == source) for source in ("compiled", "cache")}
        if not any(count.values()):
            return f"{len(self.warmed)} buckets, eager"
        gain = cache_gain(self.warmed)
        faster = "" if gain is None else f" (compiling them took {gain:.1f} times as long)"
        return f"{len(self.warmed)} buckets, {count['compiled']} compiled, {count['cache']} from cache{faster}"
