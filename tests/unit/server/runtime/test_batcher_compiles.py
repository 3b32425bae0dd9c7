"""Whoever met a compile is told: its own batch's, and those it waited behind."""

import asyncio
from array import array
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.types import Bucket, DeadlinePassed, Internal, NotReady, ShapeNotServed, TokenRows
from server.core.visit import Compiles, Visit
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.batcher import Batcher, Share

LENIENT = Catalogue((1, 2), (4,), largest=Bucket(4, 16))
Asked = tuple["asyncio.Task[Share]", Visit]


class Bench:
    """A batcher, what it sent, and its requests."""

    def __init__(self, fakes: SimpleNamespace, *, compiled: bool = True) -> None:
        self.sent: list[Run] = []
        self.batcher = Batcher(LENIENT, 64, self.sent.append, fakes.clock, fakes.telemetry)
        self.batcher.open(compiled=compiled)

    async def ask(self, length: int, *, rows: int = 1, deadline: float | None = None) -> Asked:
        visit = Visit(100.0, deadline)
        task = asyncio.create_task(self.batcher.answer(TokenRows([[7] * length] * rows), visit))
        await asyncio.sleep(0)
        return task, visit

    def finish(self, compiles: int = 0) -> None:
        """The batch on the device ends well."""
        run = self.sent[-1]
        landed = self.batcher.finished(
            Finished(run.number, embeddings(array("f", [1.0] * run.bucket.batch).tobytes(), 1), 0.1, compiles)
        )
        assert landed is not None
        assert landed.batch.bucket == run.bucket

    def fail(self, compiles: int = 0) -> None:
        assert self.batcher.run_failed(RunFailed(self.sent[-1].number, "out of memory", compiles)) is not None


async def met(asked: Asked) -> Compiles:
    """What a request that is answered met."""
    await asked[0]
    return asked[1].compiles


async def end(bench: Bench, *asked: Asked) -> None:
    bench.batcher.close("end")
    await asyncio.gather(*(task for task, _ in asked), return_exceptions=True)


def test_a_request_of_an_undeclared_shape_names_it(fakes: SimpleNamespace) -> None:
    """Its compiles are those of its own batch; the second of that shape has none."""

    async def scenario() -> None:
        bench = Bench(fakes)
        for compiles, wanted in ((2, Compiles(2, (Bucket(4, 8),))), (0, Compiles())):
            asked = await bench.ask(5, rows=3)
            assert bench.sent[-1].bucket == Bucket(4, 8)
            bench.finish(compiles)
            assert await met(asked) == wanted
        assert [compiles for _, compiles in fakes.telemetry.batches] == [2, 0]

    asyncio.run(scenario())


def test_who_waited_in_its_lane_reports_the_culprits_shape(fakes: SimpleNamespace) -> None:
    """Whenever it came, whatever its own shape; who came after the compile reports nothing."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit = await bench.ask(16)
        victims = [await bench.ask(4), await bench.ask(4)]
        bench.finish(compiles=1)
        after = await bench.ask(4)
        bench.finish()
        bench.finish()
        assert [await met(each) for each in (culprit, *victims)] == [Compiles(1, (Bucket(1, 16),))] * 3
        assert await met(after) == Compiles()

    asyncio.run(scenario())


def test_compiles_waited_behind_and_caused_add_up(fakes: SimpleNamespace) -> None:
    """Each shape once, in the order met; the third waited behind both."""

    async def scenario() -> None:
        bench = Bench(fakes)
        asked = [await bench.ask(16), await bench.ask(8), await bench.ask(4)]
        for compiles in (1, 2, 0):
            bench.finish(compiles)
        first, second = (Bucket(1, 16),), (Bucket(1, 16), Bucket(1, 8))
        assert [await met(each) for each in asked] == [Compiles(1, first), *[Compiles(3, second)] * 2]

    asyncio.run(scenario())


def test_a_batch_that_fails_after_compiling_is_told_to_its_victims_and_to_its_own(fakes: SimpleNamespace) -> None:
    """Refused or answered."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit, victim = await bench.ask(16), await bench.ask(4)
        bench.fail(compiles=1)
        with pytest.raises(Internal, match="out of memory"):
            await culprit[0]
        bench.finish()
        assert culprit[1].compiles == await met(victim) == Compiles(1, (Bucket(1, 16),))

    asyncio.run(scenario())


