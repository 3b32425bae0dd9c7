"""The droppable lane: copies of requests to the other arm, for evidence and comparison.

A copy has its own connections, never waits for one, and is shed before anything else. Copies to the candidate are
evidence like live requests; copies to the baseline serve comparison alone and stop when it is half busy. While its
noise is measured, by copies of its own requests, half of that room is theirs.
"""

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Final

from gateway.core.budget import Budget
from gateway.core.classify import Loss, copied, is_accepted, is_failure, is_refusal, phase_of
from gateway.core.effects import Standing
from gateway.core.leg import Head, Patience, SentLeg
from gateway.core.snapshot import Answer, Pair, Snapshot
from gateway.core.types import Lane, Outcome, Role, window_of
from gateway.ports import Clock
from gateway.runtime.arms import Arms
from gateway.runtime.books import NOISE, Books
from gateway.runtime.call import Call
from gateway.runtime.routing import Routing
from gateway.runtime.tallies import Tallies
from gateway.runtime.ticket import Ticket
from gateway.runtime.timing import Timing
from gateway.runtime.writes import Writes

MAX_COPIES: Final = 128
MAX_COPY_BYTES: Final = 64 * 1024 * 1024

Emit = Callable[[Pair], bool]
"""Takes a pair to the control process; False when there was no room for it."""


class Shadow:
    """Admits copies within fixed bounds and counts the fate of each."""

    def __init__(
        self,
        *,
        routing: Routing,
        arms: Arms,
        books: Books,
        writes: Writes,
        clock: Clock,
        emit: Emit,
        answer_hold: int,
        max_copies: int = MAX_COPIES,
        max_bytes: int = MAX_COPY_BYTES,
    ) -> None:
        self.routing = routing
        self.arms = arms
        self.books = books
        self.writes = writes
        self.clock = clock
        self.emit = emit
        self.answer_hold = answer_hold
        self.copies = Budget(max_copies)
        self.bytes = Budget(max_bytes)

    def offer(
        self,
        call: Call,
        role: Role,
        tallies: Tallies,
        snapshot: Snapshot,
        arrived: float,
        stratum: int = 0,
        *,
        asks_for_events: bool = False,
        first: bool = False,
        noise: bool = False,
    ) -> "Copy | None":
        """Copy ``call``, of class ``stratum``, to ``role``, or say in the counts why not.

        first: it is sent before what it copies. noise: ``role`` is the baseline, which serves the request, too.
        """
        fate = self._obstacle(role, tallies, snapshot, arrived, stratum, noise=noise)
        if fate is None and not self.copies.take(1):
            fate = "overflow"
        # Both answers are kept until they are compared.
        size = len(call.outgoing.body) + 2 * self.answer_hold
        if fate is None and not self.bytes.take(size):
            self.copies.give(1)
            fate = "overflow_bytes"
        if fate is not None:
            if fate != "absent":
                self.books.copy(tallies, NOISE if noise else role, fate)
            return None
        ticket = tallies.open(
            role, Lane.COPY, arrived, self.clock.monotonic(), stratum, asks_for_events=asks_for_events
        )
        copy = Copy(self, call, role, tallies, snapshot, arrived, size, stratum, ticket, first=first, noise=noise)
        copy.send()
        return copy

    def _obstacle(
        self, role: Role, tallies: Tallies, snapshot: Snapshot, arrived: float, stratum: int, *, noise: bool
    ) -> str | None:
        busy = self.arms.in_flight(role, Lane.LIVE, Lane.COPY)
        arm = snapshot.arm(role)
        if not self.routing.may_write(snapshot.epoch, arm, Lane.COPY) and not self.routing.tripped:
            return "stale"
        if self.arms.in_flight(role, Lane.COPY) >= arm.max_connections:
            return "overflow"
        if role is Role.BASELINE:
            spare = arm.max_in_flight / (2 if noise or not snapshot.noise_copies else 4)
            free = self.routing.baseline_is_ready and busy < spare
            return None if free else "busy"
        match self.routing.candidate_standing(busy):
            case Standing.ABLE:
                return None
            case Standing.FULL:
                return "saturated"
            case Standing.ABSENT:
                return "absent"
            case Standing.UNREADY | Standing.TRIPPED:
                self.books.book(tallies, Role.CANDIDATE, Lane.COPY, arrived, Outcome.UNAVAILABLE, stratum)
                return "unavailable"


