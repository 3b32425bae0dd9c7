"""One client request as the runtime takes it in, and what the client gets for it."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from gateway.core.effects import FailReason, Instead
from gateway.core.leg import Head, Outgoing, SentLeg

STREAM_HIGH: Final = 256 * 1024
STREAM_LOW: Final = 64 * 1024


@dataclass(slots=True, kw_only=True)
class Call:
    """``outgoing`` is what goes to the baseline, without deadline; ``key`` is None when the client sent none.

    deadline_s: how long the client will wait, None when it did not say.
    replayable: the whole body is at hand and may be kept until an arm has answered.
    """

    path: str
    request_id: str
    key: bytes | None
    deadline_s: float | None
    judged: bool
    replayable: bool
    outgoing: Outgoing


@dataclass(slots=True)
class Whole:
    """A complete answer. ``instead``: why it comes from the baseline although it was the candidate's."""

    head: Head
    body: bytes
    arm: str
    instead: Instead | None


@dataclass(slots=True)
class Streamed:
    """An answer that goes on. Reading ``stream`` raises StreamBroken when the arm does not finish it."""

    head: Head
    stream: "AnswerStream"
    arm: str
    instead: Instead | None


@dataclass(slots=True)
class Failure:
    """No arm answered; the gateway has to."""

    reason: FailReason
    after_failover: bool


Reply = Whole | Streamed | Failure


class StreamBroken(Exception):
    """The arm broke its answer off; so must the gateway."""


class AnswerStream:
    """A streamed body between an arm that may be fast and a client that may be slow: the arm is made to wait.

    on_flow: told False when the arm has to wait, for every piece that it still brings, and True when it goes on.
    ``was_held_up``: it had to, so that its time is not its own alone.
    """

    def __init__(self, leg: SentLeg, on_flow: Callable[[bool], None] | None = None) -> None:
        self._leg = leg
        self._on_flow = on_flow
        self._flows = True
        self.was_held_up = False
        self._pieces: deque[bytes] = deque()
        self._size = 0
        self._ended = False
        self._broken = False
        self._news = asyncio.Event()

    def push(self, data: bytes) -> None:
        self._pieces.append(data)
        self._size += len(data)
        if self._size > STREAM_HIGH:
            self.was_held_up = True
            self._leg.pause()
            self._flow(False)
        self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    def break_off(self) -> None:
        self._broken = True
        self._news.set()

    async def read(self) -> bytes | None:
        """The next piece, None at the end. What had come before a break is not lost."""
        while not self._pieces:
            if self._broken:
                raise StreamBroken
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        data = b"".join(self._pieces) if len(self._pieces) > 1 else self._pieces[0]
        self._pieces.clear()
        self._size = 0
        self._leg.resume()
        if not self._flows:
            self._flow(True)
        return data

    def _flow(self, flows: bool) -> None:
        self._flows = flows
        if self._on_flow is not None:
            self._on_flow(flows)
