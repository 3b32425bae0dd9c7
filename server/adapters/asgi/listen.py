"""uvicorn on a socket that is already bound, without its signal handling.

uvicorn's own closes the listeners at the first signal and exits with 143; when to stop is decided by the drain.
"""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from typing import Any, Final

import uvicorn

from server.adapters.asgi.answers import MAX_BODY
from server.adapters.asgi.connection import bounded
from server.adapters.asgi.head import HeadAsGet

# Longer than a client's pool keeps a connection, so that it is the client who closes an idle one.
KEEP_ALIVE_S: Final = 75
BACKLOG: Final = 1024


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.linger_s = 0.0
        self.cut_off = 0

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Closes the port, then waits a moment for requests on connections that are open already.

        uvicorn would cut a connection whose request is still on its way.
        """
        waiting = [connection for each in sockets or [] for connection in accepted_by_the_kernel(each)]
        for server in self.servers:
            server.close()
        for each in sockets or []:
            each.close()
        loop = asyncio.get_running_loop()
        for connection in waiting:
            await loop.connect_accepted_socket(self._protocol, connection)
        end = loop.time() + self.linger_s
        connections = self.server_state.connections
        while connections and loop.time() < end and not self.force_exit:  # noqa: ASYNC110  # uvicorn has no event for it
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)

    async def _wait_tasks_to_complete(self) -> None:
        """Counts whom the wait ends without: at the time limit uvicorn cancels it, and then them."""
        try:
            await super()._wait_tasks_to_complete()
        finally:
            self.cut_off = len(self.server_state.tasks)

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]  # as uvicorn calls it
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


class UvicornListener:
    """A Listener (see runtime.drain) for one ASGI app on one bound socket.

    ``linger_s`` is how long open connections may still bring a request after the port was closed.
    """

    def __init__(
        self,
        app: Any,
        bound: socket.socket,
        *,
        max_connections: int,
        max_body: int = MAX_BODY,
        linger_s: float = 0.0,
    ) -> None:
        self._protocol = bounded(max_connections, max_body)
        self._linger_s = linger_s
        self._app = app
        self._bound = bound
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        number: int = self._bound.getsockname()[1]
        return number

    async def start(self) -> "asyncio.Task[None]":
        """Returns once connections are accepted; the task ends when the port is closed."""
        config = uvicorn.Config(
            HeadAsGet(self._app),
            access_log=False,
            backlog=BACKLOG,
            http=self._protocol,
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            ws="none",
        )
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[self._bound]), name="listen")
        opened = asyncio.create_task(self._server.listening.wait())
        await asyncio.wait({self._task, opened}, return_when=asyncio.FIRST_COMPLETED)
        if not opened.done():
            opened.cancel()
            await self._task
        return self._task

    async def close(self, limit_s: float) -> int:
        """See Listener."""
        if self._server is None or self._task is None:
            return 0
        # A whole number by its annotation; the event loop that gets it takes fractions.
        self._server.config.timeout_graceful_shutdown = max(1, round(limit_s))
        self._server.linger_s = min(self._linger_s, limit_s)
        self._server.should_exit = True
        await self._task
        return self._server.cut_off

    def hurry(self) -> None:
        """See Listener."""
        if self._server is not None:
            self._server.force_exit = True


def accepted_by_the_kernel(listening: socket.socket) -> list[socket.socket]:
    """Connections that stand in the socket's queue. Closing it would reset them, with the request inside."""
    found: list[socket.socket] = []
    while True:
        try:
            connection, _ = listening.accept()
        except ConnectionError:  # this one went away while it stood there
            continue
        except OSError:  # none is left
            return found
        connection.setblocking(False)
        found.append(connection)


def bind(host: str, port: int) -> socket.socket:
    """A TCP socket that listens on ``host``; port 0 lets the system choose. Raises OSError.

    Until it listens, others may bind the same port.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    bound.setblocking(False)
    return bound
