"""From texts or ids to vectors."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes.embeddings import embeddings

from server.core.catalog import Catalogue
from server.core.lifecycle import Event, Life
from server.core.types import (
    BadRequest,
    Bucket,
    BucketTiming,
    DeadlinePassed,
    EngineFacts,
    ModelNotFound,
    NotReady,
    QueueFull,
    ShapeNotServed,
    TokenRows,
)
from server.core.visit import Visit
from server.ports.worker import Finished, Run
from server.runtime.batcher import Batcher
from server.runtime.predict import Predictor


class LetterTokenizer:
    """One token a letter between 1 and 2, after ``release``; ``asked`` is how often."""

    loaded = True

    def __init__(self) -> None:
        self.asked = 0
        self.release = asyncio.Event()
        self.release.set()

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        self.asked += 1
        await self.release.wait()
        return [[1, *[ord(letter) % 100 for letter in text], 2] for text in texts]

    def at_least(self, text: str, enough: int) -> int:
        return min(enough, 2 + len(text))


def life(ready: bool) -> Life:
    start = Life(since=0.0, buckets=1)
    if not ready:
        return start
    warm = BucketTiming(Bucket(1, 4), 1.0, 0.1, 4, 1, "eager")
    return start.after(Event.SPAWNED, 1.0).after(Event.LOADED, 1.0).finished(warm).after(Event.WARMED, 2.0)


def predictor_of(
    fakes: SimpleNamespace,
    facts: EngineFacts,
    *,
    ready: bool = True,
    tokenizer: LetterTokenizer | None = None,
    largest: Bucket | None = None,
) -> Predictor:
    def send(run: Run) -> None:
        rows = embeddings(bytes(run.bucket.batch * facts.dim * 4), facts.dim)
        asyncio.get_running_loop().call_soon(batcher.finished, Finished(run.number, rows, 0.1, 0))

    catalogue = Catalogue((1, 2), (8,), largest)
    batcher = Batcher(catalogue, 2, send, fakes.clock, fakes.telemetry)
    batcher.open(compiled=True)
    return Predictor(
        "m",
        lambda: life(ready),
        lambda: facts if ready else None,
        catalogue,
        tokenizer or LetterTokenizer(),
        batcher,
        fakes.clock,
    )


def test_texts_become_rows_with_their_special_tokens_counted(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Two texts of one and three letters are eight tokens."""
    prediction = asyncio.run(predictor_of(fakes, facts).texts(["a", "bcd"], Visit(100.0)))
    assert (prediction.rows, prediction.tokens) == (2, 8)
    assert prediction.outputs["embedding"].shape == (2, 2)


def test_no_texts_are_refused(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """An empty list has no answer."""
    with pytest.raises(BadRequest):
        asyncio.run(predictor_of(fakes, facts).texts([], Visit(100.0)))


@pytest.mark.parametrize(
    ("texts", "part"), [([""] * 3, "got 3 rows"), (["a", "bcdefgh"], "a text of at least 9 tokens")]
)
def test_what_cannot_be_served_is_not_tokenised(
    fakes: SimpleNamespace, facts: EngineFacts, texts: list[str], part: str
) -> None:
    """Too many texts, or one that is too long for certain, cost nothing."""

    async def scenario() -> None:
        tokenizer = LetterTokenizer()
        with pytest.raises(ShapeNotServed, match=part):
            await predictor_of(fakes, facts, tokenizer=tokenizer).texts(texts, Visit(100.0))
        assert tokenizer.asked == 0

    asyncio.run(scenario())


def test_a_lenient_server_takes_undeclared_shapes_up_to_its_bound(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Texts as well as ids, more rows as well as longer ones; what is beyond the bound is still not tokenised."""

    async def scenario() -> None:
        tokenizer = LetterTokenizer()
        predictor = predictor_of(fakes, facts, tokenizer=tokenizer, largest=Bucket(3, 12))
        for texts, bucket in ((["a" * 7], "1x12"), (["a", "b", "c"], "3x8"), (["a"], "1x8")):
            prediction = await predictor.texts(texts, Visit(100.0))
            assert (prediction.rows, str(prediction.bucket)) == (len(texts), bucket)
        assert str((await predictor.tokens(TokenRows([[1] * 9]), Visit(100.0))).bucket) == "1x12"
        asked = tokenizer.asked
        for beyond in (["a"] * 4, ["a" * 11]):
            with pytest.raises(ShapeNotServed, match="at most 3 rows of at most 12 tokens"):
                await predictor.texts(beyond, Visit(100.0))
        assert tokenizer.asked == asked

    asyncio.run(scenario())


def test_ids_outside_the_catalogue_are_refused_before_each_is_looked_at(
    fakes: SimpleNamespace, facts: EngineFacts
) -> None:
    """The shape is the reason, whatever the ids are."""
    with pytest.raises(ShapeNotServed):
        asyncio.run(predictor_of(fakes, facts).tokens(TokenRows([[100] * 9]), Visit(100.0)))


def test_who_is_being_tokenised_stands_in_the_queue(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """The next one is refused when the queue is full of them."""

    async def scenario() -> None:
        tokenizer = LetterTokenizer()
        tokenizer.release.clear()
        predictor = predictor_of(fakes, facts, tokenizer=tokenizer)
        first = asyncio.create_task(predictor.texts(["a", "b"], Visit(100.0)))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull):
            await predictor.texts(["c"], Visit(100.0))
        tokenizer.release.set()
        assert (await first).rows == 2
        assert fakes.telemetry.queue[-1] == 0

    asyncio.run(scenario())


def test_the_deadline_holds_while_tokenising(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """The caller is told at its deadline, and its place is free again."""

    async def scenario() -> None:
        tokenizer = LetterTokenizer()
        tokenizer.release.clear()
        predictor = predictor_of(fakes, facts, tokenizer=tokenizer)
        async with asyncio.timeout(20):
            with pytest.raises(DeadlinePassed):
                await predictor.texts(["a", "b"], Visit(100.0, 100.01))
        assert fakes.telemetry.queue[-1] == 0

    asyncio.run(scenario())


def test_ids_are_checked_against_the_vocabulary(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """A wrong id would give a wrong answer on the device."""
    with pytest.raises(BadRequest, match="allowed are 0 to 99"):
        asyncio.run(predictor_of(fakes, facts).tokens(TokenRows([[100]]), Visit(100.0)))


def test_before_ready_nothing_is_accepted(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """The refusal carries the state's own sentence."""
    with pytest.raises(NotReady, match="starting the device worker"):
        asyncio.run(predictor_of(fakes, facts, ready=False).texts(["a"], Visit(100.0)))


def test_another_models_name_is_refused_with_the_served_one(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """The sentence says what came and what is served."""
    predictor = predictor_of(fakes, replace(facts))
    predictor.check_model("m")
    with pytest.raises(ModelNotFound, match="got 'x', this server serves 'm'"):
        predictor.check_model("x")