def test_a_victim_without_an_answer_tells_its_compiles_too(fakes: SimpleNamespace) -> None:
    """Its deadline passed behind the compile, or the worker went after it: nothing is counted twice."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit, late, lost = await bench.ask(16), await bench.ask(8, deadline=400.0), await bench.ask(4)
        fakes.clock.now = 401.0
        bench.finish(compiles=1)
        with pytest.raises(DeadlinePassed):
            await late[0]
        bench.batcher.close("worker: gone")
        with pytest.raises(NotReady):
            await lost[0]
        assert late[1].compiles == lost[1].compiles == await met(culprit) == Compiles(1, (Bucket(1, 16),))

    asyncio.run(scenario())


@pytest.mark.parametrize("culprits_own", [True, False])
def test_a_deadline_that_passes_while_it_compiles_counts_one(fakes: SimpleNamespace, culprits_own: bool) -> None:
    """The least that it can be, for the culprit as for the victim; what it met before is told as well."""

    async def scenario() -> None:
        bench = Bench(fakes)
        first = await bench.ask(8, rows=2)
        culprit = await bench.ask(16, deadline=100.01 if culprits_own else None)
        victim = await bench.ask(4, deadline=None if culprits_own else 100.01)
        bench.finish(compiles=2)
        assert bench.batcher.may_compile
        late = culprit if culprits_own else victim
        async with asyncio.timeout(20):
            with pytest.raises(DeadlinePassed):
                await late[0]
        assert late[1].compiles == Compiles(3, (Bucket(2, 8), Bucket(1, 16)))
        await end(bench, first, culprit, victim)

    asyncio.run(scenario())


def test_a_caller_that_leaves_while_it_compiles_counts_one(fakes: SimpleNamespace) -> None:
    """Nobody reads an answer, but the access log tells why it took so long."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit, gone = await bench.ask(16), await bench.ask(4)
        gone[0].cancel()
        await asyncio.gather(gone[0], return_exceptions=True)
        assert gone[1].compiles == Compiles(1, (Bucket(1, 16),))
        await end(bench, culprit)

    asyncio.run(scenario())


@pytest.mark.parametrize(("compiled", "length"), [(True, 4), (False, 16)])
def test_who_leaves_while_nothing_can_compile_counts_nothing(
    fakes: SimpleNamespace, compiled: bool, length: int
) -> None:
    """Behind a warm shape, or on an engine that runs every shape as it comes."""

    async def scenario() -> None:
        bench = Bench(fakes, compiled=compiled)
        ahead, gone = await bench.ask(length), await bench.ask(4)
        gone[0].cancel()
        await asyncio.gather(gone[0], return_exceptions=True)
        assert gone[1].compiles == Compiles()
        await end(bench, ahead)

    asyncio.run(scenario())


def test_who_leaves_as_a_compile_ends_counts_neither_it_twice_nor_the_next(fakes: SimpleNamespace) -> None:
    """The batch ends, and the next new shape begins, before its task has its turn to leave."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit, following, gone = await bench.ask(16), await bench.ask(8), await bench.ask(4)
        gone[0].cancel()
        bench.finish(compiles=1)
        assert bench.batcher.may_compile
        await asyncio.gather(gone[0], return_exceptions=True)
        assert gone[1].compiles == Compiles(1, (Bucket(1, 16),))
        await end(bench, culprit, following)

    asyncio.run(scenario())


def test_closing_while_it_compiles_counts_one_for_everyone(fakes: SimpleNamespace) -> None:
    """Culprit and victim, and the number of those who were told is that of those who waited."""

    async def scenario() -> None:
        bench = Bench(fakes)
        asked = [await bench.ask(16), await bench.ask(4), await bench.ask(8)]
        assert bench.batcher.close("worker: gone") == 3
        for task, visit in asked:
            with pytest.raises(NotReady, match="worker: gone"):
                await task
            assert visit.compiles == Compiles(1, (Bucket(1, 16),))
        assert bench.batcher.close("server: stopped") == 0

    asyncio.run(scenario())


def test_a_new_shape_that_fails_is_refused_to_who_waits_and_who_comes(fakes: SimpleNamespace) -> None:
    """Not to smaller requests of its lane, which go without company; the refusal tells the compile it met."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit = await bench.ask(8, rows=2)
        same, single, other = await bench.ask(7, rows=2), await bench.ask(8), await bench.ask(8)
        bench.fail(compiles=1)
        with pytest.raises(Internal):
            await culprit[0]
        with pytest.raises(ShapeNotServed, match=r"shape 2x8: this shape failed on this device .* length 4, und"):
            await same[0]
        assert same[1].compiles == Compiles(1, (Bucket(2, 8),))
        bench.finish(compiles=1)
        bench.finish()
        assert [(await each[0]).bucket for each in (single, other)] == [Bucket(1, 8)] * 2
        late, visit = await bench.ask(5, rows=2)
        with pytest.raises(ShapeNotServed) as refused:
            await late
        assert (refused.value.param, visit.compiles) == ("input", Compiles())
        assert fakes.telemetry.queue[-1] == 0

    asyncio.run(scenario())


@pytest.mark.parametrize(("length", "ran"), [(4, False), (16, True)])
def test_a_shape_that_has_run_is_tried_again_after_a_failure(fakes: SimpleNamespace, length: int, ran: bool) -> None:
    """Declared, or once finished: its program is there."""

    async def scenario() -> None:
        bench = Bench(fakes)
        if ran:
            first = await bench.ask(length)
            bench.finish(compiles=1)
            await met(first)
        failed = await bench.ask(length)
        bench.fail()
        with pytest.raises(Internal):
            await failed[0]
        again = await bench.ask(length)
        bench.finish()
        await met(again)

    asyncio.run(scenario())


def test_a_shape_may_compile_until_it_finished_once(fakes: SimpleNamespace) -> None:
    """Declared shapes never, they are warm."""

    async def scenario() -> None:
        bench = Bench(fakes)
        assert not bench.batcher.may_compile
        for length, may in ((4, False), (16, True), (16, False)):
            asked = await bench.ask(length)
            assert bench.batcher.may_compile is may
            bench.finish()
            await met(asked)

    asyncio.run(scenario())
