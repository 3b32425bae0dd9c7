"""What happened to a request on one arm, in the words of the evidence."""

from enum import StrEnum
from typing import Final

from gateway.core.types import Outcome, Phase

TOO_MANY_REQUESTS: Final = 429


class Loss(StrEnum):
    """How a request to an arm ended without a complete answer."""

    REFUSED = "refused"
    """No connection: refused, unreachable, name not found."""
    CONNECT_TIMEOUT = "connect_timeout"
    RESET = "reset"
    """The connection ended before the answer did."""
    FIRST_BYTE_TIMEOUT = "first_byte_timeout"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    GARBAGE = "garbage"
    """What came is no HTTP/1.1 answer."""
    STALE = "stale"
    """Not written: routing changed while the request waited for a connection. Nobody's failure."""
    LOCAL = "local"
    """No connection, because this process has no file descriptor, port or memory for one. No arm's failure."""


TIMEOUTS: Final = frozenset({Loss.CONNECT_TIMEOUT, Loss.FIRST_BYTE_TIMEOUT, Loss.IDLE_TIMEOUT, Loss.TOTAL_TIMEOUT})


def is_failure(status: int) -> bool:
    """Whether an answer is the arm's failure: 5xx (503 included) and 429."""
    return status >= 500 or status == TOO_MANY_REQUESTS


def is_refusal(status: int) -> bool:
    """Whether an answer says that the request, not the arm, is at fault: any 4xx but 429.

    400, 404, 405, 411, 413, 415 and 422 are the ones that a server with another catalogue gives. The rest is held to
    the same check, because an arm that answers 401 or 403 where the other accepts is as wrong.
    """
    return 400 <= status < 500 and status != TOO_MANY_REQUESTS


def is_accepted(status: int) -> bool:
    """Whether an answer is neither a failure nor a refusal."""
    return status < 400


def answered(status: int) -> Outcome:
    """The outcome of a complete answer that nothing else has to be compared with."""
    if is_failure(status):
        return Outcome.FAILED
    return Outcome.CLIENT_FAULT if is_refusal(status) else Outcome.OK


def lost(loss: Loss, *, cut_short: bool) -> Outcome:
    """The outcome of a request without an answer.

    cut_short: the gateway gave up before the arm's own time-out because the client's deadline was near. That is bad
        for latency but proves no error.
    """
    if loss is Loss.LOCAL:
        return Outcome.CANCELLED
    early = cut_short and loss in (Loss.FIRST_BYTE_TIMEOUT, Loss.TOTAL_TIMEOUT)
    return Outcome.TIMED_OUT_BY_CLIENT_DEADLINE if early else Outcome.FAILED


def phase_of(loss: Loss | None, *, answering: bool) -> Phase:
    """How far a failed request came. ``answering``: status and headers had come; without a loss the answer is whole."""
    if loss is None:
        return Phase.STATUS
    if answering:
        return Phase.BODY
    return Phase.CONNECT if loss in (Loss.REFUSED, Loss.CONNECT_TIMEOUT) else Phase.FIRST_BYTE


def copied(status: int, other: int | None) -> Outcome:
    """The outcome of a copy on the candidate. ``other``: the baseline's status, None when it gave no answer."""
    if is_failure(status):
        return Outcome.SHED if status in (TOO_MANY_REQUESTS, 503) else Outcome.FAILED
    if not is_refusal(status):
        return Outcome.OK
    if other is None or is_failure(other):
        return Outcome.REFUSED_UNCHECKED
    return Outcome.CLIENT_FAULT if is_refusal(other) else Outcome.REFUSED
