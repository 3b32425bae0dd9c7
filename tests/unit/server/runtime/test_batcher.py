"""One batch at a time, formed at the moment the device falls idle."""

import asyncio
from array import array
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.signature import IDS
from server.core.tensors import Raw
from server.core.types import Bucket, DeadlinePassed, Internal, NotReady, QueueFull, ShapeNotServed, TokenRows
from server.core.visit import Visit
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.batcher import Batcher


def batcher_of(fakes: SimpleNamespace, sent: list[Run], max_rows: int = 8) -> Batcher:
    batcher = Batcher(Catalogue((1, 2), (4, 8)), max_rows, sent.append, fakes.clock, fakes.telemetry)
    batcher.open(compiled=True)
    return batcher


def vectors(*values: float) -> dict[str, Raw]:
    return embeddings(array("f", values).tobytes())


def one(*ids: int) -> TokenRows:
    return TokenRows([list(ids)])


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_an_idle_device_is_fed_at_once(fakes: SimpleNamespace) -> None:
    """The request leaves in the same turn of the loop, padded to its bucket, and gets its own rows back."""

    async def scenario() -> None:
        sent: list[Run] = []
        batcher = batcher_of(fakes, sent)
        asked = asyncio.create_task(batcher.answer(one(5, 6), Visit(99.5)))
        await turns()
        assert [run.bucket for run in sent] == [Bucket(1, 4)]
        assert list(memoryview(sent[0].inputs[IDS].data).cast("i")) == [5, 6, 0, 0]
        fakes.clock.now = 100.25
        batcher.finished(Finished(sent[0].number, vectors(1, 2), device_s=0.2, compiles=0))
        got = await asked
        assert got.outputs == vectors(1, 2)
        assert (got.bucket, got.queue_s, got.batch_s, got.device_s) == (Bucket(1, 4), 0.5, 0.25, 0.2)
        assert batcher.running_s(101.0) == 0.0

    asyncio.run(scenario())


def test_who_comes_while_the_device_is_busy_shares_the_next_batch(fakes: SimpleNamespace) -> None:
    """Batches form by themselves under load; each request gets its share in order."""

    async def scenario() -> None:
        sent: list[Run] = []
        batcher = batcher_of(fakes, sent)
        asked = [asyncio.create_task(batcher.answer(one(number), Visit(100.0))) for number in (1, 2, 3)]
        await turns()
        assert len(sent) == 1
        batcher.finished(Finished(1, vectors(1, 1), 0.1, 0))
        assert [run.bucket for run in sent] == [Bucket(1, 4), Bucket(2, 4)]
        batcher.finished(Finished(2, vectors(2, 2, 3, 3), 0.1, 0))
        assert [(await each).outputs for each in asked] == [vectors(1, 1), vectors(2, 2), vectors(3, 3)]

    asyncio.run(scenario())


def test_a_shape_outside_the_catalogue_never_reaches_the_device(fakes: SimpleNamespace) -> None:
    """It is refused before it waits."""

    async def scenario() -> None:
        sent: list[Run] = []
        batcher = batcher_of(fakes, sent)
        with pytest.raises(ShapeNotServed):
            await batcher.answer(TokenRows([[1] * 9]), Visit(100.0))
        with pytest.raises(ShapeNotServed):
            await batcher.answer(TokenRows([[1], [1], [1]]), Visit(100.0))
        assert sent == []

    asyncio.run(scenario())


def test_a_full_queue_refuses_at_once(fakes: SimpleNamespace) -> None:
    """The bound is in rows that wait, the batch on the device not counted."""

    async def scenario() -> None:
        batcher = batcher_of(fakes, [], max_rows=2)
        asked = [asyncio.create_task(batcher.answer(one(number), Visit(100.0))) for number in (1, 2, 3)]
        await turns()
        with pytest.raises(QueueFull):
            await batcher.answer(one(4), Visit(100.0))
        batcher.close("end")
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(scenario())


def test_rows_that_are_being_tokenised_count_as_waiting(fakes: SimpleNamespace) -> None:
    """Their place is held, and nobody else gets it in between."""

    async def scenario() -> None:
        batcher = batcher_of(fakes, [], max_rows=2)
        stuck = asyncio.create_task(batcher.answer(one(1), Visit(100.0)))
        await turns()
        with batcher.reserved(2, Visit(100.0)):
            assert fakes.telemetry.queue[-1] == 2
            with pytest.raises(QueueFull, match="2 rows are waiting"):
                await batcher.answer(one(2), Visit(100.0))
            with pytest.raises(QueueFull), batcher.reserved(1, Visit(100.0)):
                pass
        held = asyncio.create_task(batcher.answer(TokenRows([[1], [2]]), Visit(100.0)))
        await turns()
        assert fakes.telemetry.queue[-1] == 2
        batcher.close("end")
        await asyncio.gather(stuck, held, return_exceptions=True)
        with pytest.raises(NotReady), batcher.reserved(1, Visit(100.0)):
            pass

    asyncio.run(scenario())


