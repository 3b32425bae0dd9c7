"""The way of a request is noted where it is wanted, phase by phase."""

import asyncio
from array import array
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.journey import Journey, Shared
from server.core.types import Bucket, NotReady, TokenRows
from server.core.visit import Visit
from server.ports.worker import Finished
from server.runtime.batcher import Batcher


def test_members_of_a_batch_note_the_same_batch(fakes: SimpleNamespace) -> None:
    """Who is not recorded notes nothing, and is counted in the batch all the same."""

    async def scenario() -> None:
        batcher = Batcher(Catalogue((1, 4), (4,)), 8, lambda run: None, fakes.clock, fakes.telemetry)
        batcher.open(compiled=True)
        visits = [Visit(100.0), Visit(100.0, journey=Journey()), Visit(100.0, journey=Journey()), Visit(100.0)]
        asked = [asyncio.create_task(batcher.answer(TokenRows([[1, 2]]), visit)) for visit in visits]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        fakes.clock.now = 101.0
        batcher.finished(Finished(1, embeddings(array("f", [1]).tobytes(), 1), 0.5, 0))
        fakes.clock.now = 103.0
        batcher.finished(Finished(2, embeddings(array("f", [1] * 4).tobytes(), 1), 1.0, 2, began=101.5))
        await asyncio.gather(*asked)
        shared = Shared(2, Bucket(4, 4), requests=3, rows=3, padding=1 - 6 / 16)
        for visit in visits[1:3]:
            assert visit.journey is not None
            queue, batch = visit.journey.steps
            assert (queue.leg, queue.began, queue.ended) == ("queue", 100.0, 101.0)
            assert (batch.batch, batch.began, batch.ended, batch.compiles) == (shared, 101.0, 103.0, 2)
            assert batch.device == (101.5, 102.5)

    asyncio.run(scenario())


def test_who_never_reaches_the_device_is_still_in_its_queue(fakes: SimpleNamespace) -> None:
    """The step stays open for whoever knows why the request ended."""

    async def scenario() -> None:
        batcher = Batcher(Catalogue((1,), (4,)), 8, lambda run: None, fakes.clock, fakes.telemetry)
        batcher.open(compiled=True)
        visit = Visit(100.0, journey=Journey())
        asked = [asyncio.create_task(batcher.answer(TokenRows([[1]]), each)) for each in (Visit(100.0), visit)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        batcher.close("gone")
        with pytest.raises(NotReady):
            await asked[1]
        await asyncio.gather(*asked, return_exceptions=True)
        assert visit.journey is not None
        assert [(step.leg, step.ended) for step in visit.journey.steps] == [("queue", None)]

    asyncio.run(scenario())
