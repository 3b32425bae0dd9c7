"""What one peer may hold of a port, asked through a real one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from server.adapters.asgi import connection, lingering, listen
from server.adapters.asgi.listen import UvicornListener, bind

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
GET = b"GET / HTTP/1.1\r\nhost: x\r\n"


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Takes the whole body, then says ok."""
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


def talk(peer: Peer, *, max_connections: int = 8, app: Any = app) -> None:
    """Runs ``peer`` on a connection of its own; the port is closed whatever happens."""

    async def scenario() -> None:
        listener = UvicornListener(app, bind("127.0.0.1", 0), max_connections=max_connections)
        await listener.start()
        try:
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
                try:
                    await peer(reader, writer)
                finally:
                    writer.close()
        finally:
            listener.hurry()
            await listener.close(1)

    asyncio.run(scenario())


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What comes until the other side ends the connection."""
    found = b""
    try:
        while part := await reader.read(65536):
            found += part
    except ConnectionError:  # it closed with bytes of ours unread
        pass
    return found


def test_a_head_within_the_limit_is_answered() -> None:
    """Several requests on one connection, each counted for itself."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            writer.write(GET + b"x-filler: " + b"x" * 40_000 + b"\r\n\r\n")
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

    talk(peer)


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
@pytest.mark.parametrize("filler", [b"x-filler: " + b"x" * 70_000, b"\r\n".join([b"x-filler: " + b"x" * 100] * 700)])
def test_a_head_above_the_limit_is_431_and_the_end(filler: bytes, end: bytes) -> None:
    """In one header or in many, complete or still coming: it is not kept."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + filler + end)
        answer = await rest(reader)
        assert answer.startswith(b"HTTP/1.1 431")
        assert b'"reason":"bad_request"' in answer

    talk(peer)


@pytest.mark.parametrize("ask", [b"connection: upgrade\r\nupgrade: h2c\r\n", b"upgrade: websocket\r\n"])
@pytest.mark.parametrize("apart", [True, False])
def test_an_upgrade_is_refused_and_its_body_never_a_request(ask: bytes, apart: bool) -> None:
    """In a second segment or in the same: one 400, and not one more byte is parsed."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        smuggled = GET + b"\r\n"
        head = b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n" % (ask, len(smuggled))
        writer.write(head if apart else head + smuggled)
        answer = await reader.readuntil(b"}}")
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"connection: close" in answer
        assert b'"code":"bad_request"' in answer
        assert b"Upgrade is not supported" in answer
        if apart:
            writer.write(smuggled)
        assert await rest(reader) == b""

    talk(peer)


def test_a_body_may_be_larger_than_a_head() -> None:
    """Its limit is another one."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 300000\r\n\r\n" + b"x" * 300_000)
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

    talk(peer)


def test_endless_trailers_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are neither head nor body, and take memory all the same."""
    monkeypatch.setattr(connection, "MAX_MESSAGE", 100_000)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nx-trailer: ")
        writer.write(b"x" * 300_000)
        assert await rest(reader) == b""

    talk(peer)


def test_a_head_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that trickles holds no connection for ever."""
    monkeypatch.setattr(connection, "HEAD_S", 0.01)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET)
        assert await rest(reader) == b""

    talk(peer)


def test_a_complete_head_has_no_time_limit_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body's time is the application's business."""
    monkeypatch.setattr(connection, "HEAD_S", 0.01)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"x")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

    talk(peer)


def test_one_connection_above_the_limit_is_turned_away() -> None:
    """It is told so; the others are served, and a place that falls free can be taken."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        await reader.readuntil(b"ok")
        port = writer.get_extra_info("peername")[1]
        other, refused = await asyncio.open_connection("127.0.0.1", port)
        assert b"429" in (await rest(other)).splitlines()[0]
        refused.close()
        writer.write(GET + b"\r\n")
        await reader.readuntil(b"ok")
        writer.close()
        await writer.wait_closed()
        answered = b""
        while b"200 OK" not in answered:
            other, again = await asyncio.open_connection("127.0.0.1", port)
            again.write(GET + b"connection: close\r\n\r\n")
            answered = await rest(other)
            again.close()

    talk(peer, max_connections=1)


async def refusing(scope: Any, receive: Any, send: Any) -> None:
    """Answers without reading the body, as to one that is too large, and ends the connection."""
    head = [(b"content-length", b"2"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": head})
    await send({"type": "http.response.body", "body": b"no"})


LARGE = 16 * 1024 * 1024


def test_an_early_answer_survives_a_body_that_is_still_coming() -> None:
    """A client that sends all of it before it reads gets its answer, not a reset."""

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % LARGE)
        for _ in range(LARGE // 65536):
            writer.write(b"x" * 65536)
            await writer.drain()
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 413")
        assert answer.endswith(b"no")

    talk(peer, app=refusing)


@pytest.mark.parametrize(("name", "value"), [("LINGER_BYTES", 100_000), ("LINGER_S", 0.01)])
def test_what_comes_after_an_early_answer_is_bounded(monkeypatch: pytest.MonkeyPatch, name: str, value: float) -> None:
    """In bytes and in time: then the connection ends, whatever the peer is doing."""
    monkeypatch.setattr(lingering, name, value)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (1 << 40))
        with pytest.raises(ConnectionError):
            await send_for_ever(writer)

    async def send_for_ever(writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            await asyncio.sleep(0.001)

    talk(peer, app=refusing)


def test_trailers_never_become_headers() -> None:
    """What comes behind the body says nothing about the request, however the bytes were cut on their way."""
    seen: list[Any] = []

    async def listing(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)
        seen.extend(scope["headers"])

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.write(b"1\r\nx\r\n0\r\nx-late: 1\r\n\r\n")
        writer.write(GET + b"x-next: 1\r\n\r\n")
        await reader.readuntil(b"ok")
        await reader.readuntil(b"ok")

    talk(peer, app=listing)
    assert [name for name, _ in seen] == [b"host", b"transfer-encoding", b"host", b"x-next"]


async def answering_early(scope: Any, receive: Any, send: Any) -> None:
    """Answers without reading the body, and keeps the connection."""
    await send({"type": "http.response.start", "status": 415, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


def test_the_rest_of_a_body_that_is_answered_already_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte of it now and then does not hold the connection."""
    monkeypatch.setattr(listen, "KEEP_ALIVE_S", 0.3)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n")
        await reader.readuntil(b"no")
        writer.write(b"x")
        assert await rest(reader) == b""

    talk(peer, app=answering_early)


def test_the_rest_of_an_answered_body_may_be_followed_by_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit was for the body, not for what comes after it."""
    monkeypatch.setattr(listen, "KEEP_ALIVE_S", 0.3)
    both = [answering_early, late]

    async def each(scope: Any, receive: Any, send: Any) -> None:
        await both.pop(0)(scope, receive, send)

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n")
        await reader.readuntil(b"no")
        writer.write(b"xx" + GET + b"\r\n")
        assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")

    talk(peer, app=each)


async def late(scope: Any, receive: Any, send: Any) -> None:
    """Answers after an idle connection would have been closed."""
    await asyncio.sleep(0.6)
    await app(scope, receive, send)


def test_who_reads_nothing_of_its_answers_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that nobody takes holds its memory and its connection no longer than a while."""
    monkeypatch.setattr(lingering, "STALL_S", 0.1)
    over = asyncio.Event()

    async def large(scope: Any, receive: Any, send: Any) -> None:
        body = b"x" * (4 * LARGE)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b""})  # waits for room
        over.set()

    async def peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(GET + b"\r\n")
        await over.wait()

    talk(peer, app=large)
