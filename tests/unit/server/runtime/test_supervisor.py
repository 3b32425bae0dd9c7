"""The worker's words become the server's life."""

import asyncio
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.lifecycle import State
from server.core.types import Bucket, BucketTiming, EngineFacts, NotReady, TokenRows
from server.core.visit import Visit
from server.ports.worker import (
    Beat,
    BucketBegan,
    BucketWarm,
    Failed,
    Finished,
    Loaded,
    RunFailed,
    Start,
    Warmed,
    WorkerEvent,
)
from server.runtime import supervisor as supervisor_module
from server.runtime.batcher import Batcher
from server.runtime.supervisor import FAILED_BATCHES_LIMIT, Supervisor


def build(fakes: SimpleNamespace, start: Start) -> tuple[Supervisor, Batcher, list[EngineFacts]]:
    batcher = Batcher(Catalogue((1, 2), (4,)), 8, fakes.link.run, fakes.clock, fakes.telemetry)
    known: list[EngineFacts] = []
    supervisor = Supervisor(start, fakes.link, batcher, fakes.clock, fakes.telemetry, fakes.log, known.append)
    return supervisor, batcher, known


def warm_up(facts: EngineFacts) -> list[WorkerEvent]:
    events: list[WorkerEvent] = [Loaded(facts)]
    for bucket in (Bucket(2, 4), Bucket(1, 4)):
        events += [BucketBegan(bucket), BucketWarm(BucketTiming(bucket, 1.0, 0.1, 4, 1, "compiled"))]
    return [*events, Warmed()]


async def ready(supervisor: Supervisor, fakes: SimpleNamespace, facts: EngineFacts) -> None:
    await supervisor.start()
    for event in warm_up(facts):
        fakes.link.receive(event)


def test_the_worker_leads_the_server_to_ready(fakes: SimpleNamespace, start: Start, facts: EngineFacts) -> None:
    """Each word shows in the life at once; ready comes after the last bucket only."""

    async def scenario() -> None:
        supervisor, _, known = build(fakes, start)
        assert supervisor.life.state is State.STARTING
        await supervisor.start()
        assert supervisor.life.state is State.LOADING
        seen = []
        for event in warm_up(facts):
            fakes.link.receive(event)
            seen.append((supervisor.life.state.value, len(supervisor.life.warmed)))
        assert seen == [("warming", 0), ("warming", 0), ("warming", 1), ("warming", 1), ("warming", 2), ("ready", 2)]
        assert known == [facts]
        assert fakes.telemetry.lives[-1].ready
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_worker_that_is_lost_ends_readiness_at_once(fakes: SimpleNamespace, start: Start, facts: EngineFacts) -> None:
    """Requests in flight are told why, and the reason stays in the health answer."""

    async def scenario() -> None:
        supervisor, batcher, _ = build(fakes, start)
        await ready(supervisor, fakes, facts)
        asked = asyncio.create_task(batcher.answer(TokenRows([[1]]), Visit(100.0)))
        await asyncio.sleep(0)
        fakes.link.lost("the process ended with signal 9")
        assert (supervisor.life.ready, supervisor.life.live) == (False, True)
        with pytest.raises(NotReady, match=r"signal 9; it is being restarted"):
            await asked
        assert "signal 9" in supervisor.life.detail
        await supervisor.stop()

    asyncio.run(scenario())


def test_the_first_reason_of_a_failure_is_kept(fakes: SimpleNamespace, start: Start) -> None:
    """The exit code that follows says less than the sentence before it."""

    async def scenario() -> None:
        supervisor, _, _ = build(fakes, start)
        await supervisor.start()
        fakes.link.receive(Failed("model.path: /model is not a folder"))
        fakes.link.lost("the process ended with exit code 1")
        assert supervisor.life.detail == "model.path: /model is not a folder"
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_worker_that_cannot_be_started_is_a_failure(fakes: SimpleNamespace, start: Start) -> None:
    """The reason names the error."""

    async def scenario() -> None:
        fakes.link.refuses = OSError(12, "Cannot allocate memory")
        supervisor, _, _ = build(fakes, start)
        await supervisor.start()
        assert supervisor.life.state is State.FAILED
        assert "Cannot allocate memory" in supervisor.life.detail
        await supervisor.stop()

    asyncio.run(scenario())


def test_draining_a_ready_server_goes_on_serving(fakes: SimpleNamespace, start: Start, facts: EngineFacts) -> None:
    """Not ready, but what arrives is still sent to the device."""

    async def scenario() -> None:
        supervisor, batcher, _ = build(fakes, start)
        await ready(supervisor, fakes, facts)
        assert supervisor.drain()
        assert (supervisor.life.ready, supervisor.life.serves) == (False, True)
        asked = asyncio.create_task(batcher.answer(TokenRows([[1]]), Visit(100.0)))
        await asyncio.sleep(0)
        assert len(fakes.link.runs) == 1
        await supervisor.stop()
        with pytest.raises(NotReady):
            await asked

    asyncio.run(scenario())


