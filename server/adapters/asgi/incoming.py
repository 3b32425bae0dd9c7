"""A request as it comes in: what is refused by its head, its body within bounds, and a caller that leaves."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from litestar import Request
from litestar.types import Receive

from server.adapters.asgi.answers import JSON, MAX_BODY
from server.core.types import Refused

T = TypeVar("T")
# For the whole body, from the end of the head.
BODY_S: Final = 30.0


class UnsupportedMediaType(Refused):
    reason = "unsupported_media_type"


class BodyTooLarge(Refused):
    reason = "body_too_large"


class BodyTooSlow(Refused):
    reason = "bad_request"


class CallerGone(Exception):
    """The connection was closed by the other side: there is nobody to answer."""


def check_head(request: Request[Any, Any, Any]) -> None:
    """JSON without encoding is what this version reads; no content type at all counts as JSON. Raises a Refused."""
    if "inference-header-content-length" in request.headers:
        raise UnsupportedMediaType("body: binary tensors are not in this version; send JSON data")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        raise UnsupportedMediaType(f"content-encoding: got {encoding!r}, allowed is identity")
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        raise UnsupportedMediaType(f"content-type: got {kind!r}, allowed is {JSON}")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > MAX_BODY:
        raise _too_large()


async def read_body(receive: Receive, within_s: float) -> bytes:
    """The whole body. Raises BodyTooLarge, BodyTooSlow, CallerGone."""
    body = bytearray()
    try:
        async with asyncio.timeout(within_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise CallerGone
                body += message.get("body", b"")
                if len(body) > MAX_BODY:
                    raise _too_large()
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise BodyTooSlow(f"body: not complete within {within_s:g} s; {len(body)} bytes came") from None


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the caller leaves before it. Raises CallerGone.

    Call it after the body was read. HTTP servers do not cancel an application whose client is gone; the one way
    to notice is to receive once more (ASGI HTTP specification, Disconnect).
    """
    working = asyncio.create_task(work, name="work")
    leaving = asyncio.create_task(_disconnected(receive), name="leaving")
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise CallerGone
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"body: larger than the {MAX_BODY} bytes that are allowed")
