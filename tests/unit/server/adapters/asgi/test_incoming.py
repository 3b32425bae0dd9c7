"""Bodies within bounds, and callers that leave."""

import asyncio
from typing import Any

import pytest

from server.adapters.asgi.answers import MAX_BODY
from server.adapters.asgi.incoming import (
    BodyTooLarge,
    BodyTooSlow,
    UnsupportedMediaType,
    check_head,
    read_body,
)
from server.adapters.asgi.leaving import CallerGone
from server.core.types import BadRequest
from wire.coding import encode


class Client:
    """What ``receive`` gives, in order; after the last it waits until ``left`` is set."""

    def __init__(self, *messages: Any) -> None:
        self._messages = list(messages)
        self.left = asyncio.Event()

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        await self.left.wait()
        return {"type": "http.disconnect"}


def part(body: bytes, *, more: bool) -> Any:
    return {"type": "http.request", "body": body, "more_body": more}


def test_a_body_is_put_together() -> None:
    """In whatever pieces it comes."""

    async def scenario() -> None:
        client = Client(part(b"ab", more=True), part(b"", more=True), part(b"c", more=False))
        assert await read_body(client.receive, 20) == b"abc"

    asyncio.run(scenario())


def test_a_body_above_the_limit_is_refused_at_the_byte_that_is_too_much() -> None:
    """The limit itself is allowed; nothing is read beyond it."""

    async def scenario() -> None:
        whole = part(b"x" * MAX_BODY, more=False)
        assert len(await read_body(Client(whole).receive, 20)) == MAX_BODY
        endless = Client(part(b"x" * MAX_BODY, more=True), part(b"x", more=True))
        with pytest.raises(BodyTooLarge):
            await read_body(endless.receive, 20)

    asyncio.run(scenario())


def test_a_body_that_does_not_come_is_given_up() -> None:
    """The sentence says how far it got."""

    async def scenario() -> None:
        with pytest.raises(BodyTooSlow, match="3 bytes came"):
            await read_body(Client(part(b"abc", more=True)).receive, 0.01)

    asyncio.run(scenario())


def test_a_caller_that_leaves_in_its_body_is_gone() -> None:
    """That is no error of the server."""

    async def scenario() -> None:
        client = Client(part(b"abc", more=True))
        client.left.set()
        with pytest.raises(CallerGone):
            await read_body(client.receive, 20)

    asyncio.run(scenario())


def head(**headers: str) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


LENGTH = {"inference_header_content_length": "2"}
OCTETS = {"content_type": "application/octet-stream"}


@pytest.mark.parametrize(
    ("headers", "binary", "coding"),
    [
        ({}, False, None),
        ({"content_type": "Application/JSON; charset=utf-8"}, False, None),
        ({"content_encoding": "identity"}, False, None),
        ({"content_encoding": "GZIP"}, False, "gzip"),
        ({"content_encoding": "x-gzip"}, True, "gzip"),
        ({"content_encoding": "deflate"}, True, "deflate"),
        ({}, True, None),
        (LENGTH, True, None),
        (OCTETS | LENGTH, True, None),
    ],
)
def test_what_can_be_read_is_let_in(headers: dict[str, str], binary: bool, coding: str | None) -> None:
    """JSON with or without its name, and tensors behind it where the route takes them."""
    assert check_head(head(**headers), binary=binary) == coding


@pytest.mark.parametrize(
    ("headers", "binary", "error"),
    [
        ({"content_encoding": "br"}, False, UnsupportedMediaType),
        ({"content_encoding": "gzip, deflate"}, False, UnsupportedMediaType),
        ({"content_type": "text/plain"}, True, UnsupportedMediaType),
        (OCTETS, False, UnsupportedMediaType),
        (LENGTH, False, UnsupportedMediaType),
        (LENGTH | {"content_type": "text/plain"}, True, UnsupportedMediaType),
        (OCTETS, True, BadRequest),
        ({"content_length": str(MAX_BODY + 1)}, True, BodyTooLarge),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_head(
    headers: dict[str, str], binary: bool, error: type[Exception]
) -> None:
    """Bytes without the length of their JSON are a mistake in the request, not another medium."""
    with pytest.raises(error):
        check_head(head(**headers), binary=binary)


def test_a_coded_body_is_decoded_as_it_comes() -> None:
    """In whatever pieces."""

    async def scenario() -> None:
        coded = encode("gzip", b"hello")
        client = Client(part(coded[:7], more=True), part(b"", more=True), part(coded[7:], more=False))
        assert await read_body(client.receive, 20, "gzip") == b"hello"

    asyncio.run(scenario())


def test_a_bomb_is_refused_while_it_is_decoded() -> None:
    """What follows is not even received."""

    async def scenario() -> None:
        client = Client(part(encode("gzip", bytes(MAX_BODY + 1)), more=True))
        with pytest.raises(BodyTooLarge):
            await read_body(client.receive, 20, "gzip")

    asyncio.run(scenario())


@pytest.mark.parametrize("body", [b"", b"{}", encode("gzip", b"{}")[:-1], encode("deflate", b"{}")])
def test_a_body_that_is_not_coded_as_it_says_is_refused(body: bytes) -> None:
    """It is the caller's fault, and the header is named."""

    async def scenario() -> None:
        with pytest.raises(BadRequest) as refused:
            await read_body(Client(part(body, more=False)).receive, 20, "gzip")
        assert refused.value.param == "content-encoding"

    asyncio.run(scenario())
