"""A request as it comes in: what is refused by its head, its body within bounds, and a caller that leaves."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from litestar.types import Receive, Scope

from server.adapters.asgi.answers import JSON, MAX_BODY
from server.core.types import BadRequest, Refused
from wire import framing
from wire.coding import CODINGS, BadCoding, Coding, Decoder, TooLong

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


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came. Of a header that came several times the first one counts."""

    path: str
    headers: Mapping[str, str]
    receive: Receive

    @classmethod
    def of(cls, scope: Scope, receive: Receive) -> "Asked":
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(list(scope["headers"]))}
        return cls(scope["path"], headers, receive)


def check_head(headers: Mapping[str, str], *, binary: bool) -> Coding | None:
    """The content coding of the body. JSON is read, no content type at all counts as JSON; where ``binary``, also
    tensors behind it, whose length the head says. Raises a Refused.
    """
    framed = framing.HEADER in headers
    if framed and not binary:
        raise UnsupportedMediaType(f"{framing.HEADER}: binary tensors are for the Open Inference routes")
    kind = framing.media_type(headers.get("content-type", JSON))
    if kind == framing.OCTETS and binary and not framed:
        raise BadRequest(
            f"{framing.HEADER}: is missing, it says how many bytes of the body are JSON", param=framing.HEADER
        )
    allowed = (JSON, framing.OCTETS) if framed else (JSON,)
    if kind not in allowed:
        raise UnsupportedMediaType(f"content-type: got {kind!r}, allowed is {' or '.join(allowed)}")
    length = headers.get("content-length", "")
    if length.isdigit() and int(length) > MAX_BODY:
        raise _too_large()
    return _coding(headers.get("content-encoding", ""))


def _coding(named: str) -> Coding | None:
    wanted = named.strip().lower()
    if wanted in ("", "identity"):
        return None
    for coding in CODINGS:
        if wanted in (coding, f"x-{coding}"):
            return coding
    raise UnsupportedMediaType(f"content-encoding: got {named!r}, allowed is one of identity, {', '.join(CODINGS)}")


async def read_body(receive: Receive, within_s: float, coding: Coding | None = None) -> bytes:
    """The whole body, decoded. What came and what is decoded of it are both bounded by MAX_BODY.

    Raises BodyTooLarge, BodyTooSlow, BadRequest, CallerGone.
    """
    if coding is None:
        return await _read(receive, within_s, None)
    decoder = Decoder(coding, MAX_BODY)
    try:
        await _read(receive, within_s, decoder)
        return decoder.whole()
    except TooLong:
        raise _too_large() from None
    except BadCoding as error:
        raise BadRequest(f"body: {error}", param="content-encoding") from error


async def _read(receive: Receive, within_s: float, decoder: Decoder | None) -> bytes:
    """What came, unless a decoder took it."""
    body, came = bytearray(), 0
    try:
        async with asyncio.timeout(within_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise CallerGone
                piece = message.get("body", b"")
                came += len(piece)
                if came > MAX_BODY:
                    raise _too_large()
                if decoder is None:
                    body += piece
                else:
                    decoder.feed(piece)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise BodyTooSlow(f"body: not complete within {within_s:g} s; {came} bytes came") from None


async def unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled when the caller leaves before it. Raises CallerGone.

    Call it after the body was read. HTTP servers do not cancel an application whose client is gone; the one way
    to notice is to receive once more (ASGI HTTP specification, Disconnect).
    """
    working = asyncio.current_task()
    assert working is not None, "a coroutine runs in a task"
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        working.cancel()

    leaving = asyncio.create_task(watch(), name="leaving")
    try:
        return await work
    except asyncio.CancelledError:
        # Whoever else cancelled this task is not to be kept from it.
        if gone and working.uncancel() == 0:
            raise CallerGone from None
        raise
    finally:
        leaving.cancel()


def _too_large() -> BodyTooLarge:
    return BodyTooLarge(f"body: larger than the {MAX_BODY} bytes that are allowed, decoded or not")
