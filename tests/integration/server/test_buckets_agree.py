"""An answer depends neither on its bucket nor on its neighbours: the real weights, random rows, batches and buckets."""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integration.server.running import CACHE, folder

from server.adapters.worker.link import ProcessLink
from server.core.catalog import Catalogue
from server.core.padding import pad_rows
from server.core.types import Bucket, DtypeName, TokenRows
from server.core.warmup import StabilityRule
from server.ports.worker import Beat, BucketBegan, BucketWarm, Finished, Loaded, Run, Start, Warmed, WorkerEvent

CATALOGUE = Catalogue((1, 2, 5), (4, 8, 24))
Ask = Callable[[list[list[int]], Bucket], Any]
# Rows have length 1. What a row may move by: rounding of another order of summation, in the dtype's own steps.
TOLERANCE: dict[DtypeName, float] = {"float32": 2e-6, "bfloat16": 2e-2}
COSINE: dict[DtypeName, float] = {"float32": 0.999999, "bfloat16": 0.999}


class Log:
    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...

    def error(self, event: str, **fields: object) -> None: ...


@pytest.fixture(scope="module", params=["float32", "bfloat16"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[DtypeName, Ask]]:
    """A warm worker on the CPU, and how to run one batch in it."""
    start = Start(
        model_path=str(folder()),
        sha256=None,
        device="cpu",
        emulator_allowed=False,
        dtype=request.param,
        matmul_precision="highest",
        compile=False,
        threads=1,
        buckets=CATALOGUE.buckets(),
        stability=StabilityRule(min_calls=2, max_calls=2),
        cache_dir=str(CACHE),
        front_pid=os.getpid(),
    )
    link, events = ProcessLink(Log()), asyncio.Queue[WorkerEvent | str]()

    async def until(kind: type[Any]) -> Any:
        async with asyncio.timeout(240):
            while not isinstance(event := await events.get(), kind):
                assert isinstance(event, Beat | Loaded | BucketBegan | BucketWarm), event
            return event

    async def warm() -> None:
        await link.spawn(start, events.put_nowait, events.put_nowait)
        await until(Warmed)

    async def run(rows: list[list[int]], bucket: Bucket) -> Any:
        link.run(Run(1, bucket, pad_rows([TokenRows(rows)], bucket)))
        vectors: Any = (await until(Finished)).outputs["embedding"].array()
        return vectors[: len(rows)]

    with asyncio.Runner() as runner:
        try:
            runner.run(warm())
            yield request.param, lambda rows, bucket: runner.run(run(rows, bucket))
        finally:
            runner.run(link.kill())


TOKENS = st.lists(st.integers(1, 30521), min_size=1, max_size=CATALOGUE.max_length)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_answer_is_the_same_in_every_bucket_and_company(served: tuple[DtypeName, Ask], data: st.DataObject) -> None:
    """Each row alone in its smallest bucket, against the same row among others in any bucket that holds them."""
    dtype, ask = served
    rows = data.draw(st.lists(TOKENS, min_size=1, max_size=CATALOGUE.max_rows))
    longest = max(map(len, rows))
    holding = [each for each in CATALOGUE.buckets() if each.batch >= len(rows) and each.length >= longest]
    together = ask(rows, data.draw(st.sampled_from(holding)))
    for row, vector in zip(rows, together, strict=True):
        smallest = CATALOGUE.fit(1, len(row))
        assert isinstance(smallest, Bucket)
        (alone,) = ask([row], smallest)
        assert float(np.abs(alone - vector).max()) <= TOLERANCE[dtype]
        assert float(np.dot(alone, vector) / np.linalg.norm(alone) / np.linalg.norm(vector)) >= COSINE[dtype]
