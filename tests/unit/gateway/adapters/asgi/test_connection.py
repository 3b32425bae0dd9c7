"""What one client may hold of the data port, asked through a real one."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from gateway.adapters.asgi import connection
from gateway.adapters.asgi.connection import bounded

Peer = Callable[["Port"], Awaitable[None]]
GET = b"GET / HTTP/1.1\r\nhost: x\r\n"


class Port:
    """A port whose application takes the whole body, then says ok; and one connection to it."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.turned_away = 0
        self.number = 0
        self.hold = asyncio.Event()
        self.hold.set()
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])
        while (message := await receive())["type"] == "http.request" and message["more_body"]:
            pass
        await self.hold.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    def turn_away(self) -> None:
        self.turned_away += 1

    async def ok(self, request: bytes) -> None:
        self.writer.write(request)
        assert (await self.reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")


def talk(peer: Peer, *, max_connections: int = 8, keep_alive_s: int = 75) -> None:
    """Runs ``peer`` with a connection of its own; the port is closed whatever happens."""

    async def scenario() -> None:
        port = Port()
        config = uvicorn.Config(
            port.app,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            timeout_keep_alive=keep_alive_s,
            ws="none",
        )
        config.load()
        kind, state = bounded(max_connections, port.turn_away), ServerState()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: kind(config, state, {}), "127.0.0.1", 0)
        port.number = server.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(20):
                port.reader, port.writer = await asyncio.open_connection("127.0.0.1", port.number)
                try:
                    await peer(port)
                finally:
                    port.writer.close()
        finally:
            server.close()
            for each in tuple(state.connections):
                each.transport.abort()
            await asyncio.sleep(0)
            await asyncio.gather(*state.tasks, return_exceptions=True)

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


@pytest.mark.parametrize("ask", [b"connection: upgrade\r\nupgrade: h2c\r\n", b"upgrade: websocket\r\n"])
@pytest.mark.parametrize("apart", [True, False])
def test_an_upgrade_is_refused_and_its_body_never_a_request(ask: bytes, apart: bool) -> None:
    """In a second segment or in the same: one 400, and not one more byte is parsed."""

    async def peer(port: Port) -> None:
        await port.ok(GET + b"\r\n")
        smuggled = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
        head = b"POST /v1/embeddings HTTP/1.1\r\nhost: x\r\n%bcontent-length: %d\r\n\r\n" % (ask, len(smuggled))
        port.writer.write(head if apart else head + smuggled)
        answer = await port.reader.readuntil(b"}}")
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"connection: close" in answer
        assert b'"code":"bad_request"' in answer
        assert b"Upgrade is not supported" in answer
        if apart:
            port.writer.write(smuggled)
        assert await rest(port.reader) == b""
        assert port.paths == ["/"]

    talk(peer)


def test_a_connect_is_refused_too() -> None:
    """What would follow it is no HTTP."""

    async def peer(port: Port) -> None:
        port.writer.write(b"CONNECT x:80 HTTP/1.1\r\nhost: x\r\n\r\n" + GET + b"\r\n")
        assert (await rest(port.reader)).startswith(b"HTTP/1.1 400")
        assert port.paths == []

    talk(peer)


def test_a_refusal_does_not_fall_into_an_answer() -> None:
    """Behind a request that is being answered the connection ends without a word."""

    async def peer(port: Port) -> None:
        port.hold.clear()
        port.writer.write(GET + b"\r\n" + GET + b"upgrade: h2c\r\n\r\n")
        assert await rest(port.reader) == b""
        port.hold.set()

    talk(peer)


def test_what_is_no_http_is_answered_in_our_own_shape() -> None:
    """Clients of either protocol can read it."""

    async def peer(port: Port) -> None:
        port.writer.write(b"nonsense\r\n\r\n")
        answer = await rest(port.reader)
        assert answer.startswith(b"HTTP/1.1 400")
        assert b'"reason":"bad_request"' in answer

    talk(peer)