def test_draining_during_the_warm_up_has_nothing_to_finish(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """Progress that was on its way is ignored, not an error."""

    async def scenario() -> None:
        supervisor, _, _ = build(fakes, start)
        await supervisor.start()
        events = warm_up(facts)
        fakes.link.receive(events[0])
        assert not supervisor.drain()
        for event in events[1:]:
            fakes.link.receive(event)
        assert supervisor.life.state is State.DRAINING
        await supervisor.stop()
        assert fakes.link.kills == 1
        assert supervisor.life.state is State.STOPPED

    asyncio.run(scenario())


def test_a_silent_worker_is_stuck_until_it_speaks_again(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not live, nobody is served, and it is left alone; with its next word everything is as before."""

    async def scenario() -> None:
        monkeypatch.setattr(supervisor_module, "WATCH_S", 0.001)
        supervisor, batcher, _ = build(fakes, start)
        await ready(supervisor, fakes, facts)
        fakes.clock.now += 31.0
        await until_state(fakes, State.STUCK)
        assert not supervisor.life.live
        assert supervisor.life.detail == "worker: nothing heard for 31 s"
        with pytest.raises(NotReady, match="nothing heard"):
            await batcher.answer(TokenRows([[1]]), Visit(100.0))
        fakes.link.receive(Beat())
        assert supervisor.life.ready
        asked = asyncio.create_task(batcher.answer(TokenRows([[1]]), Visit(131.0)))
        await asyncio.sleep(0)
        fakes.link.receive(Finished(fakes.link.runs[-1].number, embeddings(bytes(8)), 0.1, 0))
        await asked
        assert fakes.link.kills == 0
        await supervisor.stop()

    asyncio.run(scenario())


def test_words_that_wait_behind_a_stall_of_ours_are_read_first(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A front that stood still does not kill the worker that it did not listen to."""

    async def scenario() -> None:
        monkeypatch.setattr(supervisor_module, "WATCH_S", 0.001)
        monkeypatch.setattr(supervisor_module, "READ_S", 0.001)
        supervisor, _, _ = build(fakes, start)
        await ready(supervisor, fakes, facts)
        looks = asyncio.Semaphore(0)

        def stalled() -> None:
            fakes.clock.on_read = looks.release
            fakes.clock.now += 31.0
            asyncio.get_running_loop().call_soon(fakes.link.receive, Beat())

        fakes.clock.on_read = stalled
        async with asyncio.timeout(20):
            for _ in range(4):
                await looks.acquire()
        assert supervisor.life.ready
        assert fakes.link.kills == 0
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_device_that_fails_every_batch_ends_readiness(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """So many in a row, with the last error; one that finishes between them starts the count anew."""

    async def scenario() -> None:
        supervisor, batcher, _ = build(fakes, start)
        await ready(supervisor, fakes, facts)
        for _ in range(FAILED_BATCHES_LIMIT - 1):
            fakes.link.receive(RunFailed(0, "out of memory", 0))
        fakes.link.receive(Finished(0, {}, 0.1, 0))
        for _ in range(FAILED_BATCHES_LIMIT - 1):
            fakes.link.receive(RunFailed(0, "out of memory", 0))
        assert supervisor.life.ready
        fakes.link.receive(RunFailed(0, "device halted", 0))
        assert (supervisor.life.state, supervisor.life.restarts) == (State.STARTING, 1)
        assert f"{FAILED_BATCHES_LIMIT} batches in a row" in supervisor.life.detail
        assert "device halted" in supervisor.life.detail
        with pytest.raises(NotReady, match="device halted"):
            await batcher.answer(TokenRows([[1]]), Visit(100.0))
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_beat_is_a_word(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that only beats is watched on and left alone."""

    async def scenario() -> None:
        monkeypatch.setattr(supervisor_module, "WATCH_S", 0.001)
        supervisor, _, _ = build(fakes, start)
        await ready(supervisor, fakes, facts)
        fakes.clock.now += 31.0
        fakes.link.receive(Beat())
        watched = asyncio.Semaphore(0)
        fakes.clock.on_read = watched.release
        async with asyncio.timeout(5):
            for _ in range(3):
                await watched.acquire()
        assert supervisor.life.ready
        assert fakes.link.kills == 0
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_batch_that_does_not_end_is_stuck_until_it_does(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beats of a worker whose device hangs prove nothing; the end of its batch does."""

    async def scenario() -> None:
        monkeypatch.setattr(supervisor_module, "WATCH_S", 0.001)
        supervisor, batcher, _ = build(fakes, start)
        await ready(supervisor, fakes, facts)
        asked = asyncio.create_task(batcher.answer(TokenRows([[1]]), Visit(100.0)))
        await asyncio.sleep(0)
        fakes.clock.now += 61.0
        fakes.link.receive(Beat())
        async with asyncio.timeout(20):
            with pytest.raises(NotReady, match="on the device for 61 s"):
                await asked
        fakes.link.receive(Beat())
        assert supervisor.life.state is State.STUCK
        fakes.link.receive(Finished(fakes.link.runs[-1].number, embeddings(bytes(8)), 61.0, 0))
        assert supervisor.life.ready
        await supervisor.stop()

    asyncio.run(scenario())


def test_a_warm_up_that_ends_after_its_time_still_ends_in_ready(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overdue it is stuck, whatever its beats say; its next step is a recovery."""

    async def scenario() -> None:
        monkeypatch.setattr(supervisor_module, "WATCH_S", 0.001)
        supervisor, _, _ = build(fakes, start)
        await supervisor.start()
        loaded, began, *rest = warm_up(facts)
        fakes.link.receive(loaded)
        fakes.link.receive(began)
        fakes.clock.now += 601.0
        fakes.link.receive(Beat())
        await until_state(fakes, State.STUCK)
        assert "bucket 2x4 has taken 601 s" in supervisor.life.detail
        fakes.link.receive(Beat())
        assert supervisor.life.state is State.STUCK
        for event in rest:
            fakes.link.receive(event)
        assert supervisor.life.ready
        await supervisor.stop()

    asyncio.run(scenario())


async def until_state(fakes: SimpleNamespace, state: State) -> None:
    """Turns the loop until the telemetry was told of ``state`` last."""
    async with asyncio.timeout(20):
        while fakes.telemetry.lives[-1].state is not state:  # noqa: ASYNC110  # the watch has no event for it
            await asyncio.sleep(0.001)
