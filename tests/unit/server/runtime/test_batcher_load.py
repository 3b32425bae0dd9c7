"""Queue bounds in time, copies, and requests in parts."""

import asyncio
from array import array
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.lifecycle import Event, Life
from server.core.signature import IDS
from server.core.types import (
    Bucket,
    BucketTiming,
    DeadlinePassed,
    EngineFacts,
    Internal,
    NotReady,
    QueueFull,
    ShapeNotServed,
    TokenRows,
)
from server.core.visit import Visit
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.batcher import Batcher
from server.runtime.predict import Prediction, Predictor

CATALOGUE = Catalogue((1, 2), (4, 8))
TIMINGS = [BucketTiming(bucket, 1.0, 1.0, 4, 0, "eager") for bucket in CATALOGUE.buckets()]
"""One second a batch, whichever."""


class Ready:
    """A batcher with a device that answers when the test says so: each row's vector is its first id and its length."""

    def __init__(self, fakes: SimpleNamespace, facts: EngineFacts, *, max_wait_s: float = 100.0) -> None:
        self.sent: list[Run] = []
        self.clock = fakes.clock
        self.batcher = Batcher(CATALOGUE, 16, self.sent.append, fakes.clock, fakes.telemetry, max_wait_s=max_wait_s)
        self.batcher.open(compiled=False, timings=TIMINGS)
        life = Life(0.0).after(Event.SPAWNED, 0.0).after(Event.LOADED, 0.0).after(Event.WARMED, 0.0)
        self.predictor = Predictor(
            "m", lambda: life, lambda: facts, CATALOGUE, SimpleNamespace(), self.batcher, fakes.clock, max_rows=16
        )

    def ask(self, *rows: list[int], deadline: float | None = None, shadow: bool = False) -> "asyncio.Task[Prediction]":
        visit = Visit(self.clock.now, deadline, shadow=shadow)
        return asyncio.create_task(self.predictor.tokens(TokenRows(rows), visit))

    def device_answers(self, seconds: float = 1.0) -> Run:
        """The batch that runs takes so long, and the next one begins."""
        run = self.sent[-1]
        self.clock.now += seconds
        ids = memoryview(run.inputs[IDS].data).cast("i")
        width = run.bucket.length
        rows = [ids[at : at + width].tolist() for at in range(0, len(ids), width)]
        data = array("f", [value for row in rows for value in (row[0], sum(1 for each in row if each))])
        self.batcher.finished(Finished(run.number, embeddings(data.tobytes()), seconds, 0))
        return run


async def turns() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


