"""Reasons become statuses, bodies and headers in one place."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from litestar import Request
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException

from server.adapters.asgi.answers import (
    CODED_ASIDE,
    MAX_MESSAGE,
    MIN_CODED,
    Content,
    answer_error,
    content_answer,
    reason_of,
    refusal_answer,
)
from server.core.types import (
    BadRequest,
    DeadlinePassed,
    Draining,
    Internal,
    ModelNotFound,
    NotReady,
    QueueFull,
    Refused,
    ShapeNotServed,
)
from wire.errors import Reason


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [
        (BadRequest("x"), Reason.BAD_REQUEST, 400),
        (ShapeNotServed("x"), Reason.SHAPE_NOT_SERVED, 400),
        (ModelNotFound("x"), Reason.MODEL_NOT_FOUND, 404),
        (QueueFull("x"), Reason.QUEUE_FULL, 429),
        (DeadlinePassed("x"), Reason.DEADLINE, 504),
        (NotReady("x"), Reason.NOT_READY, 503),
        (Draining("x"), Reason.DRAINING, 503),
        (Internal("x"), Reason.INTERNAL, 500),
        (NotFoundException(), Reason.ROUTE_NOT_FOUND, 404),
        (MethodNotAllowedException(), Reason.METHOD_NOT_ALLOWED, 405),
        (HTTPException(status_code=400), Reason.BAD_REQUEST, 400),
        (HTTPException(status_code=502), Reason.INTERNAL, 500),
        (RuntimeError("a secret"), Reason.INTERNAL, 500),
    ],
)
def test_every_error_has_a_reason_and_a_status(error: Exception, reason: Reason, status: int) -> None:
    """The caller's faults, load and ours are told apart, and our insides stay inside."""
    found, message, param = reason_of(error)
    response = refusal_answer("/v2/models/m/infer", found, message, param)
    assert found is reason
    assert response.status == status
    assert "secret" not in message


def test_every_refusal_of_the_core_has_a_wire_reason() -> None:
    """A new kind cannot be forgotten here."""
    for kind in Refused.__subclasses__():
        assert Reason(kind.reason)


def test_openai_paths_get_the_openai_shape() -> None:
    """Message, type, param and code."""
    response = refusal_answer("/v1/embeddings", Reason.BAD_REQUEST, "wrong", "input")
    assert json.loads(response.body) == {
        "error": {"message": "wrong", "type": "invalid_request_error", "param": "input", "code": "bad_request"}
    }


def test_other_paths_get_the_oip_shape() -> None:
    """A text and the reason."""
    response = refusal_answer("/v2/models/m/infer", Reason.NOT_READY, "wait")
    assert json.loads(response.body) == {"error": "wait", "reason": "not_ready"}


@pytest.mark.parametrize(
    ("reason", "header"), [(Reason.NOT_READY, "5"), (Reason.QUEUE_FULL, "1"), (Reason.BAD_REQUEST, None)]
)
def test_asking_again_is_suggested_where_it_helps(reason: Reason, header: str | None) -> None:
    """Retry-After in seconds."""
    assert refusal_answer("/v1/embeddings", reason, "x").headers.get("retry-after") == header


@pytest.mark.parametrize(
    ("error", "header"),
    [
        (NotReady("x", retry_after_s=12.1), "13"),
        (NotReady("x", retry_after_s=0.0), "1"),
        (NotReady("x"), "5"),
        (Draining("x"), "1"),
        (QueueFull("x", retry_after_s=2.0), "2"),
        (BadRequest("x"), None),
    ],
)
def test_where_more_is_known_of_the_time_it_is_told(error: Exception, header: str | None) -> None:
    """On every route of the port."""
    scope: Any = {"type": "http", "path": "/v2/models/m/ready", "headers": [], "query_string": b""}
    assert answer_error(Request(scope), error).headers.get("retry-after") == header


@pytest.mark.parametrize(
    ("reason", "retry"),
    [
        (Reason.QUEUE_FULL, "true"),
        (Reason.NOT_READY, "true"),
        (Reason.DRAINING, "true"),
        (Reason.DEADLINE, "false"),
        (Reason.BAD_REQUEST, "false"),
        (Reason.INTERNAL, None),
    ],
)
def test_openai_clients_are_told_whether_to_try_again(reason: Reason, retry: str | None) -> None:
    """By default they repeat every 5xx; an answer that would be the same is not worth it."""
    assert refusal_answer("/v1/embeddings", reason, "x").headers.get("x-should-retry") == retry
    assert "x-should-retry" not in refusal_answer("/v2/models/m/infer", reason, "x").headers


def test_a_full_queue_is_no_invalid_request() -> None:
    """The type that OpenAI's clients know for it."""
    error = json.loads(refusal_answer("/v1/embeddings", Reason.QUEUE_FULL, "x").body)["error"]
    assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")


def test_what_a_caller_sent_does_not_come_back_whole() -> None:
    """A sentence has an end."""
    assert len(refusal_answer("/v1/embeddings", Reason.BAD_REQUEST, "x" * 10**6).body) < 2 * MAX_MESSAGE


def asked(**headers: str) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize("size", [MIN_CODED, CODED_ASIDE])
def test_large_answers_come_in_the_coding_that_is_liked(size: int) -> None:
    """With the headers of the content; the largest are compressed aside."""
    content = Content(b"x" * size, "text/x", {"a": "b"})
    response = asyncio.run(content_answer(asked(accept_encoding="gzip, deflate"), content, {"c": "d"}))
    assert gzip.decompress(response.body) == content.body
    assert response.headers == {"a": "b", "c": "d", "content-encoding": "gzip"}
    assert response.media_type == "text/x"


@pytest.mark.parametrize(
    ("size", "headers"),
    [
        (MIN_CODED - 1, {"accept_encoding": "gzip"}),
        (MIN_CODED, {}),
        (MIN_CODED, {"accept_encoding": "br"}),
        (MIN_CODED, {"accept_encoding": "gzip", "x_canary_epoch": "3"}),
    ],
)
def test_other_answers_come_as_they_are(size: int, headers: dict[str, str]) -> None:
    """Small ones, and those that a gateway wants to compare."""
    response = asyncio.run(content_answer(asked(**headers), Content(b"x" * size), {}))
    assert (response.body, response.headers) == (b"x" * size, {})
