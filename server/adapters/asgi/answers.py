"""Refusals as responses: the one place that turns a reason into a status, a body and headers."""

from collections.abc import Mapping
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException

from server.core.types import Refused
from wire.errors import STATUS, Reason, error_body

JSON: Final = "application/json"
# Seconds after which asking again is worth while.
RETRY_AFTER: Final[dict[Reason, str]] = {Reason.NOT_READY: "5", Reason.QUEUE_FULL: "1"}
MAX_BODY: Final = 1024 * 1024


def json_response(content: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> Response[bytes]:
    return Response(content=content, status_code=status, media_type=JSON, headers=dict(headers or {}))


def refusal_response(
    path: str,
    reason: Reason,
    message: str,
    param: str | None = None,
    *,
    close: bool = False,
    more: Mapping[str, str] | None = None,
) -> Response[bytes]:
    """The error in the shape that clients of ``path`` expect. ``close`` ends the connection after it, ``more`` are
    headers of this one.
    """
    headers = dict(more or {})
    if reason in RETRY_AFTER:
        headers.setdefault("retry-after", RETRY_AFTER[reason])
    if close or reason is Reason.BODY_TOO_LARGE:
        headers["connection"] = "close"
    return json_response(error_body(path, reason, message, param=param), headers, STATUS[reason])


def reason_of(error: Exception) -> tuple[Reason, str, str | None]:
    """Reason, sentence for the caller, and field of whatever a handler raised."""
    if isinstance(error, Refused):
        return Reason(error.reason), error.message, error.param
    if isinstance(error, HTTPException):
        match error.status_code:
            case 404:
                return Reason.ROUTE_NOT_FOUND, "route: this server has no such path", None
            case 405:
                return Reason.METHOD_NOT_ALLOWED, f"method: {error.detail}", None
            case status if status < 500:
                return Reason.BAD_REQUEST, f"request: {error.detail}", None
            case _:
                pass
    return Reason.INTERNAL, "server: an error of ours; its log says more", None


def answer_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
    """Litestar's last resort for what no handler caught."""
    reason, message, param = reason_of(error)
    return refusal_response(request.url.path, reason, message, param)
