"""A real uvicorn on port zero, started and closed by us."""

import asyncio
import signal
import socket
from typing import Any

import pytest

from server.adapters.asgi.listen import UvicornListener, accepted_by_the_kernel, bind


class App:
    """Answers when ``release`` is set; ``asked`` tells that a request is inside."""

    def __init__(self) -> None:
        self.asked, self.release = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked.set()
        await self.release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def ask(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    try:
        return await reader.readuntil(b"ok")
    finally:
        writer.close()


def test_closing_finishes_what_was_accepted() -> None:
    """The request inside gets its answer; nobody is let in meanwhile."""

    async def scenario() -> None:
        app = App()
        listener = UvicornListener(app, bind("127.0.0.1", 0), max_connections=8)
        task = await listener.start()
        port = listener.port
        asked = asyncio.create_task(ask(port))
        await app.asked.wait()
        closing = asyncio.create_task(listener.close(20))
        await wait_closed(port)
        assert not asked.done()
        app.release.set()
        async with asyncio.timeout(20):
            assert (await asked).startswith(b"HTTP/1.1 200")
            assert await closing == 0
        assert task.done()

    asyncio.run(scenario())


async def wait_closed(port: int) -> None:
    """Returns when the port refuses; a connection that it took last is put away."""
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await asyncio.sleep(0.01)
            except ConnectionError:
                return


def test_a_connection_that_is_open_may_still_bring_its_request() -> None:
    """The port is closed already, and the request is answered."""

    async def scenario() -> None:
        app = App()
        app.release.set()
        listener = UvicornListener(app, bind("127.0.0.1", 0), max_connections=8, linger_s=20)
        await listener.start()
        port = listener.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        closing = asyncio.create_task(listener.close(20))
        await wait_closed(port)
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        async with asyncio.timeout(20):
            assert (await reader.read()).endswith(b"ok")
            writer.close()
            await closing

    asyncio.run(scenario())


def test_connections_in_the_kernels_queue_are_taken_out() -> None:
    """All of them, in order; then there are none."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        clients = [socket.create_connection(listening.getsockname()) for _ in range(3)]
        taken = accepted_by_the_kernel(listening)
        assert [each.getpeername() for each in taken] == [each.getsockname() for each in clients]
        assert accepted_by_the_kernel(listening) == []
        for each in (*clients, *taken):
            each.close()


def test_a_request_that_never_ends_is_cut_off_at_the_limit() -> None:
    """Closing does not wait for ever."""

    async def scenario() -> None:
        app = App()
        listener = UvicornListener(app, bind("127.0.0.1", 0), max_connections=8)
        await listener.start()
        asked = asyncio.create_task(ask(listener.port))
        await app.asked.wait()
        async with asyncio.timeout(20):
            assert await listener.close(1) == 1
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError, AssertionError)):
                assert (await asked).startswith(b"HTTP/1.1 200")

    asyncio.run(scenario())


def test_hurrying_ends_the_wait_for_requests_and_counts_them() -> None:
    """An hour of waiting ends at once, in the linger as well as behind it."""

    async def scenario() -> None:
        app = App()
        listener = UvicornListener(app, bind("127.0.0.1", 0), max_connections=8, linger_s=3600)
        await listener.start()
        asked = asyncio.create_task(ask(listener.port))
        await app.asked.wait()
        closing = asyncio.create_task(listener.close(3600))
        await asyncio.sleep(0)
        assert not closing.done()
        listener.hurry()
        async with asyncio.timeout(20):
            assert await closing == 1
        app.release.set()
        await asyncio.gather(asked, return_exceptions=True)

    asyncio.run(scenario())


def test_signals_stay_ours() -> None:
    """Starting a listener leaves the process's handlers alone."""

    async def scenario() -> None:
        before = signal.getsignal(signal.SIGTERM)
        listener = UvicornListener(App(), bind("127.0.0.1", 0), max_connections=8)
        await listener.start()
        assert signal.getsignal(signal.SIGTERM) is before
        await listener.close(1)

    asyncio.run(scenario())


def test_a_listener_that_never_started_closes_without_a_word() -> None:
    """A failed start leads here too."""

    async def scenario() -> None:
        bound = bind("127.0.0.1", 0)
        listener = UvicornListener(App(), bound, max_connections=8)
        listener.hurry()
        assert await listener.close(1) == 0
        bound.close()

    asyncio.run(scenario())


def test_a_taken_port_is_an_oserror() -> None:
    """And its half-made socket is closed."""
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", taken.getsockname()[1])