def test_a_head_within_the_limit_is_answered() -> None:
    """Several requests on one connection, each counted for itself."""

    async def peer(port: Port) -> None:
        for _ in range(3):
            await port.ok(GET + b"x-filler: " + b"x" * 40_000 + b"\r\n\r\n")

    talk(peer)


@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
@pytest.mark.parametrize("filler", [b"x-filler: " + b"x" * 70_000, b"\r\n".join([b"x-filler: " + b"x" * 100] * 700)])
def test_a_head_above_the_limit_is_431_and_the_end(filler: bytes, end: bytes) -> None:
    """In one header or in many, complete or still coming: it is not kept."""

    async def peer(port: Port) -> None:
        port.writer.write(GET + filler + end)
        answer = await rest(port.reader)
        assert answer.startswith(b"HTTP/1.1 431")
        assert b'"reason":"bad_request"' in answer
        assert port.paths == []

    talk(peer)


def test_a_body_may_be_larger_than_a_head() -> None:
    """Its limit is another one, whether its length is declared or not."""

    async def peer(port: Port) -> None:
        post = b"POST / HTTP/1.1\r\nhost: x\r\n"
        for _ in range(2):
            await port.ok(post + b"content-length: 300000\r\n\r\n" + b"x" * 300_000)
            await port.ok(post + b"transfer-encoding: chunked\r\n\r\n" + b"1\r\nx\r\n" * 50_000 + b"0\r\n\r\n")

    talk(peer)


@pytest.mark.parametrize("hidden", [b"1\r\nx\r\n0\r\nx-trailer: ", b"1\r\nx\r\n1;extension="])
def test_what_is_neither_head_nor_body_is_cut_off(hidden: bytes) -> None:
    """Trailers and chunk extensions take memory or time all the same."""

    async def peer(port: Port) -> None:
        port.writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + hidden)
        port.writer.write(b"x" * 300_000)
        assert await rest(port.reader) == b""

    talk(peer)


@pytest.mark.parametrize("beginning", [GET, b"\r\n", b"G"])
def test_a_head_that_does_not_end_is_given_up(beginning: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer that trickles holds no connection for ever."""
    monkeypatch.setattr(connection, "HEAD_S", 0.01)

    async def peer(port: Port) -> None:
        port.writer.write(beginning)
        assert await rest(port.reader) == b""

    talk(peer)


def test_a_late_head_waits_for_the_answer_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time-out does not cut off the request that is being served on the same connection."""
    monkeypatch.setattr(connection, "HEAD_S", 0.01)

    async def peer(port: Port) -> None:
        port.hold.clear()
        port.writer.write(GET + b"\r\n" + GET)
        await asyncio.sleep(0.05)
        port.hold.set()
        assert (await rest(port.reader)).endswith(b"ok")

    talk(peer)


def test_a_complete_head_has_no_time_limit_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body's time is the application's business, and the next head's begins with its first byte."""
    monkeypatch.setattr(connection, "HEAD_S", 0.01)

    async def peer(port: Port) -> None:
        port.writer.write(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\n")
        await asyncio.sleep(0.05)
        await port.ok(b"x")
        await asyncio.sleep(0.05)
        await port.ok(GET + b"\r\n")

    talk(peer)


def test_a_client_that_says_nothing_is_closed_like_an_idle_one() -> None:
    """uvicorn alone would keep it for ever."""

    async def peer(port: Port) -> None:
        assert await rest(port.reader) == b""

    talk(peer, keep_alive_s=0)


def test_one_connection_above_the_limit_is_turned_away() -> None:
    """It is told so, and counted; the others are served."""

    async def peer(port: Port) -> None:
        await port.ok(GET + b"\r\n")
        other, refused = await asyncio.open_connection("127.0.0.1", port.number)
        assert b"503" in (await rest(other)).splitlines()[0]
        refused.close()
        assert port.turned_away == 1
        await port.ok(GET + b"\r\n")
        assert port.paths == ["/", "/"]

    talk(peer, max_connections=1)
