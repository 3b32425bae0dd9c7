"""From texts or ids to vectors."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from server.core.catalog import Catalogue
from server.core.lifecycle import Event, Life
from server.core.types import BadRequest, Bucket, BucketTiming, EngineFacts, ModelNotFound, NotReady, TokenRows
from server.ports.worker import Finished, Run
from server.runtime.batcher import Batcher
from server.runtime.predict import Predictor


class LetterTokenizer:
    """One token a letter between 1 and 2."""

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[1, *[ord(letter) % 100 for letter in text], 2] for text in texts]


def life(ready: bool) -> Life:
    start = Life(since=0.0, buckets=1)
    if not ready:
        return start
    warm = BucketTiming(Bucket(1, 4), 1.0, 0.1, 4, 1, "eager")
    return start.after(Event.SPAWNED, 1.0).after(Event.LOADED, 1.0).finished(warm).after(Event.WARMED, 2.0)


def predictor_of(fakes: SimpleNamespace, facts: EngineFacts, *, ready: bool = True) -> Predictor:
    def send(run: Run) -> None:
        rows = bytes(run.bucket.batch * facts.dim * 4)
        asyncio.get_running_loop().call_soon(batcher.finished, Finished(run.number, rows, 0.1, 0))

    batcher = Batcher(Catalogue((1, 2), (8,)), 8, send, fakes.clock, fakes.telemetry)
    batcher.open(facts.dim)
    return Predictor("m", lambda: life(ready), lambda: facts if ready else None, LetterTokenizer(), batcher)


def test_texts_become_rows_with_their_special_tokens_counted(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """Two texts of one and three letters are eight tokens."""
    prediction = asyncio.run(predictor_of(fakes, facts).texts(["a", "bcd"], 100.0, None))
    assert (prediction.rows, prediction.dim, prediction.tokens) == (2, 2, 8)
    assert len(prediction.data) == 2 * 2 * 4


def test_no_texts_are_refused(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """An empty list has no answer."""
    with pytest.raises(BadRequest):
        asyncio.run(predictor_of(fakes, facts).texts([], 100.0, None))


def test_ids_are_checked_against_the_vocabulary(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """A wrong id would give a wrong answer on the device."""
    with pytest.raises(BadRequest, match="allowed are 0 to 99"):
        asyncio.run(predictor_of(fakes, facts).tokens(TokenRows([[100]]), 100.0, None))


def test_before_ready_nothing_is_accepted(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """The refusal carries the state's own sentence."""
    with pytest.raises(NotReady, match="starting the device worker"):
        asyncio.run(predictor_of(fakes, facts, ready=False).texts(["a"], 100.0, None))


def test_another_models_name_is_refused_with_the_served_one(fakes: SimpleNamespace, facts: EngineFacts) -> None:
    """The sentence says what came and what is served."""
    predictor = predictor_of(fakes, replace(facts))
    predictor.check_model("m")
    with pytest.raises(ModelNotFound, match="got 'x', this server serves 'm'"):
        predictor.check_model("x")