def test_a_deadline_that_passed_in_the_queue_is_answered_without_the_device(fakes: SimpleNamespace) -> None:
    """It is looked at when the device falls idle; the late request is not run."""

    async def scenario() -> None:
        sent: list[Run] = []
        batcher = batcher_of(fakes, sent)
        first = asyncio.create_task(batcher.answer(one(1), Visit(100.0)))
        late = asyncio.create_task(batcher.answer(one(2), Visit(100.0, 400.0)))
        await turns()
        fakes.clock.now = 401.0
        batcher.finished(Finished(1, vectors(1, 1), 0.1, 0))
        with pytest.raises(DeadlinePassed, match="in phase queue"):
            await late
        await first
        assert len(sent) == 1
        assert fakes.telemetry.left == ["deadline"]

    asyncio.run(scenario())


def test_a_deadline_fires_even_when_the_device_never_answers(fakes: SimpleNamespace) -> None:
    """The caller is told at its deadline, and its place in the queue is free again."""

    async def scenario() -> None:
        batcher = batcher_of(fakes, [])
        stuck = asyncio.create_task(batcher.answer(one(1), Visit(100.0)))
        await turns()
        with pytest.raises(DeadlinePassed, match="in phase queue"):
            await batcher.answer(one(2), Visit(100.0, 100.01))
        assert fakes.telemetry.queue[-1] == 0
        assert fakes.telemetry.left == ["deadline"]
        batcher.close("end")
        await asyncio.gather(stuck, return_exceptions=True)

    asyncio.run(scenario())


def test_a_cancelled_request_leaves_the_queue(fakes: SimpleNamespace) -> None:
    """Nothing is computed for a caller that is gone, and nothing leaks."""

    async def scenario() -> None:
        sent: list[Run] = []
        batcher = batcher_of(fakes, sent)
        first = asyncio.create_task(batcher.answer(one(1), Visit(100.0)))
        gone = asyncio.create_task(batcher.answer(one(2), Visit(100.0)))
        await turns()
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        batcher.finished(Finished(1, vectors(1, 1), 0.1, 0))
        await first
        assert len(sent) == 1
        assert fakes.telemetry.queue[-1] == 0
        assert fakes.telemetry.left == ["gone"]

    asyncio.run(scenario())


def test_a_caller_that_leaves_during_its_batch_does_not_disturb_the_others(fakes: SimpleNamespace) -> None:
    """The rows stay in the batch; their share falls away."""

    async def scenario() -> None:
        batcher = batcher_of(fakes, [])
        first = asyncio.create_task(batcher.answer(one(1), Visit(100.0)))
        pair = [asyncio.create_task(batcher.answer(one(number), Visit(100.0))) for number in (2, 3)]
        await turns()
        batcher.finished(Finished(1, vectors(1, 1), 0.1, 0))
        pair[0].cancel()
        await asyncio.gather(pair[0], return_exceptions=True)
        batcher.finished(Finished(2, vectors(2, 2, 3, 3), 0.1, 0))
        assert (await pair[1]).outputs == vectors(3, 3)
        await first

    asyncio.run(scenario())


def test_a_failed_batch_fails_its_requests_and_the_next_one_runs(fakes: SimpleNamespace) -> None:
    """One batch's error is not another's."""

    async def scenario() -> None:
        sent: list[Run] = []
        batcher = batcher_of(fakes, sent)
        first = asyncio.create_task(batcher.answer(one(1), Visit(100.0)))
        second = asyncio.create_task(batcher.answer(one(2), Visit(100.0)))
        await turns()
        batcher.run_failed(RunFailed(1, "out of memory", compiles=2))
        with pytest.raises(Internal, match="out of memory"):
            await first
        assert fakes.telemetry.failed == [2]
        batcher.finished(Finished(2, vectors(2, 2), 0.1, 0))
        assert (await second).outputs == vectors(2, 2)

    asyncio.run(scenario())


def test_closing_tells_everyone_who_waits_or_runs(fakes: SimpleNamespace) -> None:
    """In the queue or on the device: all get the reason, and later ones too."""

    async def scenario() -> None:
        batcher = batcher_of(fakes, [])
        asked = [asyncio.create_task(batcher.answer(one(number), Visit(100.0))) for number in (1, 2)]
        await turns()
        batcher.close("worker: gone")
        for each in asked:
            with pytest.raises(NotReady, match="worker: gone"):
                await each
        with pytest.raises(NotReady, match="worker: gone"):
            await batcher.answer(one(3), Visit(100.0))

    asyncio.run(scenario())


def test_an_answer_to_an_unknown_batch_is_ignored(fakes: SimpleNamespace) -> None:
    """A word that was on its way when the batcher closed changes nothing."""

    async def scenario() -> None:
        batcher = batcher_of(fakes, [])
        assert batcher.finished(Finished(77, vectors(1, 1), 0.1, 0)) is None
        assert batcher.run_failed(RunFailed(77, "late", 0)) is None
        assert fakes.telemetry.batches == []

    asyncio.run(scenario())


def test_the_time_of_the_running_batch_is_known(fakes: SimpleNamespace) -> None:
    """Zero when the device is idle."""

    async def scenario() -> None:
        batcher = batcher_of(fakes, [])
        assert batcher.running_s(200.0) == 0.0
        stuck = asyncio.create_task(batcher.answer(one(1), Visit(100.0)))
        await turns()
        assert batcher.running_s(160.0) == 60.0
        batcher.close("end")
        await asyncio.gather(stuck, return_exceptions=True)

    asyncio.run(scenario())