class Copy:
    """One copy. It ends when both its own answer and the live one are known; then the two are a pair."""

    def __init__(
        self,
        shadow: Shadow,
        call: Call,
        role: Role,
        tallies: Tallies,
        snapshot: Snapshot,
        arrived: float,
        size: int,
        stratum: int,
        ticket: Ticket,
        *,
        first: bool,
        noise: bool,
    ) -> None:
        self._shadow = shadow
        self._call = call
        self._role = role
        self._tallies = tallies
        self._snapshot = snapshot
        self._arrived = arrived
        self._reserved = size
        self._stratum = stratum
        self._arm = snapshot.arm(role)
        self._ticket = ticket
        self._is_sent = False
        self._leg: SentLeg | None = None
        self._head: Head | None = None
        self._body: list[bytes] = []
        self._size = 0
        self._loss: Loss | None = None
        self._live_known = False
        self._live_status: int | None = None
        self._live: Answer | None = None
        self._served = role if noise else role.other
        self._noise = noise
        self._direction = NOISE if noise else role
        self._sent: float | None = None
        self.timing: Timing | None = None
        if not noise:
            self.timing = Timing(tallies, arrived, candidate_first=first is (role is Role.CANDIDATE))

    def send(self) -> None:
        arm = self._arm
        # Without the client's deadline: nobody waits for a copy, and its latency is judged by the limits.
        outgoing = replace(self._call.outgoing, shadow=True, deadline_s=None)
        pool = self._shadow.arms.pool(self._role, Lane.COPY)
        self._leg = pool.send(outgoing, Patience(arm.first_byte_s, arm.total_s), self)

    def live_answered(self, status: int | None, answer: Answer | None, served: Role) -> None:
        """What the other arm said to the client's request.

        status: None when it gave no answer. answer: all of it; None when there is nothing to compare with.
        """
        self._live_known, self._live_status, self._live, self._served = True, status, answer, served
        self._finish()

    # The owner of the copy's leg.

    def may_write(self) -> bool:
        return self._shadow.routing.may_write(self._snapshot.epoch, self._arm, Lane.COPY)

    def on_written(self) -> None:
        shadow = self._shadow
        if not self._is_sent:
            shadow.books.copy(self._tallies, self._direction, "sent")
        self._is_sent = True  # a second time it is the same copy on a fresh connection
        self._sent = shadow.clock.monotonic() if self._leg is None else None
        shadow.writes.wrote(self._role, self._arm.name, Lane.COPY, self._call.request_id, self._snapshot.epoch)

    def on_head(self, head: Head) -> None:
        self._head = head
        if head.event_stream and is_accepted(head.status):
            self._tallies.begin_stream(
                self._ticket, framed=not head.encoded, compiles=head.compiles, compiled=head.compiled
            )

    def on_body(self, data: bytes) -> None:
        self._tallies.took(self._ticket, data, self._shadow.clock.monotonic())
        self._size += len(data)
        if self._size <= self._shadow.answer_hold:
            self._body.append(data)
        else:
            self._body.clear()  # too large to be compared; read on, because its time is evidence

    def on_complete(self) -> None:
        self._end(None)

    def on_lost(self, loss: Loss) -> None:
        self._end(loss)

    def _end(self, loss: Loss | None) -> None:
        self._loss = loss
        now = self._shadow.clock.monotonic()
        self._ticket.end(now)
        if loss is None and self._head is not None and self.timing is not None:
            self.timing.answered(self._role, self._head, self._sent, now)
        refused = loss is None and self._head is not None and is_refusal(self._head.status)
        if not refused and not self._live_known:
            self._book()  # only a refusal has to wait for what the other arm says
        self._finish()

    def _finish(self) -> None:
        if self._ticket.ended is None or not self._live_known:
            return
        self._book()
        shadow = self._shadow
        shadow.copies.give(1)
        shadow.bytes.give(self._reserved)
        if (pair := self._pair()) is not None:
            shadow.books.copy(self._tallies, self._direction, "pair" if shadow.emit(pair) else "pair_dropped")

    def _book(self) -> None:
        """Once: the ticket is closed the first time."""
        if not self._ticket.is_open:
            return
        assert self._ticket.ended is not None
        shadow = self._shadow
        if self._loss is Loss.STALE:
            self._tallies.drop(self._ticket)
            shadow.books.copy(self._tallies, self._direction, "stale")
            return
        outcome = self._outcome()
        shadow.books.copy(self._tallies, self._direction, str(outcome))
        if self._role is Role.BASELINE and outcome is not Outcome.SHED:
            self._tallies.drop(self._ticket)
            return
        head = self._head
        shadow.books.close(
            self._tallies,
            self._ticket,
            self._role,
            outcome,
            self._ticket.ended,
            at=shadow.clock.wall(),
            compiles=head.compiles if head is not None else 0,
            compiled=head.compiled if head is not None else (),
            phase=phase_of(self._loss, answering=head is not None) if outcome is Outcome.FAILED else None,
        )

    def _outcome(self) -> Outcome:
        if self._loss is Loss.TOTAL_TIMEOUT and self._is_stream():
            return Outcome.CANCELLED  # a client's stream has no total limit; a copy's ends where nobody would miss it
        if self._loss is not None or self._head is None:
            return Outcome.FAILED
        return copied(self._head.status, self._live_status)

    def _is_stream(self) -> bool:
        """Whether a client would have got this answer as it came."""
        return self._head is not None and (self._head.event_stream or self._size > self._shadow.answer_hold)

    def _pair(self) -> Pair | None:
        """Both answers; None when one side failed, is compressed, or was too large to keep."""
        head, live = self._head, self._live
        if live is None or head is None or self._loss is not None or head.encoded:
            return None
        if is_failure(head.status) or is_failure(live.status) or self._size > self._shadow.answer_hold:
            return None
        copy = Answer(status=head.status, content_type=head.content_type, body=b"".join(self._body))
        by_baseline = self._noise or self._role is Role.CANDIDATE
        return Pair(
            epoch=self._snapshot.epoch,
            window=window_of(self._arrived, self._snapshot.window_s),
            request_id=self._call.request_id,
            path=self._call.path,
            served=self._served,
            body_hash=blake2b(self._call.outgoing.body, digest_size=16).digest(),
            baseline=live if by_baseline else copy,
            candidate=copy if by_baseline else live,
            stratum=self._stratum,
            noise=self._noise,
        )