def test_a_large_request_is_answered_as_one(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Five rows on a device that takes two: three batches, rows of like length together, the order as asked."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        asked = ready.ask([1, 1], [2] * 8, [3], [4] * 7, [5, 5, 5])
        await turns()
        assert fakes.telemetry.queue[-1] == 3
        buckets = []
        while not asked.done():
            buckets.append(str(ready.device_answers().bucket))
            await turns()
        assert buckets == ["2x8", "2x4", "1x4"]
        got = await asked
        assert list(memoryview(got.outputs["embedding"].data).cast("f")) == [1, 2, 2, 8, 3, 1, 4, 7, 5, 3]
        assert (got.rows, got.tokens, str(got.bucket)) == (5, 21, "2x8")
        assert (got.queue_s, got.batch_s, got.device_s) == (0.0, 3.0, 3.0)
        assert fakes.telemetry.queue[-1] == 0

    asyncio.run(scenario())


def test_a_large_request_takes_turns_with_others(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Who came while its first part ran is served before its second."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        large = ready.ask(*[[1]] * 6)
        await turns()
        small = ready.ask([2], [2])
        await turns()
        ready.device_answers()
        await turns()
        ready.device_answers()
        assert (await small).queue_s == 1.0
        while not large.done():
            await turns()
            ready.device_answers()
            await turns()
        got = await large
        assert (got.rows, got.queue_s, got.batch_s) == (6, 1.0, 3.0)

    asyncio.run(scenario())


def test_a_part_that_fails_fails_the_request(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Nothing of it is left in the queue, and no further part is run."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        large = ready.ask(*[[1]] * 5)
        await turns()
        ready.device_answers()
        await turns()
        ready.batcher.run_failed(RunFailed(2, "out of memory", 0))
        with pytest.raises(Internal, match="out of memory"):
            await large
        await turns()
        assert len(ready.sent) == 2
        assert fakes.telemetry.queue[-1] == 0

    asyncio.run(scenario())


def test_a_large_request_whose_caller_leaves_runs_no_further_part(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """What is on the device ends; the rest frees its places."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        large = ready.ask(*[[1]] * 6)
        await turns()
        large.cancel()
        await asyncio.gather(large, return_exceptions=True)
        ready.device_answers()
        await turns()
        assert len(ready.sent) == 1
        assert fakes.telemetry.queue[-1] == 0

    asyncio.run(scenario())


def test_places_of_later_parts_are_kept(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Others find the queue as full as it will be, so no part is refused once the first has run."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        large = ready.ask(*[[1]] * 16)
        await turns()
        others = [ready.ask([2], [2]), ready.ask([2], [2])]
        await turns()
        assert fakes.telemetry.queue[-1] == 16
        with pytest.raises(QueueFull, match="16 rows are waiting"):
            await others[1]
        while not large.done():
            ready.device_answers()
            await turns()
        assert ((await large).rows, (await others[0]).rows) == (16, 2)

    asyncio.run(scenario())


def test_more_rows_than_may_wait_are_no_request(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """And a row that is too long is refused before any part runs."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        with pytest.raises(ShapeNotServed, match="got 17 rows, this server takes at most 16 rows"):
            await ready.ask(*[[1]] * 17)
        with pytest.raises(ShapeNotServed, match="9 tokens"):
            await ready.ask(*[[1]] * 5, [1] * 9)
        assert ready.sent == []

    asyncio.run(scenario())


def test_closing_ends_a_large_request_between_its_parts(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """The next part finds the door closed, though no answer was outstanding."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        large = ready.ask(*[[1]] * 5)
        await turns()
        ready.device_answers()
        ready.batcher.close("worker: gone")
        with pytest.raises(NotReady, match="worker: gone"):
            await large
        assert fakes.telemetry.queue[-1] == 0

    asyncio.run(scenario())


def test_the_queue_is_bounded_in_time(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Company for a batch that will be formed anyway costs nothing; a lane of its own is another batch."""

    async def scenario() -> None:
        ready = Ready(fakes, facts, max_wait_s=0.5)
        asked = [ready.ask([1]) for _ in range(3)]
        await turns()
        with pytest.raises(QueueFull, match=r"the wait is 1\.00 s, longer than the limit of 0\.5 s") as refused:
            await ready.ask([1] * 8)
        assert refused.value.retry_after_s == pytest.approx(2.0)
        ready.device_answers()
        await turns()
        ready.device_answers()
        assert [(await each).rows for each in asked] == [1, 1, 1]

    asyncio.run(scenario())


def test_texts_that_find_a_full_queue_are_told_when_it_is_gone(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Sixteen rows on a device that takes two a second: eight batches and what is left of the one that runs."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        asked = [ready.ask([1]) for _ in range(17)]
        await turns()
        with pytest.raises(QueueFull) as refused, ready.batcher.reserved(1, Visit(fakes.clock.now)):
            pass
        assert refused.value.retry_after_s == pytest.approx(9.0)
        ready.batcher.close("end")
        await asyncio.gather(*asked, return_exceptions=True)

    asyncio.run(scenario())


def test_who_would_be_late_does_not_wait(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """A second of the device is left, another is the request's own."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        first = ready.ask([1])
        await turns()
        with pytest.raises(DeadlinePassed, match=r"an answer would take 2\.00 s, the caller's time is over in 1\.90 s"):
            await ready.ask([2], deadline=101.9)
        patient = ready.ask([2], deadline=102.1)
        await turns()
        assert fakes.telemetry.queue[-1] == 1
        ready.device_answers()
        await first
        ready.device_answers()
        await patient

    asyncio.run(scenario())


def test_estimates_follow_a_device_that_became_slower(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Batches that take three seconds instead of one: a deadline that was kept before is refused now."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        for _ in range(40):
            asked = ready.ask([1])
            await turns()
            ready.device_answers(3.0)
            await asked
        first = ready.ask([1])
        await turns()
        with pytest.raises(DeadlinePassed, match="an answer would take 5"):
            await ready.ask([2], deadline=fakes.clock.now + 5.0)
        ready.batcher.close("end")
        await asyncio.gather(first, return_exceptions=True)

    asyncio.run(scenario())


def test_a_copy_is_shed_before_a_live_request(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """At half of the limit; once admitted it is served in its turn like any other."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        running = ready.ask([1])
        await turns()
        copy = ready.ask([2], shadow=True)
        live = [ready.ask([3], [3]) for _ in range(4)]
        await turns()
        with pytest.raises(QueueFull, match="of which copies have a part"):
            await ready.ask([4], shadow=True)
        last = ready.ask([5])
        await turns()
        ready.device_answers()
        await turns()
        ready.device_answers()
        assert (await copy).queue_s == 1.0
        ready.batcher.close("end")
        await asyncio.gather(running, last, *live, return_exceptions=True)

    asyncio.run(scenario())


def test_a_deadline_that_passes_on_the_device_says_so(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """It is no loss of the queue."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        with pytest.raises(DeadlinePassed, match="in phase device"):
            await ready.ask([1], deadline=100.01)
        assert fakes.telemetry.left == []

    asyncio.run(scenario())


def test_a_batch_is_as_large_as_is_worth_while(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Two rows in one batch of two, but for a device on which that takes three times as long as one."""

    async def scenario() -> None:
        ready = Ready(fakes, facts)
        dear = [BucketTiming(each, 1.0, 3.0 if each.batch == 2 else 1.0, 4, 0, "eager") for each in CATALOGUE.buckets()]
        for timings, expected in ((TIMINGS, Bucket(2, 4)), (dear, Bucket(1, 4))):
            ready.batcher.open(compiled=False, timings=timings)
            asked = [ready.ask([1]) for _ in range(3)]
            await turns()
            ready.device_answers()
            await turns()
            assert ready.sent[-1].bucket == expected
            while not all(each.done() for each in asked):
                ready.device_answers()
                await turns()

    asyncio.run(scenario())
