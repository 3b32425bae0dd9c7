"""A request as it comes in: what is refused by its head, and its body within bounds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from litestar.types import Receive, Scope

from server.adapters.asgi.answers import JSON, MAX_BODY
from server.adapters.asgi.leaving import CallerGone, Leaving
from server.core.types import BadRequest, Refused
from server.runtime.last_call import LastCall, Wait
from wire import framing
from wire.coding import CODINGS, BadCoding, Coding, Decoder, TooLong

# For the whole body, from the end of the head.
BODY_S: Final = 30.0


class UnsupportedMediaType(Refused):
    reason = "unsupported_media_type"


class BodyTooLarge(Refused):
    reason = "body_too_large"


class BodyTooSlow(Refused):
    reason = "bad_request"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came. Of a header that came several times the first one counts."""

    path: str
    headers: Mapping[str, str]
    receive: Receive
    leaving: Leaving
    http_version: str = "1.1"

    @classmethod
    def of(cls, scope: Scope, receive: Receive) -> "Asked":
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(list(scope["headers"]))}
        return cls(scope["path"], headers, receive, Leaving.of(scope), scope["http_version"])


def check_head(headers: Mapping[str, str], *, binary: bool, limit: int = MAX_BODY) -> Coding | None:
    """The content coding of the body. JSON is read, no content type at all counts as JSON; where ``binary``, also
    tensors behind it, whose length the head says. The body may have ``limit`` bytes. Raises a Refused.
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
    if length.isdigit() and int(length) > limit:
        raise _too_large(limit)
    return _coding(headers.get("content-encoding", ""))


def _coding(named: str) -> Coding | None:
    wanted = named.strip().lower()
    if wanted in ("", "identity"):
        return None
    for coding in CODINGS:
        if wanted in (coding, f"x-{coding}"):
            return coding
    raise UnsupportedMediaType(f"content-encoding: got {named!r}, allowed is one of identity, {', '.join(CODINGS)}")


async def read_body(
    receive: Receive,
    within_s: float,
    coding: Coding | None = None,
    last_call: LastCall | None = None,
    *,
    limit: int = MAX_BODY,
) -> bytes:
    """The whole body, decoded. What came and what is decoded of it are both bounded by ``limit``.

    Raises BodyTooLarge, BodyTooSlow, BadRequest, CallerGone; NotReady when it is ended by ``last_call``.
    """
    wait = (last_call or LastCall()).heeded(within_s)
    if coding is None:
        return await _read(receive, wait, None, limit)
    decoder = Decoder(coding, limit)
    try:
        await _read(receive, wait, decoder, limit)
        return decoder.whole()
    except TooLong:
        raise _too_large(limit) from None
    except BadCoding as error:
        raise BadRequest(f"body: {error}", param="content-encoding") from error


async def _read(receive: Receive, wait: Wait, decoder: Decoder | None, limit: int) -> bytes:
    """What came, unless a decoder took it."""
    body, came = bytearray(), 0
    try:
        async with wait:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise CallerGone
                piece = message.get("body", b"")
                came += len(piece)
                if came > limit:
                    raise _too_large(limit)
                if decoder is None:
                    body += piece
                else:
                    decoder.feed(piece)
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise BodyTooSlow(f"body: not complete within {wait.within_s:g} s; {came} bytes came") from None


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"body: larger than the {limit} bytes that are allowed, decoded or not")
