"""Reasons become statuses, bodies and headers in one place."""

import json

import pytest
from litestar.exceptions import HTTPException, MethodNotAllowedException, NotFoundException

from server.adapters.asgi.answers import reason_of, refusal_response
from server.core.types import (
    BadRequest,
    DeadlinePassed,
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
    response = refusal_response("/v2/models/m/infer", found, message, param)
    assert found is reason
    assert response.status_code == status
    assert "secret" not in message


def test_every_refusal_of_the_core_has_a_wire_reason() -> None:
    """A new kind cannot be forgotten here."""
    for kind in Refused.__subclasses__():
        assert Reason(kind.reason)


def test_openai_paths_get_the_openai_shape() -> None:
    """Message, type, param and code."""
    response = refusal_response("/v1/embeddings", Reason.BAD_REQUEST, "wrong", "input")
    assert json.loads(response.content) == {
        "error": {"message": "wrong", "type": "invalid_request_error", "param": "input", "code": "bad_request"}
    }


def test_other_paths_get_the_oip_shape() -> None:
    """A text and the reason."""
    response = refusal_response("/v2/models/m/infer", Reason.NOT_READY, "wait")
    assert json.loads(response.content) == {"error": "wait", "reason": "not_ready"}


@pytest.mark.parametrize(
    ("reason", "header"), [(Reason.NOT_READY, "5"), (Reason.QUEUE_FULL, "1"), (Reason.BAD_REQUEST, None)]
)
def test_asking_again_is_suggested_where_it_helps(reason: Reason, header: str | None) -> None:
    """Retry-After in seconds."""
    assert refusal_response("/v1/embeddings", reason, "x").headers.get("retry-after") == header
