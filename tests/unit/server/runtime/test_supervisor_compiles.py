"""A server that compiles in service is busy, not dead, and says what it compiled."""

import asyncio
from array import array
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.types import Bucket, BucketTiming, EngineFacts, Internal, NotReady, ShapeNotServed, TokenRows
from server.core.visit import Compiles, Visit
from server.ports.worker import Beat, BucketBegan, BucketWarm, Finished, Loaded, RunFailed, Start, Warmed
from server.runtime import supervisor as supervisor_module
from server.runtime.batcher import Batcher, Share
from server.runtime.supervisor import FAILED_BATCHES_LIMIT, Supervisor

DECLARED = (Bucket(1, 4), Bucket(2, 4))


class Bench:
    """A ready lenient server that looks at its worker each millisecond."""

    def __init__(self, fakes: SimpleNamespace, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(supervisor_module, "WATCH_S", 0.001)
        monkeypatch.setattr(supervisor_module, "READ_S", 0.001)
        self.fakes = fakes
        self.batcher = Batcher(
            Catalogue((1, 2), (4,), largest=Bucket(2, 8)), 8, fakes.link.run, fakes.clock, fakes.telemetry
        )
        self.supervisor = Supervisor(
            start, fakes.link, self.batcher, fakes.clock, fakes.telemetry, fakes.log, lambda facts: None
        )

    async def ready(self, facts: EngineFacts) -> None:
        """With the declared buckets warm, and none else."""
        await self.supervisor.start()
        self.warm(facts)

    def warm(self, facts: EngineFacts) -> None:
        self.fakes.link.receive(Loaded(facts))
        for bucket in DECLARED:
            self.fakes.link.receive(BucketBegan(bucket))
            self.fakes.link.receive(BucketWarm(BucketTiming(bucket, 1.0, 0.1, 4, 1, "compiled")))
        self.fakes.link.receive(Warmed())
        assert self.supervisor.life.ready

    async def ask(self, length: int) -> "asyncio.Task[Share]":
        """A request that is on the device when this returns."""
        runs = len(self.fakes.link.runs)
        task = asyncio.create_task(self.batcher.answer(TokenRows([[1] * length]), Visit(100.0)))
        await asyncio.sleep(0)
        assert len(self.fakes.link.runs) == runs + 1
        return task

    def finish(self, compiles: int = 0) -> None:
        run = self.fakes.link.runs[-1]
        vectors = embeddings(array("f", [1.0, 0.0] * run.bucket.batch).tobytes())
        self.fakes.link.receive(Finished(run.number, vectors, 0.1, compiles))

    def fail(self, compiles: int = 0) -> None:
        self.fakes.link.receive(RunFailed(self.fakes.link.runs[-1].number, "out of memory", compiles))

    async def watched(self) -> None:
        """The watch had several looks at the clock."""
        looks = asyncio.Semaphore(0)
        self.fakes.clock.on_read = looks.release
        async with asyncio.timeout(20):
            for _ in range(6):
                await looks.acquire()
        self.fakes.clock.on_read = lambda: None


@pytest.fixture
def bench(fakes: SimpleNamespace, start: Start, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(fakes, start, monkeypatch)


def test_the_first_batch_of_a_shape_has_the_time_of_a_warm_up_step(bench: Bench, facts: EngineFacts) -> None:
    """Also in silence: tracing holds the worker's interpreter. Ready and live meanwhile."""

    async def scenario() -> None:
        await bench.ready(facts)
        asked = await bench.ask(8)
        bench.fakes.link.receive(BucketBegan(Bucket(1, 8)))
        bench.fakes.clock.now += 299.0
        await bench.watched()
        assert bench.supervisor.life.ready
        bench.finish(compiles=1)
        assert (await asked).bucket == Bucket(1, 8)
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(("beats", "reason"), [(True, "on the device for 601 s"), (False, "nothing heard for 601 s")])
def test_the_first_batch_of_a_shape_has_no_more_than_that(
    bench: Bench, facts: EngineFacts, beats: bool, reason: str
) -> None:
    """A compile that hangs is a stuck device, whether or not the worker still beats."""

    async def scenario() -> None:
        await bench.ready(facts)
        asked = await bench.ask(8)
        bench.fakes.link.receive(BucketBegan(Bucket(1, 8)))
        bench.fakes.clock.now += 601.0
        if beats:
            bench.fakes.link.receive(Beat())
        async with asyncio.timeout(20):
            with pytest.raises(NotReady, match=reason):
                await asked
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("beats", "waited", "reason"), [(True, 61.0, "on the device for 61 s"), (False, 31.0, "nothing heard for 31 s")]
)
@pytest.mark.parametrize("failed", [False, True])
def test_the_second_batch_of_a_shape_has_the_ordinary_time(
    bench: Bench, facts: EngineFacts, beats: bool, waited: float, reason: str, failed: bool
) -> None:
    """Its program is there: who is silent now is stuck. So has the one after a compile that failed."""

    async def scenario() -> None:
        await bench.ready(facts)
        first = await bench.ask(8)
        bench.fakes.link.receive(BucketBegan(Bucket(1, 8)))
        if failed:
            bench.fail()
        else:
            bench.finish(compiles=1)
        await asyncio.gather(first, return_exceptions=True)
        second = await bench.ask(4 if failed else 8)
        bench.fakes.clock.now += waited
        if beats:
            bench.fakes.link.receive(Beat())
        async with asyncio.timeout(20):
            with pytest.raises(NotReady, match=reason):
                await second
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("beats", "waited", "reason"), [(True, 61.0, "on the device for 61 s"), (False, 31.0, "nothing heard for 31 s")]
)
def test_a_worker_that_does_not_say_that_it_compiles_has_the_ordinary_time_for_every_shape(
    bench: Bench, facts: EngineFacts, beats: bool, waited: float, reason: str
) -> None:
    """Stopped before it could, or of an engine that does not compile: who is silent is stuck."""

    async def scenario() -> None:
        await bench.ready(facts)
        asked = await bench.ask(8)
        bench.fakes.clock.now += waited
        if beats:
            bench.fakes.link.receive(Beat())
        async with asyncio.timeout(20):
            with pytest.raises(NotReady, match=reason):
                await asked
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("compiled", [True, False])
def test_an_undeclared_shape_that_fails_at_first_is_refused_and_the_server_goes_on(
    bench: Bench, facts: EngineFacts, compiled: bool
) -> None:
    """However often it is asked for; the device is not asked again, and the operator reads which shape it was."""

    async def scenario() -> None:
        await bench.ready(replace(facts, compiled=compiled))
        asked = await bench.ask(8)
        bench.fail()
        with pytest.raises(Internal):
            await asked
        runs = len(bench.fakes.link.runs)
        for _ in range(FAILED_BATCHES_LIMIT):
            with pytest.raises(ShapeNotServed, match="shape 1x8: this shape failed on this device"):
                await bench.batcher.answer(TokenRows([[1] * 7]), Visit(100.0))
        assert len(bench.fakes.link.runs) == runs
        asked = await bench.ask(4)
        bench.finish()
        assert (await asked).bucket == Bucket(1, 4)
        assert bench.supervisor.life.ready
        lines = [fields for event, fields in bench.fakes.log.events if event == "shape_refused"]
        assert lines == [{"bucket": "1x8", "error": "out of memory"}]
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("length", [4, 8])
def test_failures_of_shapes_that_have_run_are_a_lost_worker(bench: Bench, facts: EngineFacts, length: int) -> None:
    """Declared or not; the failures of new shapes in between neither count nor start the count anew."""

    async def scenario() -> None:
        await bench.ready(facts)
        asked = [await bench.ask(length)]
        bench.finish(compiles=1)
        for _ in range(FAILED_BATCHES_LIMIT - 1):
            asked.append(await bench.ask(length))
            bench.fail()
        new = asyncio.create_task(bench.batcher.answer(TokenRows([[1] * 8] * 2), Visit(100.0)))
        await asyncio.sleep(0)
        bench.fail()
        assert bench.supervisor.life.ready
        asked.append(await bench.ask(length))
        bench.fail()
        assert (bench.supervisor.life.ready, bench.supervisor.life.restarts) == (False, 1)
        assert f"{FAILED_BATCHES_LIMIT} batches in a row" in bench.supervisor.life.detail
        await asyncio.gather(*asked, new, return_exceptions=True)
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_a_worker_that_is_lost_while_it_compiles_is_told_with_the_shape(bench: Bench, facts: EngineFacts) -> None:
    """By its culprit and by who waited behind it."""

    async def scenario() -> None:
        await bench.ready(facts)
        visits = [Visit(100.0), Visit(100.0)]
        asked = [
            asyncio.create_task(bench.batcher.answer(TokenRows([[1] * length]), visit))
            for length, visit in zip((8, 4), visits, strict=True)
        ]
        await asyncio.sleep(0)
        bench.fakes.link.lost("the process ended with signal 9")
        for each, visit in zip(asked, visits, strict=True):
            with pytest.raises(NotReady, match="signal 9"):
                await each
            assert visit.compiles == Compiles(1, (Bucket(1, 8),))
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_an_undeclared_shape_that_the_worker_dies_of_is_not_tried_again(bench: Bench, facts: EngineFacts) -> None:
    """It would cost a worker each time; what was declared is served by the next one."""

    async def scenario() -> None:
        await bench.ready(facts)
        asked = [await bench.ask(8)]
        asked.append(asyncio.create_task(bench.batcher.answer(TokenRows([[1] * 8]), Visit(100.0))))
        await asyncio.sleep(0)
        bench.fakes.link.lost("the process ended with signal 9")
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in refused] == [NotReady, NotReady]
        bench.warm(facts)
        with pytest.raises(ShapeNotServed, match="shape 1x8: this shape failed on this device"):
            await bench.batcher.answer(TokenRows([[1] * 8]), Visit(100.0))
        declared = await bench.ask(4)
        bench.finish()
        await declared
        lines = [fields for event, fields in bench.fakes.log.events if event == "shape_refused"]
        assert lines == [{"bucket": "1x8", "error": "worker: the process ended with signal 9"}]
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_compiles_on_the_request_path_are_logged_with_their_culprit(bench: Bench, facts: EngineFacts) -> None:
    """Bucket, how many and how long, of failed batches too; a batch that compiled nothing is not worth a line."""

    async def scenario() -> None:
        await bench.ready(facts)
        asked = await bench.ask(8)
        bench.fakes.clock.now += 4.25
        bench.finish(compiles=1)
        await asked
        asked = await bench.ask(8)
        bench.finish()
        await asked
        asked = await bench.ask(6)
        bench.fail(compiles=2)
        with pytest.raises(Internal):
            await asked
        lines = [fields for event, fields in bench.fakes.log.events if event == "compiled_on_request_path"]
        assert lines == [
            {"bucket": "1x8", "compiles": 1, "seconds": 4.25},
            {"bucket": "1x8", "compiles": 2, "seconds": 0.0},
        ]
        await bench.supervisor.stop()

    asyncio.run(scenario())
