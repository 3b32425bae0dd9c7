"""Whatever a worker does and whenever, each request gets its own answer or a refusal, and nothing is left behind."""

import asyncio
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from fakes.embeddings import embeddings
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from server.core.catalog import Catalogue
from server.core.lifecycle import State
from server.core.restart import RestartRule
from server.core.signature import IDS
from server.core.types import Bucket, BucketTiming, EngineFacts, Refused, TokenRows
from server.core.visit import Visit
from server.ports.worker import (
    Beat,
    BucketBegan,
    BucketWarm,
    Failed,
    Finished,
    Loaded,
    Run,
    RunFailed,
    Start,
    Warmed,
    WorkerEvent,
)
from server.runtime import supervisor as supervisor_module
from server.runtime.batcher import Batcher
from server.runtime.supervisor import Rules, Supervisor

DECLARED = (Bucket(1, 4), Bucket(2, 4))
ASKS = st.tuples(
    st.just("ask"), st.sampled_from([3, 4, 8]), st.integers(1, 5), st.sampled_from([None, 0.0, 5.0]), st.booleans()
)
MOVES = st.sampled_from(
    [("answers",)] * 2
    + [
        (name,)
        for name in ("again", "fails", "says", "beats", "passes", "leaves", "dies", "gives up", "sticks", "warms")
    ]
)


