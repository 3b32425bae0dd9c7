"""Answers and refusals as responses: the one place that turns a reason into a status, a body and headers."""

import asyncio
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from litestar import Request, Response
from litestar.exceptions import HTTPException

from server.core.types import NotReady, QueueFull, Refused
from wire import headers as names
from wire.coding import accepted, encode
from wire.errors import STATUS, Reason, error_body, is_openai_path

JSON: Final = "application/json"
# Seconds after which asking again is worth while, where nothing is known.
RETRY_AFTER: Final[dict[Reason, str]] = {Reason.NOT_READY: "5", Reason.DRAINING: "1", Reason.QUEUE_FULL: "1"}
MAX_BODY: Final = 1024 * 1024
# Of a sentence that repeats what the caller sent.
MAX_MESSAGE: Final = 1000
# Below it a coding costs more time than the bytes that it saves.
MIN_CODED: Final = 8 * 1024
# Above it the coding takes longer than a probe should wait.
CODED_ASIDE: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    """An answer's body, and what it is."""

    body: bytes
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back, before any framework has seen it."""

    status: int
    body: bytes
    media_type: str
    headers: Mapping[str, str]

    def response(self) -> Response[bytes]:
        """For a route of Litestar's."""
        return Response(self.body, status_code=self.status, media_type=self.media_type, headers=dict(self.headers))


def json_response(content: bytes, headers: Mapping[str, str] | None = None, status: int = 200) -> Response[bytes]:
    return Response(content=content, status_code=status, media_type=JSON, headers=dict(headers or {}))


async def content_answer(asked: Mapping[str, str], content: Content, headers: Mapping[str, str]) -> Answer:
    """``content`` in the coding that its caller likes best; ``asked`` are the headers of its request.

    A caller behind the gateway gets it as it is: compressed answers are not compared.
    """
    body, named = content.body, {**content.headers, **headers}
    coding = accepted(asked.get("accept-encoding", "")) if len(body) >= MIN_CODED else None
    if coding is not None and names.EPOCH not in asked:
        body = encode(coding, body) if len(body) < CODED_ASIDE else await asyncio.to_thread(encode, coding, body)
        named["content-encoding"] = coding
    return Answer(200, body, content.media_type, named)


def refusal_answer(
    path: str,
    reason: Reason,
    message: str,
    param: str | None = None,
    *,
    close: bool = False,
    more: Mapping[str, str] | None = None,
) -> Answer:
    """The error in the shape that clients of ``path`` expect. ``close`` ends the connection after it, ``more`` are
    headers of this one.
    """
    headers = dict(more or {})
    if reason in RETRY_AFTER:
        headers.setdefault("retry-after", RETRY_AFTER[reason])
    # OpenAI's clients obey it. Of an error of ours nobody knows: there they go by their own rule.
    if is_openai_path(path) and reason is not Reason.INTERNAL:
        headers["x-should-retry"] = "true" if reason in RETRY_AFTER else "false"
    if close or reason is Reason.BODY_TOO_LARGE:
        headers["connection"] = "close"
    return Answer(STATUS[reason], error_body(path, reason, message[:MAX_MESSAGE], param=param), JSON, headers)


def retry_after(error: Exception) -> dict[str, str]:
    """The header, where it is known when asking again is worth while."""
    seconds = error.retry_after_s if isinstance(error, QueueFull | NotReady) else None
    return {} if seconds is None else {"retry-after": str(max(1, math.ceil(seconds)))}


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
    given = (error.headers or {}) if isinstance(error, HTTPException) else {}
    more = {"allow": given["allow"]} if "allow" in given else retry_after(error)
    return refusal_answer(request.url.path, reason, message, param, more=more).response()
