"""One connection to an arm, and one request on it.

Rules of the protocol kept here (RFC 9112): a connection carries one request at a time; what follows the end of an
answer closes the connection and goes nowhere (9.2, response splitting); an answer without length and not chunked ends
with the connection (6.3); interim answers are skipped (RFC 9110 15.2). A kept connection that dies before the first
byte of an answer was most likely closed by the arm while idle: the request is sent once more on a fresh one (9.3.1).
"""

import asyncio
from typing import Final, Protocol, cast

import httptools

from gateway.adapters.upstream.messages import framed, read_head, request_head
from gateway.adapters.upstream.sweeper import FOREVER, Sweeper
from gateway.core.classify import Loss
from gateway.core.leg import Head, Headers, Outgoing, Owner, Patience
from gateway.core.snapshot import ArmSnapshot

MAX_HEAD: Final = 64 * 1024
"""Bytes of status line and headers; an arm that sends more sends garbage."""
MAX_DISCARD: Final = 64 * 1024
"""An unwanted answer of at most this length is read to its end, so that its connection can be used again."""
_JOIN: Final = 64 * 1024


class Home(Protocol):
    """What a connection and a leg need of their pool."""

    arm: ArmSnapshot
    sweeper: Sweeper

    def now(self) -> float: ...

    def connect(self, leg: "PooledLeg") -> None: ...

    def complete(self, connection: "Connection", leg: "PooledLeg", *, keep: bool) -> None: ...

    def lost(self, leg: "PooledLeg", loss: Loss) -> None: ...

    def stale(self, leg: "PooledLeg") -> None: ...

    def end(self, leg: "PooledLeg") -> None: ...

    def gone(self, connection: "Connection") -> None: ...

    def wake(self) -> None: ...

    async def changed(self) -> None: ...


class Nobody:
    """Takes the rest of an answer that nobody wants."""

    def may_write(self) -> bool:
        return False

    def on_written(self) -> None: ...

    def on_head(self, head: Head) -> None: ...

    def on_body(self, data: bytes) -> None: ...

    def on_complete(self) -> None: ...

    def on_lost(self, loss: Loss) -> None: ...


NOBODY: Final = Nobody()


class PooledLeg:
    """One request in a pool: waiting, being written, or being answered."""

    __slots__ = (
        "connect_due",
        "connection",
        "fed",
        "first_byte_due",
        "first_byte_s",
        "heard_at",
        "idle_s",
        "is_open",
        "owner",
        "paused",
        "pool",
        "request",
        "retried",
        "taking_due",
        "total_due",
        "total_s",
    )

    def __init__(self, pool: Home, request: Outgoing, owner: Owner, patience: Patience, now: float) -> None:
        self.pool = pool
        self.request = request
        self.owner = owner
        self.connection: Connection | None = None
        self.first_byte_s = patience.first_byte_s
        self.first_byte_due = now + patience.first_byte_s
        self.total_s = patience.total_s
        self.total_due = now + patience.total_s
        self.taking_due = FOREVER
        self.connect_due = FOREVER
        self.idle_s = pool.arm.idle_s
        self.heard_at: float | None = None
        self.paused = False
        self.retried = False
        self.fed = not request.more
        self.is_open = True

    def due(self) -> tuple[float, Loss]:
        """When the next time-out falls, and which."""
        if self.connection is not None and not self.fed:
            # The client is still sending: the arm cannot answer what it has not got, but it has to take what comes.
            return self.taking_due, Loss.IDLE_TIMEOUT
        if self.heard_at is None:
            candidates = [(self.first_byte_due, Loss.FIRST_BYTE_TIMEOUT), (self.connect_due, Loss.CONNECT_TIMEOUT)]
        elif self.paused:
            candidates = []  # the client is slow, not the arm
        else:
            candidates = [(self.heard_at + self.idle_s, Loss.IDLE_TIMEOUT)]
        return min([*candidates, (self.total_due, Loss.TOTAL_TIMEOUT)])

    def cancel(self) -> None:
        if self.is_open:
            self.owner = NOBODY
            self.pool.end(self)

    def discard(self) -> None:
        if self.is_open:
            self.owner = NOBODY
            if self.connection is None or not self.connection.has_little_left():
                self.pool.end(self)

    def lift_total(self) -> None:
        self.total_s = self.total_due = FOREVER

    def pause(self) -> None:
        if self.is_open and not self.paused and self.connection is not None:
            self.paused = True
            self.connection.pause()

    def resume(self) -> None:
        if self.is_open and self.paused and self.connection is not None:
            self.paused = False
            self.heard_at = self.pool.now()
            self.connection.resume()
            self.pool.sweeper.due(self.heard_at + self.idle_s)

    async def feed(self, data: bytes, *, last: bool) -> bool:
        while self.is_open and (self.connection is None or not self.connection.is_written):
            await self.pool.changed()
        if not self.is_open or self.connection is None:
            return False
        now = self.pool.now()
        if last:
            self.fed = True
            # The arm's time runs from the last piece.
            self.first_byte_due, self.total_due = now + self.first_byte_s, now + self.total_s
            if self.heard_at is not None:
                self.heard_at = now
            self.pool.sweeper.due(self.due()[0])
        else:
            self.taking_due = now + self.idle_s
            self.pool.sweeper.due(self.taking_due)
        await self.connection.feed(self, data, last=last)
        self.taking_due = FOREVER
        return True


