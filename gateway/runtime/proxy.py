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
from gateway.core.routes import asks_for_events
from gateway.core.snapshot import Answer as SideAnswer
from gateway.core.snapshot import ArmSnapshot, Snapshot
from gateway.core.split import Purpose
from gateway.core.strata import stratum_of
from gateway.core.types import OUTCOME_COUNT, Count, Lane, Role
from gateway.ports import Clock
from gateway.runtime.arms import Arms
from gateway.runtime.books import Books
from gateway.runtime.call import AnswerStream, Call, Failure, Reply, Streamed, Whole
from gateway.runtime.routing import Route, Routing
from gateway.runtime.shadow import Copy, Shadow
from gateway.runtime.ticket import Ticket
from gateway.runtime.timing import Timing
from gateway.runtime.writes import Writes

KEY_BYTES: Final = 16
EVEN: Final = 5_000
"""Basis points: every other copy is sent before its request."""

Draw = Callable[[int], bytes]
"""So many bytes of chance."""
AsksToDraw = Callable[[str, bytes], bool]
"""Whether the request with this path and body asks for text drawn at random."""


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
        asks_to_draw: AsksToDraw,
        answer_hold: int,
    ) -> None:
        self.routing = routing
        self.arms = arms
        self.books = books
        self.shadow = shadow
        self.writes = writes
        self.clock = clock
        self.answer_hold = answer_hold
        self.asks_to_draw = asks_to_draw
        self._draw = draw

    def take(self, call: Call, route: Route) -> "LiveRequest":
        """Send ``call`` on its way under ``route``; the reply is awaited at what is returned."""
        snapshot = route.snapshot
        assigned, purpose, counted_key = self._assign(call, snapshot)
        copy = purpose is not None and call.replayable
        terms = Terms(
            judged=call.judged,
            assigned=assigned,
            replayable=call.replayable,
            deadline=None if call.deadline_s is None else self.clock.monotonic() + call.deadline_s,
            slowest_limit_s=route.slowest_limit_s,
            copy=copy,
            to_itself=purpose is Purpose.NOISE,
            copy_first=copy and _goes_before(call, snapshot),
            baseline=route.baseline,
            candidate=route.candidate,
            answer_hold=self.answer_hold,
        )
        live = LiveRequest(self, call, snapshot, Exchange(terms))
        live.start(counted_key)
        return live

    def _assign(self, call: Call, snapshot: Snapshot) -> tuple[Role, Purpose | None, int | None]:
        """The arm, what it is copied for, and by what the key is counted. All come from the key alone.

        Where keys are sticky a request without one is drawn, and counted, as a key of its own.
        """
        if not call.judged or not snapshot.judging or snapshot.candidate is None:
            return Role.BASELINE, None, None
        key = call.key if call.key is not None else self._draw(KEY_BYTES)
        secret, epoch = snapshot.secret, snapshot.epoch
        role = split.assign(secret, epoch, key, snapshot.weight)
        counted = None if snapshot.key_header is None else split.fingerprint(secret, epoch, key)
        return role, _copied_for(role, key, snapshot), counted

    def baseline_standing(self) -> Standing:
        return self.routing.baseline_standing(self.arms.in_flight(Role.BASELINE, Lane.LIVE))

    def candidate_standing(self) -> Standing:
        return self.routing.candidate_standing(self.arms.in_flight(Role.CANDIDATE, Lane.LIVE))


def _copied_for(role: Role, key: bytes, snapshot: Snapshot) -> Purpose | None:
    """At most one copy of a request: what serves to measure the noise is drawn first, and only for a while."""
    secret, epoch = snapshot.secret, snapshot.epoch
    if role is Role.CANDIDATE:
        is_drawn = split.sampled(secret, epoch, key, snapshot.reverse_copies, Purpose.COPY_TO_BASELINE)
        return Purpose.COPY_TO_BASELINE if is_drawn else None
    if split.sampled(secret, epoch, key, snapshot.noise_copies, Purpose.NOISE):
        return Purpose.NOISE
    is_drawn = split.sampled(secret, epoch, key, snapshot.copies, Purpose.COPY_TO_CANDIDATE)
    return Purpose.COPY_TO_CANDIDATE if is_drawn else None


