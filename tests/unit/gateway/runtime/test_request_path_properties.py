"""Whatever arms, clients and routing do to requests and their copies: nothing is lost, invented or kept.

Plays are drawn from a seed: chance spreads over all that can happen more evenly than a search for small examples does.
"""

import asyncio
import random
from collections import Counter
from typing import Any

from fakes.arms import FakeLeg, FakePool
from fakes.request_path import DRAWN, Stage, play
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.classify import Loss
from gateway.core.snapshot import ArmSnapshot
from gateway.core.types import OUTCOME_COUNT, PHASE_COUNT, Count, Lane, Role
from gateway.runtime.proxy import LiveRequest

SHARES = (0, 5000, 10_000)
LOSSES = [loss for loss in Loss if loss is not Loss.STALE]
BODIES = (b"body", b'{"stream":true}', DRAWN, b"x" * 50)
PIECES = (b"data: x\n\n", b": c\n\n", b"{}", b"y" * 600)
STATUSES = (200, 200, 200, 204, 302, 400, 422, 429, 500, 503)
CHANGES: tuple[dict[str, Any], ...] = (
    {}, {"weight": 0, "copies": 0, "reverse_copies": 0, "noise_copies": 0}, {"judging": False},
    {"candidate": {"ready": False}}, {"candidate": {"port": 77}},
    {"baseline": {"name": "tpu", "port": 2}, "candidate": {"name": "gpu", "port": 1}},
)  # fmt: skip


class Play:
    """A stage with all the legs that were ever sent, and everything that was ever reported."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        shares = ("weight", "copies", "reverse_copies")
        self._routing: dict[str, Any] = {
            **{name: chance.choice(SHARES) for name in shares},
            "noise_copies": chance.choice((0, 0, 5000)),
            "stream_limits_ms": chance.choice([(None, None), (1000.0, 100.0)]),
            "lat_limits_ms": (100.0, 500.0, None),
            "strata": chance.choice([(), (10, 100)]),
        }
        self.stage = Stage(connected=chance.random() < 0.5, **self._routing)
        self._pools = [self.stage.pool(role, lane) for role in Role for lane in (Lane.LIVE, Lane.COPY)]
        self.stage.arms._make = self._make
        self._begun: set[FakeLeg] = set()
        self.asked: list[LiveRequest] = []
        self.counted: dict[tuple[Role, Lane, int], Counter[Count]] = {}
        self._version = self._epoch = 1

    def _make(self, arm: ArmSnapshot) -> FakePool:
        self._pools.append(FakePool(arm, connected=self.stage.connected))
        return self._pools[-1]

    @property
    def _open(self) -> list[FakeLeg]:
        return [leg for pool in self._pools for leg in pool.legs if leg.fate is None]

    def step(self) -> None:
        """Something happens."""
        chance, stage = self._chance, self.stage
        what = chance.choices(("ask", "leg", "leave", "wait", "route", "trip"), (25, 60, 5, 5, 4, 1))[0]
        if what == "ask":
            self.asked.append(
                stage.take(
                    judged=chance.random() < 0.9,
                    more=chance.random() < 0.1,
                    key=chance.randbytes(4),
                    body=chance.choice(BODIES),
                    deadline_s=chance.choice((None, None, 0.0, 1.0)),
                    copy_first=chance.random() < 0.5,
                )
            )
        elif what == "leg" and (open_ := self._open):
            self._act(chance.choice(open_))
        elif what == "leave" and self.asked:
            chance.choice(self.asked).client_gone()
        elif what == "wait":
            stage.clock.step(chance.choice((0.05, 0.7, 15.0)))
            for tallies in (*stage.books.past, stage.books.current):
                tallies.sweep(stage.clock.monotonic())
            self._report()
        elif what == "route":
            self._version, self._epoch = self._version + 1, self._epoch + chance.randint(0, 1)
            change = {**chance.choice(CHANGES), "version": self._version, "epoch": self._epoch}
            stage.follow(**{**self._routing, **change})
        elif what == "trip":
            stage.routing.tripped = True

    def _act(self, leg: FakeLeg) -> None:
        chance = self._chance
        if chance.random() < 0.2:
            leg.lose(chance.choice(LOSSES))
        elif not leg.is_written:
            leg.write()
        elif leg not in self._begun:
            self._begun.add(leg)
            leg.head(
                chance.choice(STATUSES),
                events=chance.random() < 0.4,
                encoded=chance.random() < 0.1,
                compiles=chance.choice((0, 0, 0, 2)),
            )
        elif chance.random() < 0.6:
            leg.body(chance.choice(PIECES))
        else:
            leg.complete()

    def _report(self) -> None:
        books = self.stage.books
        for tallies in (*books.past, books.current):
            for window in tallies.take()[0]:
                counts = self.counted.setdefault((window.role, window.lane, tallies.epoch), Counter())
                counts.update({Count(i): n for i, n in enumerate(window.tally)})
        books.forget_settled()

    def end(self) -> None:
        """Every arm comes to an end, and every client is served or gone."""
        while open_ := self._open:
            for leg in open_:
                self._act(leg)
        for asked in self.asked:
            asked.client_gone()  # whoever still sends a body; to the others it is nothing any more
        self._report()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32))
def test_every_request_is_counted_once_and_failures_by_their_phase(seed: int) -> None:
    """Phases add up to failures, bad ones are among all, each client got one answer, and no budget leaks."""

    async def scenario() -> None:
        played = Play(random.Random(seed))
        for _ in range(60):
            played.step()
            await asyncio.sleep(0)
        played.end()
        stage = played.stage
        assert all(asked.is_done and asked.reply.done() for asked in played.asked)
        assert (stage.shadow.copies.taken, stage.shadow.bytes.taken) == (0, 0)
        assert stage.books.past == []
        assert stage.books.current.is_settled
        seen = 0
        for (_, lane, _), counts in played.counted.items():
            assert all(n >= 0 for n in counts.values())
            outcomes = sum(counts[count] for count in OUTCOME_COUNT.values())
            seen += outcomes if lane is Lane.CLIENT else 0
            failed = 0 if lane is Lane.CLIENT else counts[Count.FAILED]
            assert sum(counts[count] for count in PHASE_COUNT.values()) == failed
            assert counts[Count.LAT95_BAD] <= counts[Count.LAT95_N] <= outcomes
            assert counts[Count.TTFT_BAD] <= counts[Count.TTFT_N] <= outcomes
            assert counts[Count.ITL_BAD] <= counts[Count.ITL_N] <= counts[Count.STREAMS] <= outcomes
            assert counts[Count.STREAMS_BROKEN] <= min(counts[Count.STREAMS], counts[Count.FAILED_BODY])
        assert seen == sum(asked.call.judged for asked in played.asked)

    play(scenario)