class Connection(asyncio.Protocol):
    def __init__(self, pool: Home) -> None:
        self.pool = pool
        self.transport: asyncio.Transport
        self.leg: PooledLeg | None = None
        self.is_made = False
        self.is_reused = False
        self.is_written = False
        self.idle_since = 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_paused = False
        self._forget_answer()

    def _forget_answer(self) -> None:
        self._headers: Headers = []
        self._received = 0
        self._head: Head | None = None
        self._new_head: Head | None = None
        self._body: list[bytes] = []
        self._left: int | None = None
        self._interim = False
        self._until_close = False
        self._is_garbage = False
        self._finished = False
        self._keep = False
        self._trailing = False

    # Sending.

    def begin(self, leg: PooledLeg) -> bool:
        """Write the request; False when it has become stale while it waited, and this connection is still free."""
        if not leg.owner.may_write():
            self.pool.stale(leg)
            return False
        leg.connection, self.leg = self, leg
        leg.connect_due = FOREVER
        request = leg.request
        head = request_head(request, self.pool.arm)
        if len(request.body) <= _JOIN:
            self.transport.write(head + framed(request, request.body))
        else:
            self.transport.write(head)
            self.transport.write(framed(request, request.body))
        self.is_written = True
        leg.owner.on_written()
        if request.more:
            self.pool.wake()
        return True

    async def feed(self, leg: PooledLeg, data: bytes, *, last: bool) -> None:
        if self.leg is not leg or self.transport.is_closing():
            return
        request = leg.request
        self.transport.write(framed(request, data) + (b"0\r\n\r\n" if last and request.length is None else b""))
        await self._writable.wait()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # Receiving.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.is_made = True

    def data_received(self, data: bytes) -> None:
        leg = self.leg
        if leg is None:
            self.close()  # an answer to nothing
            return
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._trailing = True
            if not self._finished:
                return self.pool.lost(leg, Loss.GARBAGE)
        except httptools.HttpParserError:
            self._trailing = True
            if not self._finished:
                return self.pool.lost(leg, Loss.GARBAGE)
        if self._is_garbage or (not self._has_head and self._received > MAX_HEAD):
            return self.pool.lost(leg, Loss.GARBAGE)
        self._tell(leg)

    @property
    def _has_head(self) -> bool:
        return self._head is not None or self._new_head is not None

    def _tell(self, leg: PooledLeg) -> None:
        """Hand on what the parser found, outside of its call-backs: an error in there must not look like garbage."""
        if (head := self._new_head) is not None:
            self._new_head, self._head = None, head
            leg.heard_at = self.pool.now()
            self.pool.sweeper.due(leg.heard_at + leg.idle_s)
            leg.owner.on_head(head)
        elif self._head is not None:
            leg.heard_at = self.pool.now()
        if self._body:
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            self._body.clear()
            if leg.is_open:
                leg.owner.on_body(body)
        if self._finished and leg.is_open:
            self.pool.complete(self, leg, keep=self._keep and not self._trailing and leg.fed)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._writable.set()
        self.pool.gone(self)
        leg = self.leg
        if leg is None or not leg.is_open:
            return
        if exc is None and self._until_close and self._head is not None:
            self.pool.complete(self, leg, keep=False)
        elif self.is_reused and self._received == 0 and not leg.request.more and not leg.retried:
            leg.retried = True
            self.leg, leg.connection = None, None
            self.pool.connect(leg)
        else:
            self.pool.lost(leg, Loss.RESET)

    # The parser's call-backs.

    def on_message_begin(self) -> None:
        if self._finished:
            self._trailing = True
            return
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        # After the head come trailers, which must not be merged into it unasked (RFC 9110 6.5.1): they are dropped.
        if not self._finished and not self._has_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._finished or self.leg is None:
            return
        status = self._parser.get_status_code()
        self._is_garbage = not 100 <= status < 600
        self._interim = status < 200
        if self._interim:
            return
        head, chunked = read_head(status, self._headers)
        self._new_head = head
        self._left = head.length
        bodiless = self.leg.request.method == "HEAD" or status in (204, 304)
        self._until_close = not bodiless and head.length is None and not chunked
        if self.leg.request.method == "HEAD":
            # The parser does not know that there is no body, so it cannot go on with this connection.
            self._finished, self._trailing = True, True

    def on_body(self, data: bytes) -> None:
        if self._finished or self._interim:
            return
        if self._left is not None:
            self._left -= len(data)
        self._body.append(data)

    def on_message_complete(self) -> None:
        if self._interim or self._finished:
            return
        self._finished = True
        self._keep = self._parser.should_keep_alive()  # only true in here: afterwards the parser has forgotten

    # Life.

    def has_little_left(self) -> bool:
        return self._finished or (self._left is not None and self._left <= MAX_DISCARD)

    def rest(self, now: float) -> None:
        """The answer is complete; the connection can take another request."""
        self.leg = None
        self.resume()
        self.is_reused, self.is_written = True, False
        self.idle_since = now
        self._forget_answer()

    def pause(self) -> None:
        if not self._is_paused and not self.transport.is_closing():
            self._is_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        if self._is_paused and not self.transport.is_closing():
            self._is_paused = False
            self.transport.resume_reading()

    def close(self) -> None:
        """At once, so that the arm notices and what it still sends goes nowhere."""
        if self.is_made and not self.transport.is_closing():
            self.transport.abort()
