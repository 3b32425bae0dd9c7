"""What a client gets: an arm's answer without what was for the gateway, or the gateway's own error."""

from typing import Final

from gateway.adapters.asgi.incoming import HOP_BY_HOP, connection_options
from gateway.core.effects import FailReason, Instead
from gateway.core.leg import Head, Headers
from gateway.runtime.call import Failure
from wire import headers as names
from wire.errors import STATUS, Reason, error_body

_OURS: Final = names.PREFIX.encode()
_TIMINGS: Final = frozenset(name.encode() for name in names.TIMINGS)
_REQUEST_ID: Final = names.REQUEST_ID.encode()
_ARM: Final = names.ARM.encode()
_FAILOVER: Final = names.FAILOVER.encode()
_NO_BODY: Final = (204, 304)

MESSAGES: Final[dict[FailReason, str]] = {
    FailReason.BASELINE_UNAVAILABLE: "no connection to the baseline",
    FailReason.BASELINE_FULL: "the baseline has as many requests in flight as it may have",
    FailReason.UPSTREAM_FAILED: "the arm closed the connection or did not answer in HTTP",
    FailReason.UPSTREAM_TIMEOUT: "the arm did not answer in time",
    FailReason.DEADLINE: "the deadline of the request has passed",
    FailReason.BODY_TOO_LARGE: "the body is larger than the gateway's max_body",
    FailReason.BODY_TOO_SLOW: "the body did not come in time",
}


def answer_headers(
    head: Head, *, arm: str, instead: Instead | None, request_id: str, timings: bool, length: int | None
) -> Headers:
    """Headers for the client. ``length``: of a body that is at hand; None for one that is streamed or absent."""
    dropped = HOP_BY_HOP
    for name, value in head.headers:
        if name == b"connection":
            dropped |= connection_options(value)
    bodiless = head.status in _NO_BODY
    passed = [
        (name, value)
        for name, value in head.headers
        if name not in dropped
        and name != _REQUEST_ID
        and not (name == b"content-length" and (length is not None or bodiless))
        and ((timings and name in _TIMINGS) or not (name.startswith(_OURS) or name in _TIMINGS))
    ]
    if length is not None and not bodiless:
        passed.append((b"content-length", b"%d" % length))
    passed.append((_REQUEST_ID, request_id.encode()))
    passed.append((_ARM, arm.encode()))
    if instead is not None:
        passed.append((_FAILOVER, str(instead).encode()))
    return passed


def failure_answer(path: str, failure: Failure, request_id: str) -> tuple[int, Headers, bytes]:
    """Status, headers and body of an error of the gateway's own, in the shape that clients of ``path`` expect."""
    message = MESSAGES[failure.reason]
    status, headers, body = error_answer(path, Reason(str(failure.reason)), message, request_id)
    if failure.after_failover:
        # Two arms were tried already; a client library that tries again at once only adds to the load.
        headers.append((b"x-should-retry", b"false"))
    return status, headers, body


def error_answer(path: str, reason: Reason, message: str, request_id: str | None) -> tuple[int, Headers, bytes]:
    """Status, headers and body of an error."""
    body = error_body(path, reason, message)
    status = STATUS[reason]
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if request_id is not None:
        headers.append((_REQUEST_ID, request_id.encode()))
    if reason is Reason.BODY_TOO_SLOW:
        headers.append((b"connection", b"close"))  # the rest of the body is not waited for
    if status == 503:
        headers.append((b"retry-after", b"1"))
    return status, headers, body
