"""One client's connection, with bounds on what it may hold: bytes, time, and places among the others.

uvicorn itself puts no limit on a request's head, none on a peer that opens connections and says nothing, and takes the
body of a request that asks for an upgrade for the next request.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from gateway.adapters.asgi.outgoing import error_answer
from wire.errors import STATUS, Reason

# Servers in front of us stop at 8 to 64 KiB, and what we pass on is limited by the arms in the same way.
MAX_HEAD: Final = 64 * 1024
HEAD_S: Final = 30.0


class _Refused(Exception):
    """Raised inside the parser, which takes not one more byte of this connection."""


class ClientConnection(HttpToolsProtocol):
    """``max_connections`` and ``on_turned_away`` are set by ``bounded``."""

    max_connections = 0
    on_turned_away: Callable[[], None]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._in_head = True
        self._taken = 0
        self._head_timer: asyncio.TimerHandle | None = None
        self._refusal: tuple[int, Reason, str] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self.on_turned_away()
            message = f"connections: {self.max_connections} are open, which is the limit"
            self._part(503, Reason.NOT_READY, message)
            return
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._start_timer()
        self._taken += len(data)
        super().data_received(data)
        if self._taken > MAX_HEAD and not self.transport.is_closing():
            self._part(*_too_large())

    def on_message_begin(self) -> None:
        self._start_timer()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._in_head = False
        self._taken = 0
        if self.parser.should_upgrade() or any(name == b"upgrade" for name, _ in self.headers):
            message = "Upgrade is not supported: HTTP/1.1 without upgrade"
            self._refusal = (STATUS[Reason.BAD_REQUEST], Reason.BAD_REQUEST, message)
            raise _Refused
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MAX_HEAD:
            self._refusal = _too_large()
            raise _Refused
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        # What is left to count is what no application sees: chunk extensions and trailers.
        self._taken = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        # What follows in the same read belongs to the next message and is not counted; that is one read at most.
        self._in_head = True
        self._taken = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """uvicorn's call when the parser has stopped, be it at an error or at a refusal of ours."""
        self._part(*(self._refusal or (STATUS[Reason.BAD_REQUEST], Reason.BAD_REQUEST, msg)))

    def _start_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_S, self._head_is_late)

    def _stop_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self._is_answering():
            self._start_timer()  # the request before it still needs the connection
        else:
            self.timeout_keep_alive_handler()

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _part(self, status: int, reason: Reason, message: str) -> None:
        """A last word, unless an answer is on its way already, and the end of the connection."""
        if not self._is_answering():
            path = getattr(self, "url", b"").decode("latin-1")
            _, headers, body = error_answer(path, reason, message, None)
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            self.transport.write(STATUS_LINE[status] + lines + b"connection: close\r\n\r\n" + body)
        self._stop_timer()
        self.transport.close()


def bounded(max_connections: int, on_turned_away: Callable[[], None]) -> type[ClientConnection]:
    """The protocol class for one port; uvicorn makes an object of it for each connection.

    ``on_turned_away`` is called for each connection beyond ``max_connections``.
    """
    values = {"max_connections": max_connections, "on_turned_away": staticmethod(on_turned_away)}
    return type("Connection", (ClientConnection,), values)


def _too_large() -> tuple[int, Reason, str]:
    return 431, Reason.BAD_REQUEST, f"headers: larger than the {MAX_HEAD} bytes that are allowed"
