"""One request on its way to one arm: what the proxy and a connection pool say to one another.

A *leg* is one sending of a request to one arm; a client's request has one leg, or two after a failure or a refusal.
"""

from dataclasses import dataclass
from typing import Protocol

from gateway.core.classify import Loss
from gateway.core.snapshot import ArmSnapshot

Headers = list[tuple[bytes, bytes]]
"""Names in lower case."""


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """A request without what depends on the arm.

    target: path and query as the client sent them.
    header_block: header lines, each with its CRLF, hop-by-hop and gateway headers removed.
    body: all of it, or its beginning when ``more`` comes through ``SentLeg.feed``.
    length: of the whole body; None when it has none or is sent in chunks.
    deadline_s: what is left of the client's deadline, None when it gave none.
    """

    method: str
    target: bytes
    header_block: bytes
    body: bytes
    length: int | None
    more: bool = False
    epoch: int
    shadow: bool = False
    deadline_s: float | None = None


@dataclass(slots=True)
class Head:
    """Status line and headers of an arm's answer.

    content_type: as sent, and how much of the body is JSON where the arm says so (core/compare/framing.py).
    length: of the body when declared. compiles: programs this answer caused to be compiled or waited behind.
    event_stream: server-sent events. encoded: the body is compressed. compiled: the shapes of those programs, as far
        as the arm names them.
    """

    status: int
    headers: Headers
    content_type: str
    length: int | None
    compiles: int
    event_stream: bool
    encoded: bool
    compiled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait, in seconds from when the whole request was sent: for the answer's first byte, and all of it."""

    first_byte_s: float
    total_s: float


class Owner(Protocol):
    """Whom a pool tells what becomes of a leg. After ``on_complete`` or ``on_lost`` nothing more is told."""

    def may_write(self) -> bool:
        """Asked at the moment of writing; False: the leg ends with Loss.STALE and not a byte is written."""
        ...

    def on_written(self) -> None: ...

    def on_head(self, head: Head) -> None: ...

    def on_body(self, data: bytes) -> None: ...

    def on_complete(self) -> None: ...

    def on_lost(self, loss: Loss) -> None: ...


class SentLeg(Protocol):
    """A leg as its owner holds it. Every method is harmless after the end of the leg."""

    def cancel(self) -> None:
        """The answer is not wanted any more: the connection is closed, so that the arm notices."""
        ...

    def discard(self) -> None:
        """The rest of the answer is not wanted; the connection may be used again when little is left of it."""
        ...

    def lift_total(self) -> None:
        """The answer is passed on as it comes: from here on only the time between two pieces is limited."""
        ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    async def feed(self, data: bytes, *, last: bool) -> bool:
        """More of the request's body. Waits while the arm does not take it; False when the leg ended before."""
        ...


class Upstream(Protocol):
    """The connections to one arm for one lane."""

    @property
    def arm(self) -> ArmSnapshot:
        """Where the connections lead."""
        ...

    @property
    def in_flight(self) -> int: ...

    @property
    def connections(self) -> int: ...

    def send(self, request: Outgoing, patience: Patience, owner: Owner) -> SentLeg:
        """Never calls ``owner`` with ``on_lost`` or ``on_complete`` before it has returned."""
        ...

    def reconfigure(self, arm: ArmSnapshot) -> bool:
        """Take over limits and time-outs; False when the arm lives elsewhere, so that a new pool is needed."""
        ...

    def recheck(self) -> None:
        """Ask every owner of a leg that waits for a connection whether it may still be written."""
        ...

    def retire(self) -> None:
        """Take nothing more. What was written may finish; what was not ends with Loss.STALE."""
        ...