class World:
    """A lenient server, its worker, and its clients. A worker does one thing after the other, as a real one."""

    def __init__(self, fakes: SimpleNamespace, start: Start, facts: EngineFacts) -> None:
        self.fakes = fakes
        self.facts = facts
        self.batcher = Batcher(
            Catalogue((1, 2), (4,), largest=Bucket(2, 8)), 8, self.sent, fakes.clock, fakes.telemetry
        )
        rules = Rules(restart=RestartRule(limit=10**6, back_off_s=1e-9))
        self.supervisor = Supervisor(
            start, fakes.link, self.batcher, fakes.clock, fakes.telemetry, fakes.log, lambda facts: None, rules
        )
        self.todo: list[Run] = []
        self.words: list[WorkerEvent] = []
        self.last: Finished | None = None
        self.died_of: set[Bucket] = set()
        self.asked: list[tuple[int, int, asyncio.Task[bytes]]] = []

    def sent(self, run: Run) -> None:
        assert self.supervisor.life.ready, "a batch is sent to a worker that is ready"
        assert run.bucket not in self.died_of, "a shape that killed a worker is not tried again"
        self.todo.append(run)
        assert len(self.todo) == 1, "one batch at a time"

    async def begin(self) -> None:
        await self.supervisor.start()
        self.fresh()

    def fresh(self) -> None:
        """A worker that has everything before it."""
        self.todo, self.last = [], None
        self.words = [Loaded(self.facts)]
        for bucket in DECLARED:
            self.words += [BucketBegan(bucket), BucketWarm(BucketTiming(bucket, 1.0, 0.1, 4, 0, "cache"))]
        self.words.append(Warmed())

    async def move(self, kind: str, *given: Any) -> None:
        if kind == "ask":
            self.ask(*given)
        elif kind == "leaves":
            pending = [task for *_, task in self.asked if not task.done()]
            if pending:
                pending[0].cancel()
        elif kind == "passes":
            self.fakes.clock.now += 1.0
        elif kind in ("dies", "gives up"):
            await self.goes(kind)
        elif kind == "sticks":
            await self.sticks()
        elif kind == "warms":
            for _ in range(6):
                self.says("works")
        else:
            self.says(kind)
        await turns()

    def says(self, kind: str) -> None:
        tell: Callable[[WorkerEvent], None] = self.fakes.link.receive
        if kind == "beats":
            tell(Beat())
        elif kind == "works" and self.words:
            tell(self.words.pop(0))
        elif kind == "again" and self.last is not None:
            tell(self.last)
        elif kind == "says" and self.todo and self.todo[0].bucket not in DECLARED:
            tell(BucketBegan(self.todo[0].bucket))
        elif kind == "fails" and self.todo:
            tell(RunFailed(self.todo.pop().number, "out of memory", 0))
        elif kind == "answers" and self.todo:
            run = self.todo.pop()
            firsts = run.inputs[IDS].array()[:, 0].tolist()
            rows = array("f", [each for id_ in firsts for each in (id_, 0)]).tobytes()
            self.last = Finished(run.number, embeddings(rows), 0.1, 0)
            tell(self.last)

    async def goes(self, kind: str) -> None:
        """Gone before its first ready it would be the end, if it said so."""
        if kind == "gives up" and not self.supervisor.life.was_ready:
            return
        if kind == "dies" and self.supervisor.life.ready and self.todo and self.todo[0].bucket not in self.ran():
            self.died_of.add(self.todo[0].bucket)
        todo, self.todo = self.todo, []
        if kind == "gives up":
            self.fakes.link.receive(Failed("device: halted"))
        self.fakes.link.lost("the process ended with exit code 1")
        for run in todo:
            self.fakes.link.receive(RunFailed(run.number, "too late", 0))
        await turns()
        assert not self.waiting(), "who waits is told at once"
        await self.until(State.LOADING)
        self.fresh()

    def ran(self) -> set[Bucket]:
        """Shapes that count as having run: those of a batch that is not its first."""
        return set(DECLARED) | self.batcher._ran

    async def sticks(self) -> None:
        """No word for longer than anything may take."""
        if self.supervisor.life.state is State.STUCK:
            return
        self.fakes.clock.now += 10_000.0
        await self.until(State.STUCK)
        await turns()
        assert not self.waiting(), "who waits is told at once"

    def ask(self, length: int, rows: int, seconds: float | None, shadow: bool) -> None:
        first = len(self.asked) + 1
        deadline = None if seconds is None else self.fakes.clock.now + seconds
        visit = Visit(self.fakes.clock.now, deadline, shadow=shadow)
        self.asked.append((first, rows, asyncio.create_task(self.answer([[first] * length] * rows, visit))))

    async def answer(self, rows: list[list[int]], visit: Visit) -> bytes:
        if len(rows) <= 2:
            return (await self.batcher.answer(TokenRows(rows), visit)).outputs["embedding"].data
        with self.batcher.parted(TokenRows(rows), visit) as place:
            parts = [await self.batcher.answer(TokenRows([row]), visit, place) for row in rows]
            return b"".join(part.outputs["embedding"].data for part in parts)

    def waiting(self) -> list["asyncio.Task[bytes]"]:
        return [task for *_, task in self.asked if not task.done()]

    async def until(self, state: State) -> None:
        async with asyncio.timeout(20):
            while self.supervisor.life.state is not state:  # noqa: ASYNC110  # a state has no event
                await asyncio.sleep(0.0002)

    async def end(self) -> None:
        """Everybody was told something, and it was theirs."""
        await self.supervisor.stop()
        await turns()
        assert not self.waiting()
        for first, rows, task in self.asked:
            if task.cancelled():
                continue
            if task.exception() is None:
                assert list(memoryview(task.result()).cast("f")) == [first, 0] * rows
            else:
                assert isinstance(task.exception(), Refused)
        assert self.fakes.telemetry.queue[-1] == 0
        assert (self.batcher._asked, self.batcher._lanes.rows, self.batcher._places.rows) == ({}, 0, 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def turns() -> None:
    for _ in range(12):
        await asyncio.sleep(0)


READY = [("warms",)]
ASK = ("ask", 8, 1, None, False)


@given(moves=st.lists(st.one_of(MOVES, MOVES, ASKS, st.just(("works",))), min_size=20, max_size=60))
@example(moves=[ASK, ("sticks",), ("beats",), ("answers",), ("ask", 4, 5, None, False), ("answers",), ("dies",)])
@example(moves=[ASK, ("answers",), ASK, ("sticks",), ("again",), ASK, ("answers",)])
@example(moves=[ASK, ("sticks",), ("beats",), ASK, ("answers",), ASK, ("again",), ("answers",)])
@example(moves=[ASK, ASK, ("says",), ("dies",), *READY, ASK, ("ask", 8, 2, None, False), ("answers",)])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_request_gets_its_own_answer_or_a_refusal(
    start: Start, facts: EngineFacts, moves: list[tuple[Any, ...]]
) -> None:
    """Dead, stuck, late, twice, in any order; one batch at a time, and only to a worker that is ready."""
    from unit.server.runtime.conftest import FakeClock, FakeLink, FakeLog, FakeTelemetry

    fakes = SimpleNamespace(clock=FakeClock(), telemetry=FakeTelemetry(), log=FakeLog(), link=FakeLink())

    async def scenario() -> None:
        world = World(fakes, start, facts)
        await world.begin()
        for move in [*READY, *moves]:
            await world.move(*move)
        await world.end()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor_module, "WATCH_S", 0.0002)
        patch.setattr(supervisor_module, "READ_S", 0.0)
        asyncio.run(scenario())
