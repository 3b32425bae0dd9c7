"""What is to be done about one client request: the effects of the exchange, and the words they are put in."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Final

from gateway.core.leg import Patience
from gateway.core.types import Outcome, Phase, Role


class Leg(IntEnum):
    FIRST = 0
    SECOND = 1


class Standing(StrEnum):
    """Whether an arm can take one more request."""

    ABLE = "able"
    UNREADY = "unready"
    TRIPPED = "tripped"
    FULL = "full"
    ABSENT = "absent"
    """No candidate, or it has never been ready in this epoch: nobody's fault."""


class FailReason(StrEnum):
    """Why the gateway itself answers; the adapter turns it into status and body."""

    BASELINE_UNAVAILABLE = "baseline_unavailable"
    """No connection to the baseline."""
    BASELINE_FULL = "baseline_full"
    UPSTREAM_FAILED = "upstream_failed"
    UPSTREAM_TIMEOUT = "upstream_timeout"
    DEADLINE = "deadline"
    BODY_TOO_LARGE = "body_too_large"
    """The client sent more than ``max_body``; no arm is at fault."""
    BODY_TOO_SLOW = "body_too_slow"
    """The client did not send its body in time; no arm is at fault."""


class Instead(StrEnum):
    """Why the baseline answers what was the candidate's."""

    FAILED = "failed"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Send:
    """Send the request as ``leg`` to ``role``. ``counted``: the leg is the first one's evidence: start its latency."""

    leg: Leg
    role: Role
    patience: Patience
    counted: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """Give the client the whole held answer of ``leg``."""

    leg: Leg


@dataclass(frozen=True, slots=True)
class Stream:
    """Give the client what ``leg`` has brought, and the rest as it comes.

    events: it is a stream of events, which may go on for hours. counted: and it is the first leg's evidence.
    """

    leg: Leg
    events: bool = False
    counted: bool = False


@dataclass(frozen=True, slots=True)
class EndStream:
    """The streamed answer is complete."""


@dataclass(frozen=True, slots=True)
class Break:
    """The streamed answer cannot be completed: break off the client's connection, visibly."""


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer the client ourselves. ``after_failover``: two arms were tried; trying again at once is no help."""

    reason: FailReason
    after_failover: bool


@dataclass(frozen=True, slots=True)
class Cancel:
    """The leg's answer is not wanted: the arm should notice."""

    leg: Leg


@dataclass(frozen=True, slots=True)
class Discard:
    """The rest of the leg's answer is not wanted."""

    leg: Leg


@dataclass(frozen=True, slots=True)
class Book:
    """What became of the request on the arm it was assigned to (lane live).

    compiles, compiled: how many compiles its answer met, and their shapes. phase: how far a failed request came.
    """

    role: Role
    outcome: Outcome
    compiles: int = 0
    compiled: tuple[str, ...] = ()
    phase: Phase | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """Nothing was written to the arm that the request was assigned to: nothing is counted there."""


@dataclass(frozen=True, slots=True)
class Saw:
    """What the client got, from ``role`` (lane client)."""

    role: Role
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class FailedOver:
    """The baseline answered in the candidate's place."""


@dataclass(frozen=True, slots=True)
class CopyTo:
    """Offer a copy of the request to ``role``."""

    role: Role


Effect = Send | Answer | Stream | EndStream | Break | Fail | Cancel | Discard | Book | Drop | Saw | FailedOver | CopyTo
Effects = Sequence[Effect]
NOTHING: Final[Effects] = ()
