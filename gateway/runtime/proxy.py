"""Runs exchanges: takes their effects to the pools, the books, the shadow lane and the waiting client."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gateway.core import split
from gateway.core.classify import Loss
from gateway.core.effects import (
    Answer,
    Book,
    Break,
    Cancel,
    CopyTo,
    Discard,
    Drop,
    Effects,
    EndStream,
    Fail,
    FailedOver,
    FailReason,
    Instead,
    Leg,
    Saw,
    Send,
    Standing,
    Stream,
)
from gateway.core.exchange import Exchange, State, Terms
from gateway.core.leg import Head, SentLeg
from gateway.core.snapshot import Answer as SideAnswer
from gateway.core.snapshot import Snapshot
from gateway.core.split import Purpose
from gateway.core.types import OUTCOME_COUNT, Count, Lane, Role
from gateway.ports import Clock
from gateway.runtime.arms import Arms
from gateway.runtime.books import Books
from gateway.runtime.call import AnswerStream, Call, Failure, Reply, Streamed, Whole
from gateway.runtime.routing import Route, Routing
from gateway.runtime.shadow import Copy, Shadow
from gateway.runtime.tallies import Ticket
from gateway.runtime.writes import Writes

KEY_BYTES: Final = 16

Draw = Callable[[int], bytes]
"""So many bytes of chance."""


class Proxy:
    """Everything that the request path shares."""

    def __init__(
        self,
        *,
        routing: Routing,
        arms: Arms,
        books: Books,
        shadow: Shadow,
        writes: Writes,
        clock: Clock,
        draw: Draw,
        answer_hold: int,
    ) -> None:
        self.routing = routing
        self.arms = arms
        self.books = books
        self.shadow = shadow
        self.writes = writes
        self.clock = clock
        self.answer_hold = answer_hold
        self._draw = draw

    def take(self, call: Call, route: Route) -> "LiveRequest":
        """Send ``call`` on its way under ``route``; the reply is awaited at what is returned."""
        snapshot = route.snapshot
        assigned, copy = self._assign(call, snapshot)
        terms = Terms(
            judged=call.judged,
            assigned=assigned,
            replayable=call.replayable,
            deadline=None if call.deadline_s is None else self.clock.monotonic() + call.deadline_s,
            slowest_limit_s=route.slowest_limit_s,
            copy=copy and call.replayable,
            baseline=route.baseline,
            candidate=route.candidate,
            answer_hold=self.answer_hold,
        )
        live = LiveRequest(self, call, snapshot, Exchange(terms))
        live.start()
        return live

    def _assign(self, call: Call, snapshot: Snapshot) -> tuple[Role, bool]:
        """The arm and whether the other one gets a copy. Both come from the key alone."""
        if not call.judged or not snapshot.judging or snapshot.candidate is None:
            return Role.BASELINE, False
        key = call.key if call.key is not None else self._draw(KEY_BYTES)
        secret, epoch = snapshot.secret, snapshot.epoch
        role = split.assign(secret, epoch, key, snapshot.weight)
        if role is Role.BASELINE:
            return role, split.sampled(secret, epoch, key, snapshot.copies, Purpose.COPY_TO_CANDIDATE)
        return role, split.sampled(secret, epoch, key, snapshot.reverse_copies, Purpose.COPY_TO_BASELINE)

    def baseline_standing(self) -> Standing:
        return self.routing.baseline_standing(self.arms.in_flight(Role.BASELINE, Lane.LIVE))

    def candidate_standing(self) -> Standing:
        return self.routing.candidate_standing(self.arms.in_flight(Role.CANDIDATE, Lane.LIVE))


class LiveRequest:
    """One client request from its arrival to its end.

    ``reply`` is set once, before or when the answer begins; to None when nobody waits for it any more.
    """

    __slots__ = (
        "_arrived",
        "_copy",
        "_epoch",
        "_legs",
        "_proxy",
        "_snapshot",
        "_stream",
        "_tallies",
        "_ticket",
        "call",
        "exchange",
        "reply",
    )

    def __init__(self, proxy: Proxy, call: Call, snapshot: Snapshot, exchange: Exchange) -> None:
        self._proxy = proxy
        self._snapshot = snapshot
        self._epoch = snapshot.epoch
        self._tallies = proxy.books.current
        self._arrived = proxy.clock.wall()
        self._legs: list[_LiveLeg | None] = [None, None]
        self._ticket: Ticket | None = None
        self._copy: Copy | None = None
        self._stream: AnswerStream | None = None
        self.call = call
        self.exchange = exchange
        self.reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        proxy, terms = self._proxy, self.exchange.terms
        if terms.judged:
            self._tallies.enter(self, self._arrived)
        if terms.judged and not terms.replayable:
            self._tallies.add(terms.assigned, Lane.LIVE, self._arrived, Count.NOT_REPLAYABLE)
        candidate = proxy.candidate_standing() if terms.assigned is Role.CANDIDATE else Standing.ABSENT
        now = proxy.clock.monotonic()
        self.perform(self.exchange.start(now, candidate=candidate, baseline=proxy.baseline_standing()))

    def client_gone(self) -> None:
        """The client does not wait any more; the arm is told by closing its connection."""
        self._give_up(None)

    def body_too_large(self) -> None:
        """The client sends more than is allowed; what an arm has got of it is void."""
        self._give_up(Failure(FailReason.BODY_TOO_LARGE, after_failover=False))

    def _give_up(self, reply: Reply | None) -> None:
        self.perform(self.exchange.on_client_gone())
        if self._stream is not None:
            self._stream.break_off()
        self._reply(reply)

    @property
    def is_done(self) -> bool:
        return self.exchange.state is State.DONE

    async def feed(self, data: bytes, *, last: bool) -> None:
        """More of a body that is not kept. A leg that ended without taking it leaves it to the next one."""
        while not self.is_done:
            leg = self._legs[self.exchange.leg]
            if leg is None or leg.sent is None or await leg.sent.feed(data, last=last):
                return

    # Events of the legs.

    def on_written(self, leg: "_LiveLeg") -> None:
        lane = str(Lane.LIVE) if self.call.judged else "pinned"
        self._proxy.writes.wrote(leg.role, self._snapshot.arm(leg.role).name, lane, self.call.request_id, self._epoch)
        self.perform(self.exchange.on_written(leg.leg))

    def may_write(self, leg: "_LiveLeg") -> bool:
        return self._proxy.routing.may_write(self._epoch, leg.role, Lane.LIVE)

    def on_head(self, leg: "_LiveLeg", head: Head) -> None:
        self.perform(self.exchange.on_head(leg.leg, head, self._now(), baseline=self._baseline(leg)))

    def on_overflow(self, leg: "_LiveLeg") -> None:
        self.perform(self.exchange.on_overflow(leg.leg))

    def on_complete(self, leg: "_LiveLeg") -> None:
        self.perform(self.exchange.on_complete(leg.leg, self._now(), baseline=self._baseline(leg)))

    def on_lost(self, leg: "_LiveLeg", loss: Loss) -> None:
        self.perform(self.exchange.on_lost(leg.leg, loss, self._now(), baseline=self._baseline(leg)))

    @property
    def answer_hold(self) -> int:
        return self._proxy.answer_hold

    def _now(self) -> float:
        return self._proxy.clock.monotonic()

    def _baseline(self, leg: "_LiveLeg") -> Standing:
        return self._proxy.baseline_standing() if leg.role is Role.CANDIDATE else Standing.ABLE

    # Effects.

    def perform(self, effects: Effects) -> None:
        """Do what the exchange decided, in its order."""
        for effect in effects:
            match effect:
                case Send():
                    self._send(effect)
                case Answer(leg):
                    self._answer(leg)
                case Book():
                    self._book(effect)
                case Saw(role, outcome):
                    self._tallies.add(role, Lane.CLIENT, self._arrived, OUTCOME_COUNT[outcome])
                    self._tallies.leave(self)  # always the last thing that is counted
                case Stream(leg):
                    self._begin_stream(leg)
                case EndStream() if self._stream is not None:
                    self._stream.end()
                case Break() if self._stream is not None:
                    self._stream.break_off()
                case Fail(reason, after_failover):
                    self._reply(Failure(reason, after_failover))
                    self._tell_copy(None, Role.BASELINE)
                case Cancel(leg) | Discard(leg):
                    self._let_go(leg, at_once=isinstance(effect, Cancel))
                case FailedOver():
                    self._proxy.books.failed_over(self._tallies, self._arrived)
                case CopyTo(role):
                    self._copy = self._proxy.shadow.offer(self.call, role, self._tallies, self._snapshot, self._arrived)
                case Drop() if self._ticket is not None:
                    self._tallies.drop(self._ticket)
                case EndStream() | Break() | Drop():
                    pass

    def _send(self, send: Send) -> None:
        proxy, terms = self._proxy, self.exchange.terms
        now = proxy.clock.monotonic()
        if send.counted:
            self._ticket = self._tallies.open(send.role, Lane.LIVE, self._arrived, now)
        leg = self._legs[send.leg] = _LiveLeg(self, send.leg, send.role)
        outgoing = self.call.outgoing
        if terms.deadline is not None:
            outgoing = replace(outgoing, deadline_s=terms.deadline - now)
        leg.sent = proxy.arms.pool(send.role, Lane.LIVE).send(outgoing, send.patience, leg)

    def _answer(self, which: Leg) -> None:
        leg = self._legs[which]
        assert leg is not None
        assert leg.head is not None
        self._reply(Whole(leg.head, leg.body(), self._snapshot.arm(leg.role).name, self.exchange.instead))
        self._tell_copy(self._side(), leg.role)

    def _side(self) -> SideAnswer | None:
        """What the assigned arm answered, for comparison; None when it gave no whole answer."""
        first = self._legs[Leg.FIRST]
        if first is None or first.head is None or self.exchange.instead in (Instead.FAILED, Instead.UNAVAILABLE):
            return None
        return first.side()

    def _tell_copy(self, side: SideAnswer | None, by: Role) -> None:
        if self._copy is not None:
            self._copy.live_answered(side, by)
            self._copy = None

    def _book(self, book: Book) -> None:
        proxy = self._proxy
        if self._ticket is None:
            proxy.books.book(self._tallies, book.role, Lane.LIVE, self._arrived, book.outcome)
            return
        proxy.books.close(
            self._tallies,
            self._ticket,
            book.role,
            book.outcome,
            proxy.clock.monotonic(),
            compiles=book.compiles,
            timed=book.timed,
        )

    def _begin_stream(self, which: Leg) -> None:
        leg = self._legs[which]
        assert leg is not None
        assert leg.head is not None
        assert leg.sent is not None
        stream = self._stream = leg.stream = AnswerStream(leg.sent)
        for piece in leg.pieces:
            stream.push(piece)
        leg.pieces.clear()
        self._reply(Streamed(leg.head, stream, self._snapshot.arm(leg.role).name, self.exchange.instead))
        self._tell_copy(None, leg.role)

    def _let_go(self, which: Leg, *, at_once: bool) -> None:
        leg = self._legs[which]
        if leg is not None and leg.sent is not None:
            if at_once:
                leg.sent.cancel()
            else:
                leg.sent.discard()
        if at_once:
            self._tell_copy(None, Role.BASELINE)

    def _reply(self, reply: Reply | None) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)


class _LiveLeg:
    """The owner of one leg: keeps what is held and passes on what happens."""

    __slots__ = ("head", "leg", "live", "pieces", "role", "sent", "size", "stream")

    def __init__(self, live: LiveRequest, leg: Leg, role: Role) -> None:
        self.live = live
        self.leg = leg
        self.role = role
        self.sent: SentLeg | None = None
        self.head: Head | None = None
        self.pieces: list[bytes] = []
        self.size = 0
        self.stream: AnswerStream | None = None

    def may_write(self) -> bool:
        return self.live.may_write(self)

    def on_written(self) -> None:
        self.live.on_written(self)

    def on_head(self, head: Head) -> None:
        self.head = head
        self.live.on_head(self, head)

    def on_body(self, data: bytes) -> None:
        if self.stream is not None:
            self.stream.push(data)
            return
        self.pieces.append(data)
        self.size += len(data)
        if self.size > self.live.answer_hold:
            self.live.on_overflow(self)

    def on_complete(self) -> None:
        self.live.on_complete(self)

    def on_lost(self, loss: Loss) -> None:
        self.live.on_lost(self, loss)

    def body(self) -> bytes:
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    def side(self) -> SideAnswer | None:
        """This leg's answer for comparison; None when it is compressed."""
        if self.head is None or self.head.encoded:
            return None
        return SideAnswer(status=self.head.status, content_type=self.head.content_type, body=self.body())
