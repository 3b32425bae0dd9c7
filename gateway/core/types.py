"""The nouns that every part of the gateway shares.

Weights are basis points (10,000 = all judged traffic). Times are seconds. A *window* is a slice of wall-clock
time of the plan's base width; its id is ``floor(wall time / width)``, equal in every replica.
"""

from enum import IntEnum, StrEnum
from typing import Final

FULL_WEIGHT: Final = 10_000


class Role(StrEnum):
    BASELINE = "baseline"
    CANDIDATE = "candidate"

    @property
    def other(self) -> "Role":
        return Role.CANDIDATE if self is Role.BASELINE else Role.BASELINE


class Lane(StrEnum):
    """LIVE answers a client, COPY answers nobody, CLIENT is what the client finally saw."""

    LIVE = "live"
    COPY = "copy"
    CLIENT = "client"


class Outcome(StrEnum):
    """What became of one request sent (or meant) for one arm."""

    OK = "ok"
    FAILED = "failed"
    """Refused connection, reset, time-out, 5xx, 429, 503: before a usable answer."""
    TIMED_OUT_BY_CLIENT_DEADLINE = "deadline"
    """Cut before the arm's own time-out because the client's deadline was near: bad in latency, not in error."""
    REFUSED = "refused"
    """The candidate answered 4xx, the baseline 2xx."""
    REFUSED_UNCHECKED = "refused_unchecked"
    """The candidate answered 4xx and the request could not be put to the baseline."""
    UNAVAILABLE = "unavailable"
    """Assigned to the candidate, served by the baseline because the candidate could not take it."""
    CLIENT_FAULT = "client_fault"
    """Both arms refuse it: in no metric."""
    CANCELLED = "cancelled"
    """The client went away before any limit had passed: in no metric."""
    SHED = "shed"
    """A copy that the arm refused with 429 or 503: in no metric."""


class Phase(StrEnum):
    """How far a request came that its arm failed."""

    CONNECT = "connect"
    """No connection: refused, unreachable, or not in time."""
    FIRST_BYTE = "first_byte"
    """Sent, and lost or given up before the first byte of an answer."""
    BODY = "body"
    """The answer had begun and did not end."""
    STATUS = "status"
    """A whole answer that says so itself: 5xx or 429."""


class Count(IntEnum):
    """Index into a tally: what is counted per window, arm and lane."""

    OK = 0
    FAILED = 1
    DEADLINE = 2
    REFUSED = 3
    REFUSED_UNCHECKED = 4
    UNAVAILABLE = 5
    CLIENT_FAULT = 6
    CANCELLED = 7
    SHED = 8
    LAT50_N = 9
    LAT50_BAD = 10
    LAT95_N = 11
    LAT95_BAD = 12
    LAT99_N = 13
    LAT99_BAD = 14
    COMPILES = 15
    """Answers that caused a compile or waited behind one."""
    EXCUSED = 16
    """Answers left out of the latency metrics because they met a compile."""
    PAIRS = 17
    PAIRS_BAD = 18
    FAILED_OVER = 19
    """Candidate requests that the baseline answered in its place."""
    NOT_REPLAYABLE = 20
    TTFT_N = 21
    """Event streams whose first event has come, or is late."""
    TTFT_BAD = 22
    ITL_N = 23
    """Event streams that have ended and had a gap between two events."""
    ITL_BAD = 24
    STREAMS = 25
    """Event streams that have ended, by themselves or broken off by the arm."""
    STREAMS_BROKEN = 26
    """Those that the arm broke off; they are counted as FAILED, too."""
    FAILED_CONNECT = 27
    """FAILED by phase: the next three, too; together they are FAILED."""
    FAILED_FIRST_BYTE = 28
    FAILED_BODY = 29
    FAILED_STATUS = 30


COUNTS: Final = len(Count)

MOST_SHAPES: Final = 16
"""Distinct compiled shapes that are remembered in one epoch; an arm that names more is not believed for ever."""

OUTCOME_COUNT: Final[dict[Outcome, Count]] = {
    Outcome.OK: Count.OK,
    Outcome.FAILED: Count.FAILED,
    Outcome.TIMED_OUT_BY_CLIENT_DEADLINE: Count.DEADLINE,
    Outcome.REFUSED: Count.REFUSED,
    Outcome.REFUSED_UNCHECKED: Count.REFUSED_UNCHECKED,
    Outcome.UNAVAILABLE: Count.UNAVAILABLE,
    Outcome.CLIENT_FAULT: Count.CLIENT_FAULT,
    Outcome.CANCELLED: Count.CANCELLED,
    Outcome.SHED: Count.SHED,
}

PHASE_COUNT: Final[dict[Phase, Count]] = {
    Phase.CONNECT: Count.FAILED_CONNECT,
    Phase.FIRST_BYTE: Count.FAILED_FIRST_BYTE,
    Phase.BODY: Count.FAILED_BODY,
    Phase.STATUS: Count.FAILED_STATUS,
}

Tally = list[int]
"""``COUNTS`` integers, indexed by Count. A list, because the hot path adds to it and nothing else."""


def empty_tally() -> Tally:
    return [0] * COUNTS


def window_of(wall: float, width_s: float) -> int:
    """The window in which wall-clock time ``wall`` lies."""
    return int(wall // width_s)
