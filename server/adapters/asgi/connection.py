"""One connection of uvicorn's, with bounds on what a peer may hold: bytes, time, and connections.

uvicorn itself puts no limit on a request's head, none on a peer that opens connections and says nothing, takes the body
of a request that asks for an upgrade for the next request, and trailers for headers.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from server.adapters.asgi.answers import JSON, MAX_BODY
from server.adapters.asgi.leaving import EXTENSION, Leaving
from server.adapters.asgi.lingering import LingeringTransport
from wire.errors import Reason, error_body

# A gateway passes a client's headers on, and servers in front of us stop at 8 to 64 KiB.
MAX_HEAD: Final = 64 * 1024
HEAD_S: Final = 30.0
# A body of 1 MiB in chunks of one byte takes 6 MiB; whoever sends more hides it in chunk extensions or trailers.
MAX_MESSAGE: Final = 8 * 1024 * 1024


class _Refused(Exception):
    """Raised inside the parser, which takes not one more byte of this connection."""


class BoundedConnection(HttpToolsProtocol):
    """``max_connections`` and ``bodies``, of MAX_BODY in the largest one, are set by ``bounded``."""

    max_connections = 0
    bodies = 1.0
    transport: LingeringTransport

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._in_head = True
        self._taken = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._refusal: tuple[int, Reason, str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(LingeringTransport(transport, self.loop, lambda: self._taken > 0))
        if len(self.connections) > self.max_connections:
            self._part(429, Reason.QUEUE_FULL, f"connections: {self.max_connections} are open, which is the limit")
            return
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.transport.lost()
        super().connection_lost(exc)
        if self.cycle is not None:
            Leaving.of(self.cycle.scope).tell()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            self.transport.discard(len(data))
            return
        self._taken += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._taken > MAX_HEAD:
            self._part(*_too_large())
        elif self._taken > MAX_MESSAGE * self.bodies:
            self.transport.close_now()

    def on_message_begin(self) -> None:
        super()._unset_keepalive_if_required()
        self._head_timer = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # what comes behind a body are trailers
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        if self.parser.should_upgrade() or any(name == b"upgrade" for name, _ in self.headers):
            self._refusal = (400, Reason.BAD_REQUEST, "Upgrade is not supported: HTTP/1.1 without upgrade")
            raise _Refused
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD:
            self._refusal = _too_large()
            raise _Refused
        self.scope["extensions"] = {EXTENSION: Leaving()}  # type: ignore[dict-item]  # uvicorn allows plain values only
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        # What follows in the same read belongs to the next message and is not counted; that is one read at most.
        self._in_head = True
        self._taken = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """uvicorn's call when the parser has stopped, be it at an error or at a refusal of ours."""
        self._part(*(self._refusal or (400, Reason.BAD_REQUEST, msg)))

    def _unset_keepalive_if_required(self) -> None:
        """Left as it is by the rest of a body whose answer has gone out: nobody else waits for its end."""
        if self._in_head or self.cycle is None or not self.cycle.response_complete:
            super()._unset_keepalive_if_required()

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _part(self, status: int, reason: Reason, message: str) -> None:
        """A last word, unless an answer is on its way already, and the end of the connection."""
        if self.cycle is None or self.cycle.response_complete:
            body = error_body(getattr(self, "url", b"").decode("latin-1"), reason, message)
            head = b"content-type: %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (JSON.encode(), len(body))
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


def bounded(max_connections: int, max_body: int = MAX_BODY) -> type[BoundedConnection]:
    """The protocol class for one port; uvicorn makes an object of it for each connection."""
    bounds = {"max_connections": max_connections, "bodies": max(1.0, max_body / MAX_BODY)}
    return type("Connection", (BoundedConnection,), bounds)


def _too_large() -> tuple[int, Reason, str]:
    return 431, Reason.BAD_REQUEST, f"headers: larger than the {MAX_HEAD} bytes that are allowed"
