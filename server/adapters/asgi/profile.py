"""POST /profile: records what the device does while it serves."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.handlers import HTTPRouteHandler

from server.adapters.asgi.answers import json_response
from server.runtime.profile import ProfileRefused, Recorded
from wire.admin import Refusal
from wire.profile import MAX_SECONDS, MIN_SECONDS, PATH, ProfileBody

Record = Callable[[float], Awaitable[Recorded]]


def profile_route(record: Record | None) -> HTTPRouteHandler:
    """``record`` None: no profiler is configured, 404. 409 where another time, or after a change, it may work."""

    @post(PATH, status_code=200)
    async def profile(request: Request[Any, Any, Any]) -> Response[bytes]:
        # A page in a browser of this machine may send a POST anywhere, and always says where it is from.
        if "origin" in request.headers:
            return _refuse(403, "origin_not_allowed", "origin: requests of web pages are not served here")
        if record is None:
            return _refuse(404, "not_configured", "profiler: is not configured, allowed with `profiler: {folder: ...}`")
        given = request.query_params.get("seconds", "")
        seconds = int(given) if given.isascii() and given.isdigit() and len(given) <= len(str(MAX_SECONDS)) else 0
        if not MIN_SECONDS <= seconds <= MAX_SECONDS:
            return _refuse(
                400,
                "bad_request",
                f"seconds: got {given[:20]!r}, allowed is a whole number from {MIN_SECONDS} to {MAX_SECONDS}",
            )
        try:
            recorded = await record(float(seconds))
        except ProfileRefused as refused:
            return _refuse(409 if refused.busy else 500, "busy" if refused.busy else "failed", str(refused))
        body = ProfileBody(str(recorded.file), recorded.batches, round(recorded.seconds, 3), recorded.size)
        return json_response(msgspec.json.encode(body))

    return profile


def _refuse(status: int, reason: str, text: str) -> Response[bytes]:
    return json_response(msgspec.json.encode(Refusal(error=text, reason=reason)), status=status)
