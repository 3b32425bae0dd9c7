"""Error bodies of both protocols and the closed set of machine-readable reasons.

OIP v2: ``{"error": "<text>", "reason": "<reason>"}``. The specification asks for ``error`` only; clients
read that, programs read ``reason``.
OpenAI: ``{"error": {"message", "type", "param", "code"}}`` with the reason as ``code``.
"""

from enum import StrEnum
from typing import Final

import msgspec


class Reason(StrEnum):
    """Why a request was not answered. The value is what goes over the wire."""

    BAD_REQUEST = "bad_request"
    SHAPE_NOT_SERVED = "shape_not_served"
    MODEL_NOT_FOUND = "model_not_found"
    ROUTE_NOT_FOUND = "route_not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_SLOW = "body_too_slow"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    NOT_READY = "not_ready"
    DRAINING = "draining"
    QUEUE_FULL = "queue_full"
    DEADLINE = "deadline"
    INTERNAL = "internal"
    BASELINE_UNAVAILABLE = "baseline_unavailable"
    BASELINE_FULL = "baseline_full"
    UPSTREAM_FAILED = "upstream_failed"
    UPSTREAM_TIMEOUT = "upstream_timeout"


STATUS: Final[dict[Reason, int]] = {
    Reason.BAD_REQUEST: 400,
    Reason.SHAPE_NOT_SERVED: 400,
    Reason.MODEL_NOT_FOUND: 404,
    Reason.ROUTE_NOT_FOUND: 404,
    Reason.METHOD_NOT_ALLOWED: 405,
    Reason.BODY_TOO_LARGE: 413,
    Reason.BODY_TOO_SLOW: 408,
    Reason.UNSUPPORTED_MEDIA_TYPE: 415,
    Reason.NOT_READY: 503,
    Reason.DRAINING: 503,
    Reason.QUEUE_FULL: 429,
    Reason.DEADLINE: 504,
    Reason.INTERNAL: 500,
    Reason.BASELINE_UNAVAILABLE: 503,
    Reason.BASELINE_FULL: 503,
    Reason.UPSTREAM_FAILED: 502,
    Reason.UPSTREAM_TIMEOUT: 504,
}


class OipErrorBody(msgspec.Struct, frozen=True):
    error: str
    reason: str


class OpenAIError(msgspec.Struct, frozen=True):
    message: str
    type: str
    code: str
    param: str | None = None


class OpenAIErrorBody(msgspec.Struct, frozen=True):
    error: OpenAIError


def is_openai_path(path: str) -> bool:
    """Whether errors on this path take the OpenAI shape (everything else takes OIP's)."""
    return path.startswith("/v1/")


def error_body(path: str, reason: Reason, message: str, *, param: str | None = None) -> bytes:
    """The JSON error body in the shape that clients of ``path`` expect."""
    if is_openai_path(path):
        kind = _openai_type(STATUS[reason])
        return msgspec.json.encode(
            OpenAIErrorBody(OpenAIError(message=message, type=kind, code=str(reason), param=param))
        )
    return msgspec.json.encode(OipErrorBody(error=message, reason=str(reason)))


def _openai_type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "invalid_request_error" if status < 500 else "server_error"
