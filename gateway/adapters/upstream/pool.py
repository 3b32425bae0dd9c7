"""The connections to one arm for one lane: who gets one, who waits, when they end."""

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from typing import Final

from gateway.adapters.upstream.connection import NOBODY, Connection, PooledLeg
from gateway.adapters.upstream.sweeper import FOREVER, Sweeper
from gateway.core.classify import Loss
from gateway.core.leg import Outgoing, Owner, Patience
from gateway.core.snapshot import ArmSnapshot

LOCAL_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
"""What this process or its machine has run out of; they say nothing of the arm."""


class Pool:
    """The connections to one arm for one lane. ``reconfigure`` follows the routing snapshot.

    ``on_local`` is told of each connection that the gateway's own shortage kept from being opened.
    """

    def __init__(
        self,
        arm: ArmSnapshot,
        sweeper: Sweeper,
        loop: asyncio.AbstractEventLoop,
        on_local: Callable[[OSError], None],
    ) -> None:
        self.arm = arm
        self.sweeper = sweeper
        self._loop = loop
        self._on_local = on_local
        self._idle: deque[Connection] = deque()
        self._connections: set[Connection] = set()
        self._connecting: dict[PooledLeg, asyncio.Task[None]] = {}
        self._waiting: deque[PooledLeg] = deque()
        self._legs: set[PooledLeg] = set()
        self._changed = asyncio.Event()
        self._retired = False
        sweeper.watch(self)

    @property
    def in_flight(self) -> int:
        return len(self._legs)

    @property
    def connections(self) -> int:
        return len(self._connections) + len(self._connecting)

    def now(self) -> float:
        return self.sweeper.clock.monotonic()

    def reconfigure(self, arm: ArmSnapshot) -> bool:
        """Take over limits and time-outs; False when the arm lives elsewhere, so that a new pool is needed."""
        same_place = (arm.host, arm.port) == (self.arm.host, self.arm.port)
        if same_place:
            self.arm = arm
        return same_place

    def send(self, request: Outgoing, patience: Patience, owner: Owner) -> PooledLeg:
        """Send now, when a connection is or becomes free, or never; ``owner`` is told."""
        now = self.now()
        leg = PooledLeg(self, request, owner, patience, now)
        self._legs.add(leg)
        self.sweeper.due(min(leg.first_byte_due, leg.total_due))
        while self._idle:
            connection = self._idle.pop()
            if not connection.transport.is_closing() and now - connection.idle_since < self.arm.keepalive_s:
                if not connection.begin(leg):
                    self._idle.append(connection)
                return leg
            connection.close()
        self._connect_or_wait(leg)
        return leg

    def _connect_or_wait(self, leg: PooledLeg) -> None:
        if self.connections < self.arm.max_connections:
            self.connect(leg)
        else:
            self._waiting.append(leg)

    def connect(self, leg: PooledLeg) -> None:
        """Open a connection for ``leg``."""
        leg.connect_due = self.now() + self.arm.connect_s
        self.sweeper.due(leg.connect_due)
        self._connecting[leg] = self._loop.create_task(self._connect(leg))

    async def _connect(self, leg: PooledLeg) -> None:
        connection = Connection(self)
        try:
            await self._loop.create_connection(lambda: connection, self.arm.host, self.arm.port)
        except asyncio.CancelledError:
            connection.close()  # it may just have been made
            raise
        except Exception as error:  # whatever it is, a host name that is none included: the leg must not wait for it
            self._connecting.pop(leg, None)
            self.lost(leg, self._why(error, leg))
            self._next()
            return
        self._connecting.pop(leg, None)
        self._connections.add(connection)
        if not leg.is_open or not connection.begin(leg):
            self._reuse(connection)

    def _why(self, error: Exception, leg: PooledLeg) -> Loss:
        if not isinstance(error, OSError) or error.errno not in LOCAL_ERRORS:
            return Loss.REFUSED
        self._on_local(error)
        # A copy has no client who waits: it is dropped, like one that was not written because routing changed.
        return Loss.STALE if leg.request.shadow else Loss.LOCAL

    # Ends. Each of these ends a leg exactly once.

    def complete(self, connection: Connection, leg: PooledLeg, *, keep: bool) -> None:
        owner = self._forget(leg)
        if keep and not connection.transport.is_closing():
            self._reuse(connection)
        else:
            connection.leg = None
            connection.close()
        owner.on_complete()

    def lost(self, leg: PooledLeg, loss: Loss) -> None:
        if leg.is_open:
            owner = leg.owner
            self.end(leg)
            owner.on_lost(loss)

    def stale(self, leg: PooledLeg) -> None:
        """The leg was not written and must not be any more."""
        owner = leg.owner
        self.end(leg)
        # Later, because the sender may still be inside ``send``.
        self._loop.call_soon(owner.on_lost, Loss.STALE)

    def end(self, leg: PooledLeg) -> None:
        """The leg is over without an answer: its connection, or the attempt to get one, goes with it."""
        connection = leg.connection
        self._forget(leg)
        if (task := self._connecting.pop(leg, None)) is not None:
            task.cancel()
            self._next()
        if connection is not None:
            connection.leg = None
            connection.close()

    def _forget(self, leg: PooledLeg) -> Owner:
        leg.is_open = False
        self._legs.discard(leg)
        owner, leg.owner = leg.owner, NOBODY
        self.wake()
        if self._retired and not self._legs:
            self.sweeper.forget(self)
        return owner

    def gone(self, connection: Connection) -> None:
        """A connection has closed."""
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._next()

    def _reuse(self, connection: Connection) -> None:
        connection.rest(self.now())
        if self._retired or connection.transport.is_closing():
            connection.close()
            return
        while self._waiting:
            leg = self._waiting.popleft()
            if leg.is_open and connection.begin(leg):
                return
        self._idle.append(connection)
        self.sweeper.due(connection.idle_since + self.arm.keepalive_s)

    def _next(self) -> None:
        """There may be room for another connection."""
        while self._waiting and self.connections < self.arm.max_connections:
            leg = self._waiting.popleft()
            if leg.is_open:
                self.connect(leg)

    def sweep(self, now: float) -> float:
        """End what is overdue; when the next time-out falls."""
        following = FOREVER
        for leg in tuple(self._legs):
            due, loss = leg.due()
            if due <= now:
                self.lost(leg, loss)
            else:
                following = min(following, due)
        while self._idle and now - self._idle[0].idle_since >= self.arm.keepalive_s:
            self._idle.popleft().close()
        if self._idle:
            following = min(following, self._idle[0].idle_since + self.arm.keepalive_s)
        return following

    def recheck(self) -> None:
        for leg in (*self._waiting, *self._connecting):
            if leg.is_open and (self._retired or not leg.owner.may_write()):
                self.stale(leg)
        self._waiting = deque(leg for leg in self._waiting if leg.is_open)

    def retire(self) -> None:
        """Take nothing more. What was written may finish; the rest is for whoever comes in this arm's place."""
        self._retired = True
        self.recheck()
        while self._idle:
            self._idle.popleft().close()
        if not self._legs:
            self.sweeper.forget(self)

    def wake(self) -> None:
        self._changed.set()

    async def changed(self) -> None:
        """Wait until some leg was written or has ended."""
        self._changed.clear()
        await self._changed.wait()
