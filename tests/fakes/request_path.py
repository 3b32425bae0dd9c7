"""The whole request path of a worker over pools and a clock in the test's hand."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, Final

from fakes.arms import FakeLeg, FakePool, HandClock, snapshot_of

from gateway.core import split
from gateway.core.leg import Outgoing
from gateway.core.snapshot import ArmSnapshot, Pair
from gateway.core.types import Count, Lane, Role
from gateway.runtime.arms import Arms
from gateway.runtime.books import Books
from gateway.runtime.call import Call
from gateway.runtime.proxy import LiveRequest, Proxy
from gateway.runtime.routing import Routing
from gateway.runtime.shadow import Shadow
from gateway.runtime.writes import Writes

HOLD: Final = 1000
"""Bytes up to which an answer is held."""
DRAWN: Final = b"temperature 1"
"""The body of a request that asks for text drawn at random."""


class Stage:
    """``follow`` changes the routing, ``take`` takes a request in, ``leg`` is the latest one sent to an arm."""

    def __init__(
        self, *, connected: bool = True, max_copies: int = 128, max_bytes: int = 1 << 26, **changes: Any
    ) -> None:
        self.clock = HandClock()
        self.routing = Routing()
        self.books = Books(self.clock.monotonic())
        self.connected = connected
        self.arms = Arms(self._make)
        self.lines: list[str] = []
        self.pairs: list[Pair] = []
        self.room_for_pairs = True
        self._counts: dict[tuple[Role, Lane], list[int]] = {}
        self.writes = Writes(self.clock, self.lines.append)
        self.shadow = Shadow(
            routing=self.routing,
            arms=self.arms,
            books=self.books,
            writes=self.writes,
            clock=self.clock,
            emit=self._emit,
            answer_hold=HOLD,
            max_copies=max_copies,
            max_bytes=max_bytes,
        )
        self.proxy = Proxy(
            routing=self.routing,
            arms=self.arms,
            books=self.books,
            shadow=self.shadow,
            writes=self.writes,
            clock=self.clock,
            draw=lambda n: b"k" * n,
            asks_to_draw=lambda path, body: body == DRAWN,
            answer_hold=HOLD,
        )
        self.follow(**changes)

    def _make(self, arm: ArmSnapshot) -> FakePool:
        return FakePool(arm, connected=self.connected)

    def _emit(self, pair: Pair) -> bool:
        self.pairs.append(pair)
        return self.room_for_pairs

    def follow(self, **changes: Any) -> None:
        snapshot = snapshot_of(**changes)
        new_epoch = self.routing.apply(snapshot)
        self.arms.apply(snapshot)
        assert self.routing.route is not None
        if new_epoch:
            self.books.begin_epoch(
                snapshot.epoch, snapshot.window_s, self.routing.route.limits, self.routing.route.stream_limits
            )

    def take(
        self,
        *,
        judged: bool = True,
        more: bool = False,
        key: bytes | None = None,
        body: bytes = b"body",
        length: int | None = 4,
        copy_first: bool = False,
        request_id: str = "",
        **values: Any,
    ) -> LiveRequest:
        """``length`` is what the client said; it counts only while there is ``more``.

        copy_first: without a ``request_id`` it gets one whose copy, if there is one, is sent before it.
        """
        outgoing = Outgoing(
            method="POST",
            target=b"/x",
            header_block=b"",
            body=body,
            length=length if more else len(body),
            more=more,
            epoch=1,
        )
        call = Call(
            path="/x",
            request_id=request_id or self._id(key, copy_first=copy_first),
            key=key,
            deadline_s=values.pop("deadline_s", None),
            judged=judged,
            replayable=not more,
            outgoing=outgoing,
        )
        assert self.routing.route is not None
        return self.proxy.take(call, self.routing.route)

    def _id(self, key: bytes | None, *, copy_first: bool) -> str:
        assert self.routing.route is not None
        snapshot = self.routing.route.snapshot
        return next(
            id_
            for id_ in map("r{}".format, itertools.count(1))
            if split.sampled(snapshot.secret, snapshot.epoch, (key or b"") + id_.encode(), 5000, split.Purpose.ORDER)
            is copy_first
        )

    def pool(self, role: Role, lane: Lane = Lane.LIVE) -> FakePool:
        pool = self.arms.pool(role, lane)
        assert isinstance(pool, FakePool)
        return pool

    def leg(self, role: Role, lane: Lane = Lane.LIVE) -> FakeLeg:
        """The latest leg to ``role``."""
        return self.pool(role, lane).legs[-1]

    def counted(self, role: Role, lane: Lane) -> dict[str, int]:
        """What has been counted so far, zeros left out."""
        for window in self.books.current.take()[0]:
            tally = self._counts.setdefault((window.role, window.lane), [0] * len(Count))
            for i, n in enumerate(window.tally):
                tally[i] += n
        return {Count(i).name: n for i, n in enumerate(self._counts.get((role, lane), [])) if n}


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario that must end."""
    asyncio.run(asyncio.wait_for(scenario(), 10))
