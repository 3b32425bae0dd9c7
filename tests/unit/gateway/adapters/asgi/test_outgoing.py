import json

import pytest

from gateway.adapters.asgi.outgoing import MESSAGES, answer_headers, failure_answer
from gateway.core.effects import FailReason, Instead
from gateway.core.leg import Head, Headers
from gateway.runtime.call import Failure
from wire.errors import STATUS, Reason


def headers_of(given: Headers, *, status: int = 200, length: int | None = 3, timings: bool = False) -> Headers:
    head = Head(status, given, "", None, 0, False, False)
    return answer_headers(head, arm="tpu", instead=Instead.FAILED, request_id="r", timings=timings, length=length)


OURS = [(b"x-request-id", b"r"), (b"x-canary-arm", b"tpu"), (b"x-canary-failover", b"failed")]


def test_the_arms_headers_pass_without_those_of_the_connection() -> None:
    """Length is that of the body at hand; id and arm are the gateway's word."""
    given = [
        (b"content-type", b"text/plain"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"close, x-hop"),
        (b"x-hop", b"1"),
        (b"x-request-id", b"other"),
        (b"x-canary-arm", b"forged"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
    ]
    assert headers_of(given) == [
        (b"content-type", b"text/plain"),
        (b"set-cookie", b"a"),
        (b"set-cookie", b"b"),
        (b"content-length", b"3"),
        *OURS,
    ]


def test_timings_pass_only_when_exposed() -> None:
    """And then only those, not every x-canary header."""
    given = [(b"x-canary-queue-ms", b"1"), (b"x-canary-compiles", b"0"), (b"x-canary-secret", b"s")]
    assert headers_of(given, length=None) == OURS
    assert headers_of(given, length=None, timings=True) == [*given[:2], *OURS]


def test_the_phases_in_the_webs_form_pass_only_when_exposed() -> None:
    """What our own headers keep back, Server-Timing would tell."""
    given = [(b"server-timing", b"device;dur=1")]
    assert headers_of(given) == [(b"content-length", b"3"), *OURS]
    assert given[0] in headers_of(given, timings=True)


def test_a_streamed_answer_keeps_its_length() -> None:
    """There is no body at hand to measure."""
    assert headers_of([(b"content-length", b"99")], length=None) == [(b"content-length", b"99"), *OURS]


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_body_has_no_length(status: int) -> None:
    """A 304 may name the length of what it does not send; the server in front would wait for it."""
    assert headers_of([(b"content-length", b"99")], status=status, length=0) == OURS


def test_a_body_that_does_not_come_is_answered_and_not_waited_for() -> None:
    """408, a fault of the client's, and the end of its connection."""
    status, headers, body = failure_answer("/v2/x", Failure(FailReason.BODY_TOO_SLOW, after_failover=False), "r")
    assert status == 408
    assert json.loads(body) == {"error": MESSAGES[FailReason.BODY_TOO_SLOW], "reason": Reason.BODY_TOO_SLOW}
    assert {(b"connection", b"close"), (b"x-request-id", b"r")} <= set(headers)


@pytest.mark.parametrize("reason", list(FailReason))
def test_every_failure_has_a_status_and_both_shapes(reason: FailReason) -> None:
    """OpenAI's below /v1/, OIP's elsewhere; status and reason agree with the wire's tables."""
    status, headers, body = failure_answer("/v1/embeddings", Failure(reason, after_failover=False), "r")
    assert status == STATUS[Reason(str(reason))]
    assert json.loads(body)["error"]["code"] == reason
    assert json.loads(body)["error"]["message"] == MESSAGES[reason]
    assert (b"content-length", b"%d" % len(body)) in headers
    assert (b"x-request-id", b"r") in headers
    assert ((b"retry-after", b"1") in headers) == (status == 503)
    assert b"x-should-retry" not in dict(headers)
    _, _, body = failure_answer("/v2/models/m/infer", Failure(reason, after_failover=False), "r")
    assert json.loads(body) == {"error": MESSAGES[reason], "reason": reason}


def test_after_a_failover_a_client_should_not_try_again() -> None:
    """Two arms were tried already."""
    _, headers, _ = failure_answer("/", Failure(FailReason.UPSTREAM_FAILED, after_failover=True), "r")
    assert (b"x-should-retry", b"false") in headers
