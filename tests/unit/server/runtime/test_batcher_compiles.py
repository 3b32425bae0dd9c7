"""Whoever met a compile is told: its own batch's, and those it waited behind."""

import asyncio
from array import array
from types import SimpleNamespace

import pytest

from server.core.catalog import Catalogue
from server.core.types import Bucket, Compiles, DeadlinePassed, Internal, NotReady, TokenRows
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.batcher import Batcher, Vectors

LENIENT = Catalogue((1, 2), (4,), largest=Bucket(4, 16))


class Bench:
    """A batcher, what it sent, and its requests."""

    def __init__(self, fakes: SimpleNamespace) -> None:
        self.sent: list[Run] = []
        self.batcher = Batcher(LENIENT, 64, self.sent.append, fakes.clock, fakes.telemetry)
        self.batcher.open(dim=1)

    async def ask(self, length: int, *, rows: int = 1, deadline: float | None = None) -> "asyncio.Task[Vectors]":
        task = asyncio.create_task(self.batcher.answer(TokenRows([[7] * length] * rows), 100.0, deadline))
        await asyncio.sleep(0)
        return task

    def finish(self, compiles: int = 0) -> None:
        """The batch on the device ends well."""
        run = self.sent[-1]
        landed = self.batcher.finished(
            Finished(run.number, array("f", [1.0] * run.bucket.batch).tobytes(), 0.1, compiles)
        )
        assert landed is not None
        assert landed.batch.bucket == run.bucket

    def fail(self, compiles: int = 0) -> None:
        assert self.batcher.run_failed(RunFailed(self.sent[-1].number, "out of memory", compiles)) is not None


def test_a_request_of_an_undeclared_shape_names_it(fakes: SimpleNamespace) -> None:
    """Its compiles are those of its own batch; the second of that shape has none."""

    async def scenario() -> None:
        bench = Bench(fakes)
        for compiles, met in ((2, Compiles(2, (Bucket(4, 8),))), (0, Compiles())):
            asked = await bench.ask(5, rows=3)
            assert bench.sent[-1].bucket == Bucket(4, 8)
            bench.finish(compiles)
            assert (await asked).compiles == met
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
        met = Compiles(1, (Bucket(1, 16),))
        assert [(await each).compiles for each in (culprit, *victims)] == [met] * 3
        assert (await after).compiles == Compiles()

    asyncio.run(scenario())


def test_compiles_waited_behind_and_caused_add_up(fakes: SimpleNamespace) -> None:
    """Each shape once, in the order met; the third waited behind both."""

    async def scenario() -> None:
        bench = Bench(fakes)
        asked = [await bench.ask(16), await bench.ask(8), await bench.ask(4)]
        for compiles in (1, 2, 0):
            bench.finish(compiles)
        first, second = (Bucket(1, 16),), (Bucket(1, 16), Bucket(1, 8))
        assert [(await each).compiles for each in asked] == [Compiles(1, first), *[Compiles(3, second)] * 2]

    asyncio.run(scenario())


def test_a_batch_that_fails_after_compiling_is_told_to_its_victims_and_to_its_own(fakes: SimpleNamespace) -> None:
    """The refusal carries what the request met, and so does the answer of who waited."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit, victim = await bench.ask(16), await bench.ask(4)
        bench.fail(compiles=1)
        with pytest.raises(Internal, match="out of memory") as failed:
            await culprit
        bench.finish()
        met = Compiles(1, (Bucket(1, 16),))
        assert failed.value.compiles == (await victim).compiles == met

    asyncio.run(scenario())


def test_a_victim_without_an_answer_tells_its_compiles_too(fakes: SimpleNamespace) -> None:
    """Its deadline passed behind the compile, or the worker went."""

    async def scenario() -> None:
        bench = Bench(fakes)
        culprit, late, lost = await bench.ask(16), await bench.ask(8, deadline=400.0), await bench.ask(4)
        fakes.clock.now = 401.0
        bench.finish(compiles=1)
        met = (await culprit).compiles
        with pytest.raises(DeadlinePassed) as passed:
            await late
        bench.batcher.close("worker: gone")
        with pytest.raises(NotReady) as gone:
            await lost
        assert passed.value.compiles == gone.value.compiles == met == Compiles(1, (Bucket(1, 16),))

    asyncio.run(scenario())


def test_a_shape_may_compile_until_it_finished_once(fakes: SimpleNamespace) -> None:
    """Declared shapes never, they are warm; a failure leaves open whether there is a program."""

    async def scenario() -> None:
        bench = Bench(fakes)
        assert not bench.batcher.may_compile
        asked = [await bench.ask(4)]
        assert not bench.batcher.may_compile
        bench.finish()
        for end in (bench.fail, bench.finish):
            asked.append(await bench.ask(16))
            assert bench.batcher.may_compile
            end()
        asked.append(await bench.ask(16))
        assert not bench.batcher.may_compile
        bench.finish()
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(scenario())
