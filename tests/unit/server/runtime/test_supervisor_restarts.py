"""A worker that is lost is started again, warms again, and not for ever."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.lifecycle import State
from server.core.restart import RestartRule
from server.core.types import Bucket, BucketTiming, Draining, EngineFacts, NotReady, TokenRows
from server.core.visit import Visit
from server.ports.worker import BucketBegan, BucketWarm, Failed, Finished, Loaded, RunFailed, Start, Warmed
from server.runtime.batcher import Batcher
from server.runtime.supervisor import FAILED_BATCHES_LIMIT, Rules, Supervisor

GONE = "the process ended with signal 9"


class Bench:
    """A server whose pauses between restarts are a millisecond."""

    def __init__(self, fakes: SimpleNamespace, start: Start, limit: int = 2) -> None:
        self.fakes = fakes
        self.batcher = Batcher(Catalogue((1, 2), (4,)), 8, fakes.link.run, fakes.clock, fakes.telemetry)
        rules = Rules(restart=RestartRule(limit=limit, back_off_s=0.001, steady_s=600.0))
        self.supervisor = Supervisor(
            start, fakes.link, self.batcher, fakes.clock, fakes.telemetry, fakes.log, lambda facts: None, rules
        )

    def warm(self, facts: EngineFacts) -> None:
        """What a worker says from its start to ready."""
        self.fakes.link.receive(Loaded(facts))
        for bucket in (Bucket(2, 4), Bucket(1, 4)):
            self.fakes.link.receive(BucketBegan(bucket))
            self.fakes.link.receive(BucketWarm(BucketTiming(bucket, 1.0, 0.1, 4, 0, "cache")))
        self.fakes.link.receive(Warmed())
        assert self.supervisor.life.ready

    async def until(self, state: State) -> None:
        async with asyncio.timeout(20):
            while self.supervisor.life.state is not state:  # noqa: ASYNC110  # a state has no event
                await asyncio.sleep(0.001)


def test_a_lost_worker_is_ended_started_again_and_warmed_again(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """Not ready until it is warm; then requests are answered as before, and the health answer counts it."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        fakes.link.lost(GONE)
        assert bench.supervisor.life.state is State.STARTING
        assert (bench.supervisor.life.live, bench.supervisor.life.started) == (True, True)
        with pytest.raises(NotReady, match="being restarted"):
            await bench.batcher.answer(TokenRows([[1]]), Visit(100.0))
        await bench.until(State.LOADING)
        assert fakes.link.kills == 1
        bench.warm(facts)
        assert bench.supervisor.life.restarts == 1
        asked = asyncio.create_task(bench.batcher.answer(TokenRows([[1]]), Visit(100.0)))
        await asyncio.sleep(0)
        fakes.link.receive(Finished(fakes.link.runs[-1].number, embeddings(bytes(8)), 0.1, 0))
        await asked
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("steady", [False, True])
def test_losses_in_a_row_have_an_end(fakes: SimpleNamespace, start: Start, facts: EngineFacts, steady: bool) -> None:
    """After it the server has failed and says how often; one that served for long is forgiven each time."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        for _ in range(3):
            bench.warm(facts)
            fakes.clock.now += 600.0 if steady else 1.0
            fakes.link.lost(GONE)
            if bench.supervisor.life.state is State.FAILED:
                break
            await bench.until(State.LOADING)
        assert bench.supervisor.life.live is steady
        if not steady:
            assert bench.supervisor.life.detail == (
                f"worker: {GONE}; it is not started again after 2 restarts in a row, the limit (restart.limit)"
            )
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_a_worker_that_dies_in_each_warm_up_gets_to_the_end(fakes: SimpleNamespace, start: Start) -> None:
    """However long each of them takes."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        for _ in range(2):
            fakes.clock.now += 1000.0
            fakes.link.lost(GONE)
            await bench.until(State.LOADING)
        fakes.link.lost(GONE)
        assert bench.supervisor.life.state is State.FAILED
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_a_restart_that_cannot_start_a_process_is_a_loss(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """It is tried again, and ends as any other."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        fakes.link.refuses = OSError(11, "Resource temporarily unavailable")
        fakes.link.lost(GONE)
        await bench.until(State.FAILED)
        assert "could not be started" in bench.supervisor.life.detail
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("in_service", [False, True])
def test_what_a_worker_gives_up_for_is_the_end_before_ready_only(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, in_service: bool
) -> None:
    """A model that does not load does not load the next time either; in service a new process may help."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        if in_service:
            bench.warm(facts)
        fakes.link.receive(Failed("worker: RuntimeError: device halted"))
        fakes.link.lost("the process ended with exit code 1")
        assert bench.supervisor.life.state is (State.STARTING if in_service else State.FAILED)
        assert "device halted" in bench.supervisor.life.detail
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_what_a_new_worker_gives_up_for_is_a_loss(fakes: SimpleNamespace, start: Start, facts: EngineFacts) -> None:
    """The same model was ready before: the device may still be held by the worker that is gone. It has an end, too."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        fakes.link.lost(GONE)
        await bench.until(State.LOADING)
        fakes.link.receive(Failed("device: in use by another process"))
        fakes.link.lost("the process ended with exit code 1")
        assert bench.supervisor.life.state is State.STARTING
        await bench.until(State.LOADING)
        fakes.link.receive(Failed("device: in use by another process"))
        assert bench.supervisor.life.state is State.FAILED
        assert "in use by another process; it is not started again" in bench.supervisor.life.detail
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_a_new_worker_that_loads_something_else_ends_the_server(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """The files were changed under a running server: its identity is promised, and its tokenizer is the old one."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        fakes.link.lost(GONE)
        await bench.until(State.LOADING)
        fakes.link.receive(Loaded(replace(facts, revision="other", acceptance="another figure")))
        assert bench.supervisor.life.state is State.FAILED
        assert "revision was rev, is other" in bench.supervisor.life.detail
        assert "acceptance" not in bench.supervisor.life.detail
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_a_restart_that_breaks_shows_in_the_health_answers(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """Nobody awaits it."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        fakes.link.refuses = RuntimeError("no loop")
        fakes.link.lost(GONE)
        await bench.until(State.FAILED)
        assert "RuntimeError: no loop" in bench.supervisor.life.detail
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_a_refusal_says_when_the_new_worker_should_be_ready(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """After the pause and what the first worker took; a server that leaves says that, and a second."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        fakes.clock.now += 10.0
        bench.warm(facts)
        fakes.link.lost(GONE)
        asked = asyncio.create_task(bench.batcher.answer(TokenRows([[1]]), Visit(100.0)))
        refused = (await asyncio.gather(asked, return_exceptions=True))[0]
        assert (type(refused), refused.retry_after_s) == (NotReady, pytest.approx(10.001))
        await bench.until(State.LOADING)
        bench.warm(facts)
        bench.supervisor.drain()
        bench.supervisor.give_up_waiting("server: stopping")
        with pytest.raises(Draining, match="server: stopping"):
            await bench.batcher.answer(TokenRows([[1]]), Visit(100.0))
        await bench.supervisor.stop()

    asyncio.run(scenario())


def test_a_device_that_fails_every_batch_gets_a_new_worker(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """And that one's failures are counted from the beginning."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        for _ in range(FAILED_BATCHES_LIMIT):
            fakes.link.receive(RunFailed(0, "device halted", 0))
        await bench.until(State.LOADING)
        bench.warm(facts)
        fakes.link.receive(RunFailed(0, "out of memory", 0))
        assert bench.supervisor.life.ready
        await bench.supervisor.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["drain", "stop"])
def test_leaving_during_the_pause_starts_no_worker(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, how: str
) -> None:
    """There is nobody to finish for, and no process is left behind."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        fakes.link.lost(GONE)
        receive = fakes.link.receive
        if how == "drain":
            assert not bench.supervisor.drain()
        await bench.supervisor.stop()
        assert fakes.link.receive == receive
        assert bench.supervisor.life.state is State.STOPPED
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_a_worker_that_is_lost_in_the_drain_is_not_started_again(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """The process is on its way out."""

    async def scenario() -> None:
        bench = Bench(fakes, start)
        await bench.supervisor.start()
        bench.warm(facts)
        bench.supervisor.drain()
        fakes.link.lost(GONE)
        assert bench.supervisor.life.state is State.FAILED
        await bench.supervisor.stop()

    asyncio.run(scenario())
