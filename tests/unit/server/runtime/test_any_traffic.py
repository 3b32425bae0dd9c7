"""Whoever comes, with whatever shape, and leaves whenever: each gets the rows that are its own, and no place is lost."""

import asyncio
from array import array
from collections.abc import Sequence
from types import SimpleNamespace

from fakes.embeddings import embeddings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.core.catalog import Catalogue, Exclusion
from server.core.lifecycle import Event, Life
from server.core.signature import IDS, MASK
from server.core.types import Bucket, BucketTiming, EngineFacts, Refused, TokenRows
from server.core.visit import Visit
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.batcher import Batcher
from server.runtime.predict import Prediction, Predictor

MAX_ROWS = 12
CATALOGUES = st.sampled_from(
    [
        Catalogue((1, 2, 4), (4, 8)),
        Catalogue((2, 3), (4, 8), exclude=(Exclusion((("batch", 3, None), ("length", 8, None))),)),
        Catalogue((1, 4), (4, 8), exclude=(Exclusion((("batch", 4, None), ("length", 4, 4))),)),
        Catalogue((1, 2), (4,), largest=Bucket(4, 8)),
    ]
)
ROWS = st.lists(st.integers(1, 8), min_size=1, max_size=MAX_ROWS)
ASKS = st.tuples(
    st.sampled_from(["texts", "tokens", "masked"]), ROWS, st.sampled_from([None, None, 0.0, 2.0]), st.booleans()
)
MOVES = st.one_of(
    ASKS,
    ASKS,
    st.sampled_from(["answers", "answers", "answers", "fails", "tokenised", "passes", "closes", "opens"]),
    st.tuples(st.just("leaves"), st.integers(0, 40)),
)


class Letters:
    """A tokenizer that ends when the test says so: a text of its tokens' numbers becomes them."""

    loaded = True

    def __init__(self) -> None:
        self.waiting: list[asyncio.Event] = []

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        self.waiting.append(asyncio.Event())
        await self.waiting[-1].wait()
        return [[int(each) for each in text.split()] for text in texts]

    def at_least(self, text: str, enough: int) -> int:
        return 1


class World:
    """A device that answers for each row with the sum of its tokens and their number."""

    def __init__(self, catalogue: Catalogue, seconds: Sequence[float], fakes: SimpleNamespace, facts: EngineFacts):
        self.fakes = fakes
        self.sent: list[Run] = []
        self.letters = Letters()
        self.timings = [
            BucketTiming(bucket, 1.0, seconds[place % len(seconds)], 4, 0, "eager")
            for place, bucket in enumerate(catalogue.buckets())
        ]
        self.batcher = Batcher(catalogue, MAX_ROWS, self.send, fakes.clock, fakes.telemetry, max_wait_s=9.0)
        life = Life(0.0).after(Event.SPAWNED, 0.0).after(Event.LOADED, 0.0).after(Event.WARMED, 0.0)
        self.predictor = Predictor(
            "m", lambda: life, lambda: facts, catalogue, self.letters, self.batcher, fakes.clock, max_rows=MAX_ROWS
        )
        self.asked: list[tuple[list[list[int]], asyncio.Task[Prediction]]] = []
        self.opens()

    def send(self, run: Run) -> None:
        assert not self.sent, "one batch at a time"
        self.sent.append(run)

    def opens(self) -> None:
        self.batcher.open(compiled=False, timings=self.timings)

    def move(self, kind: str, *given: object) -> None:
        match kind, given:
            case ("texts" | "tokens" | "masked"), (list(widths), deadline, shadow):
                self.ask(kind, widths, deadline, bool(shadow))
            case "leaves", (int(place),) if self.asked:
                self.asked[place % len(self.asked)][1].cancel()
            case "answers", _ if self.sent:
                self.answers(self.sent.pop())
            case "fails", _ if self.sent:
                self.batcher.run_failed(RunFailed(self.sent.pop().number, "out of memory", 0))
            case "tokenised", _ if self.letters.waiting:
                self.letters.waiting.pop(0).set()
            case "passes", _:
                self.fakes.clock.now += 1.0
            case "closes", _:
                self.batcher.close("worker: gone")
                self.sent.clear()
            case "opens", _ if not self.sent:
                self.opens()

    def ask(self, kind: str, widths: list[int], deadline: object, shadow: bool) -> None:
        number = 3 * len(self.asked)
        rows = [[(number + place + column) % 99 + 1 for column in range(width)] for place, width in enumerate(widths)]
        now = self.fakes.clock.now
        visit = Visit(now, now + deadline if isinstance(deadline, float) else None, shadow=shadow)
        if kind == "texts":
            work = self.predictor.texts([" ".join(map(str, row)) for row in rows], visit)
        elif kind == "tokens":
            work = self.predictor.tokens(TokenRows(rows), visit)
        else:
            masks = [[1] * len(row) + [0] * 3 for row in rows]
            work = self.predictor.tokens(TokenRows([[*row, 7, 7, 7] for row in rows], masks), visit)
        self.asked.append((rows, asyncio.create_task(work)))

    def answers(self, run: Run) -> None:
        self.fakes.clock.now += 0.5
        ids, mask = run.inputs[IDS].array(), run.inputs[MASK].array()
        assert ids.shape == mask.shape == (run.bucket.batch, run.bucket.length)
        numbers = [value for row in zip((ids * mask).sum(1), mask.sum(1), strict=True) for value in row]
        self.batcher.finished(Finished(run.number, embeddings(array("f", map(float, numbers)).tobytes()), 0.5, 0))

    async def end(self) -> None:
        """The device is quick in the end, and everybody hears something: what is theirs."""
        for _ in range(1000):
            self.move("tokenised")
            self.move("answers")
            await turns()
            if not self.sent and not self.letters.waiting:
                break
        for rows, task in self.asked:
            assert task.done()
            if not task.cancelled() and task.exception() is None:
                got = list(memoryview(task.result().outputs["embedding"].data).cast("f"))
                assert got == [value for row in rows for value in (sum(row), len(row))]
            else:
                assert task.cancelled() or isinstance(task.exception(), Refused)
        batcher = self.batcher
        assert (batcher._asked, batcher._lanes.rows, batcher._lanes._work_s, batcher.running) == ({}, 0, 0.0, None)
        assert (batcher._places.rows, batcher._places._held, batcher._lanes._with_deadline) == (0, set(), 0)
        assert not self.fakes.telemetry.queue or self.fakes.telemetry.queue[-1] == 0
        assert min(self.fakes.telemetry.queue, default=0) == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}


async def turns() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


@given(CATALOGUES, st.lists(st.sampled_from([0.1, 0.5, 2.0]), min_size=1, max_size=4), st.lists(MOVES, max_size=50))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_gets_its_own_rows_and_every_place_is_given_back(
    facts: EngineFacts, catalogue: Catalogue, seconds: list[float], moves: list[str | tuple[object, ...]]
) -> None:
    """Texts, ids and masks; whole and in parts; late, gone, refused; a worker that fails a batch, or is replaced."""
    from unit.server.runtime.conftest import FakeClock, FakeTelemetry

    fakes = SimpleNamespace(clock=FakeClock(), telemetry=FakeTelemetry())

    async def scenario() -> None:
        world = World(catalogue, seconds, fakes, facts)
        for move in moves:
            if isinstance(move, str):
                world.move(move)
            else:
                world.move(str(move[0]), *move[1:])
            await turns()
        await world.end()

    asyncio.run(scenario())