def _goes_before(call: Call, snapshot: Snapshot) -> bool:
    """Whether the copy of ``call`` is sent before it."""
    key = (call.key or b"") + call.request_id.encode()
    return split.sampled(snapshot.secret, snapshot.epoch, key, EVEN, Purpose.ORDER)


class LiveRequest:
    """One client request from its arrival to its end.

    ``reply`` is set once, before or when the answer begins; to None when nobody waits for it any more.
    """

    __slots__ = (
        "_arrived",
        "_asks_for_events",
        "_copy",
        "_epoch",
        "_legs",
        "_moved",
        "_proxy",
        "_snapshot",
        "_stratum",
        "_stream",
        "_streams_events",
        "_tallies",
        "_ticket",
        "_timing",
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
        self._stratum = 0
        if snapshot.strata:
            outgoing = call.outgoing
            length = outgoing.length if outgoing.more else len(outgoing.body)
            self._stratum = stratum_of(snapshot.strata, length)
        waits_for_events = snapshot.stream_limits_ms[0] is not None and exchange.terms.judged
        self._asks_for_events = waits_for_events and asks_for_events(call.outgoing.body)
        self._streams_events = False
        self._legs: list[_LiveLeg | None] = [None, None]
        self._ticket: Ticket | None = None
        self._copy: Copy | None = None
        self._timing: Timing | None = None
        self._stream: AnswerStream | None = None
        self._moved: asyncio.Event | None = None
        self.call = call
        self.exchange = exchange
        self.reply: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()

    def start(self, counted_key: int | None) -> None:
        """``counted_key``: the hash of a sticky key, None where there is none."""
        proxy, terms = self._proxy, self.exchange.terms
        if terms.judged:
            self._tallies.enter(self, self._arrived)
        if counted_key is not None:
            self._tallies.note_key(terms.assigned, self._arrived, counted_key)
        if terms.judged and not terms.replayable:
            self._tallies.add(terms.assigned, Lane.LIVE, self._arrived, Count.NOT_REPLAYABLE, self._stratum)
        candidate = proxy.candidate_standing() if terms.assigned is Role.CANDIDATE else Standing.ABSENT
        now = proxy.clock.monotonic()
        self.perform(self.exchange.start(now, candidate=candidate, baseline=proxy.baseline_standing()))

    def client_gone(self) -> None:
        """The client does not wait any more; the arm is told by closing its connection."""
        self._give_up(None)

    def body_too_large(self) -> None:
        """The client sends more than is allowed; what an arm has got of it is void."""
        self._give_up(Failure(FailReason.BODY_TOO_LARGE, after_failover=False))

    def body_too_slow(self) -> None:
        """The client does not send the rest of its body; the arm that waits for it is not to blame."""
        self._give_up(Failure(FailReason.BODY_TOO_SLOW, after_failover=False))

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
        self._moved = self._moved or asyncio.Event()
        while not self.is_done:
            leg = self._legs[self.exchange.leg]
            assert leg is not None
            assert leg.sent is not None
            if await leg.sent.feed(data, last=last):
                if last and self._ticket is not None:
                    self._ticket.start(self._now())
                return
            # The exchange may hear of the leg's end only after this task does.
            while not self.is_done and self._legs[self.exchange.leg] is leg:
                self._moved.clear()
                await self._moved.wait()

    # Events of the legs.

    def on_written(self, leg: "_LiveLeg") -> None:
        lane = str(Lane.LIVE) if self.call.judged else "pinned"
        self._proxy.writes.wrote(leg.role, leg.arm.name, lane, self.call.request_id, self._epoch)
        if self.exchange.terms.copy:
            leg.written = self._now() if leg.sent is None else None
        self.perform(self.exchange.on_written(leg.leg))

    def may_write(self, leg: "_LiveLeg") -> bool:
        return self._proxy.routing.may_write(self._epoch, leg.arm, Lane.LIVE)

    def on_head(self, leg: "_LiveLeg", head: Head) -> None:
        self.perform(self.exchange.on_head(leg.leg, head, self._now(), baseline=self._baseline(leg)))

    def on_piece(self, data: bytes) -> None:
        """Of a stream whose pace counts."""
        if self._ticket is not None:
            self._tallies.took(self._ticket, data, self._now())

    def on_overflow(self, leg: "_LiveLeg") -> None:
        self.perform(self.exchange.on_overflow(leg.leg))

    def on_complete(self, leg: "_LiveLeg") -> None:
        if self._timing is not None and leg.leg is Leg.FIRST and leg.head is not None and not leg.was_held_up:
            self._timing.answered(leg.role, leg.head, leg.written, self._now())
        self.perform(self.exchange.on_complete(leg.leg, self._now(), baseline=self._baseline(leg)))

    def on_lost(self, leg: "_LiveLeg", loss: Loss) -> None:
        self.perform(self.exchange.on_lost(leg.leg, loss, self._now(), baseline=self._proxy.baseline_standing()))

    @property
    def answer_hold(self) -> int:
        return self._proxy.answer_hold

    @property
    def asks_to_draw(self) -> AsksToDraw:
        return self._proxy.asks_to_draw

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
                    self._tallies.add(role, Lane.CLIENT, self._counted_at(), OUTCOME_COUNT[outcome], self._stratum)
                    self._tallies.leave(self)  # always the last thing that is counted
                case Stream():
                    self._begin_stream(effect)
                case EndStream() if self._stream is not None:
                    self._stream.end()
                case Break() if self._stream is not None:
                    self._stream.break_off()
                case Fail(reason, after_failover):
                    self._reply(Failure(reason, after_failover))
                    self._tell_copy(Role.BASELINE)
                case Cancel(leg) | Discard(leg):
                    self._let_go(leg, at_once=isinstance(effect, Cancel))
                case FailedOver():
                    self._proxy.books.failed_over(self._tallies, self._counted_at(), self._stratum)
                case CopyTo(role):
                    self._begin_copy(role)
                case Drop() if self._ticket is not None:
                    self._tallies.drop(self._ticket)
                case EndStream() | Break() | Drop():
                    pass
        if self._moved is not None:
            self._moved.set()

    def _send(self, send: Send) -> None:
        proxy, terms = self._proxy, self.exchange.terms
        now = proxy.clock.monotonic()
        outgoing = self.call.outgoing
        if send.counted:
            sent = None if outgoing.more else now
            self._ticket = self._tallies.open(
                send.role, Lane.LIVE, self._arrived, sent, self._stratum, asks_for_events=self._asks_for_events
            )
        elif self._ticket is not None:
            self._ticket.end(now)
        pool = proxy.arms.pool(send.role, Lane.LIVE)
        leg = self._legs[send.leg] = _LiveLeg(self, send.leg, pool.arm)
        if terms.deadline is not None:
            outgoing = replace(outgoing, deadline_s=terms.deadline - now)
        leg.sent = pool.send(outgoing, send.patience, leg)

    def _begin_copy(self, role: Role) -> None:
        terms = self.exchange.terms
        copy = self._copy = self._proxy.shadow.offer(
            self.call,
            role,
            self._tallies,
            self._snapshot,
            self._arrived,
            self._stratum,
            asks_for_events=self._asks_for_events,
            first=terms.copy_first,
            noise=terms.to_itself,
        )
        self._timing = None if copy is None else copy.timing

    def _answer(self, which: Leg) -> None:
        leg = self._legs[which]
        assert leg is not None
        assert leg.head is not None
        self._reply(Whole(leg.head, leg.body(), leg.arm.name, self.exchange.instead))
        self._tell_copy(leg.role, self._own_leg(), is_whole=True)

    def _own_leg(self) -> "_LiveLeg | None":
        """The leg whose answer is the assigned arm's; None when that arm gave no usable one."""
        return None if self.exchange.instead in (Instead.FAILED, Instead.UNAVAILABLE) else self._legs[Leg.FIRST]

    def _tell_copy(self, by: Role, own: "_LiveLeg | None" = None, *, is_whole: bool = False) -> None:
        if self._copy is not None:
            status = None if own is None else own.status
            self._copy.live_answered(status, own.side() if own is not None and is_whole else None, by)
            self._copy = None

    def _book(self, book: Book) -> None:
        proxy = self._proxy
        if self._ticket is None:
            proxy.books.book(self._tallies, book.role, Lane.LIVE, self._arrived, book.outcome, self._stratum)
            return
        proxy.books.close(
            self._tallies,
            self._ticket,
            book.role,
            book.outcome,
            proxy.clock.monotonic(),
            at=self._counted_at(),
            compiles=book.compiles,
            compiled=book.compiled,
            phase=book.phase,
        )

    def _counted_at(self) -> float:
        """In whose window what becomes of the request is counted: of its arrival, of a stream's end."""
        return self._proxy.clock.wall() if self._streams_events else self._arrived

    def _begin_stream(self, begun: Stream) -> None:
        leg = self._legs[begun.leg]
        assert leg is not None
        assert leg.head is not None
        assert leg.sent is not None
        pace = None
        if begun.events:
            self._streams_events = True
            self._tallies.stream(self)
        if begun.counted and self._ticket is not None:
            head = leg.head
            pace = self._tallies.begin_stream(
                self._ticket, framed=not head.encoded, compiles=head.compiles, compiled=head.compiled
            )
        leg.is_timed = pace is not None
        stream = self._stream = leg.stream = AnswerStream(leg.sent, self._on_flow)
        for piece in leg.pieces:
            stream.push(piece)
        leg.pieces.clear()
        leg.sent.lift_total()
        self._reply(Streamed(leg.head, stream, leg.arm.name, self.exchange.instead))
        self._tell_copy(leg.role, self._own_leg())

    def _on_flow(self, flows: bool) -> None:
        """The client reads the answer, or the arm has to wait for it."""
        ticket = self._ticket
        if ticket is None:
            return
        if flows:
            ticket.go_on(self._now())
            return
        ticket.hold(self._now())
        if ticket.pace is not None:
            ticket.pace.excuse()

    def _let_go(self, which: Leg, *, at_once: bool) -> None:
        leg = self._legs[which]
        if leg is not None and leg.sent is not None:
            if at_once:
                leg.sent.cancel()
            else:
                leg.sent.discard()
        if at_once:
            self._tell_copy(Role.BASELINE)

    def _reply(self, reply: Reply | None) -> None:
        if not self.reply.done():
            self.reply.set_result(reply)


class _LiveLeg:
    """The owner of one leg: keeps what is held and passes on what happens. ``arm`` is the one it was sent to."""

    __slots__ = ("arm", "head", "is_timed", "leg", "live", "pieces", "role", "sent", "size", "stream", "written")

    def __init__(self, live: LiveRequest, leg: Leg, arm: ArmSnapshot) -> None:
        self.live = live
        self.leg = leg
        self.arm = arm
        self.role = arm.role
        self.sent: SentLeg | None = None
        self.head: Head | None = None
        self.pieces: list[bytes] = []
        self.size = 0
        self.stream: AnswerStream | None = None
        self.is_timed = False
        self.written: float | None = None
        """When, monotonic, if it was at once: in the turn in which it was sent."""

    def may_write(self) -> bool:
        return self.live.may_write(self)

    def on_written(self) -> None:
        self.live.on_written(self)

    def on_head(self, head: Head) -> None:
        self.head = head
        self.live.on_head(self, head)

    def on_body(self, data: bytes) -> None:
        if self.stream is not None:
            if self.is_timed:
                self.live.on_piece(data)
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

    @property
    def was_held_up(self) -> bool:
        """The client took its answer more slowly than the arm gave it."""
        return self.stream is not None and self.stream.was_held_up

    @property
    def status(self) -> int | None:
        return None if self.head is None else self.head.status

    def side(self) -> SideAnswer | None:
        """This leg's answer for comparison; None when it is compressed."""
        if self.head is None or self.head.encoded:
            return None
        call = self.live.call
        return SideAnswer(
            status=self.head.status,
            content_type=self.head.content_type,
            body=self.body(),
            drawn=self.live.asks_to_draw(call.path, call.outgoing.body),
        )
