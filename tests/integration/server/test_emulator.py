"""The real torch_tpu on XLA's CPU plug-in: compiled, sealed, and said to be emulated everywhere."""

import asyncio
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from integration.server.running import CACHE, MODEL, RunningServer, folder, running

from server.adapters.worker.link import ProcessLink
from server.core.padding import pad_rows
from server.core.types import Bucket, TokenRows
from server.core.warmup import StabilityRule
from server.ports.worker import (
    Beat,
    BucketBegan,
    BucketWarm,
    Failed,
    Finished,
    Loaded,
    Run,
    RunFailed,
    Start,
    Warmed,
    WorkerEvent,
)

pytestmark = pytest.mark.emulator

# More than the eight programs that Dynamo allows a function by default.
LENGTHS = [4, 6, 8, 10, 12, 14, 16, 18, 20]
TEXTS = ["Hello world", "a", "the quick brown fox jumps over the lazy dog"]
SERVING = 'canary_server_compiles_total{phase="serving"}'


@pytest.fixture(scope="module")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A ready server of nine buckets in float32."""
    where = tmp_path_factory.mktemp("emulator")
    with running(where, emulator=True, device="tpu-emulator", catalogue={"batch": [1], "length": LENGTHS}) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        yield server


def test_every_declared_bucket_was_compiled_and_ran(emulated: RunningServer) -> None:
    """First call and steady state apart, and where each program came from."""
    health = emulated.health()
    assert sorted(int(each["bucket"].removeprefix("1x")) for each in health["warm_up"]) == LENGTHS
    for each in health["warm_up"]:
        assert each["source"] in ("compiled", "cache")
        assert each["compiles"] == (1 if each["source"] == "compiled" else 0)
        assert each["first_s"] > each["warm_s"] > 0
        assert 4 <= each["calls"] <= 11


def test_the_first_request_of_each_bucket_compiles_nothing(
    emulated: RunningServer, reference: Callable[[list[str]], list[list[float]]]
) -> None:
    """The compile counter stays where the warm-up left it, and the vectors are the model's."""
    for length in LENGTHS:
        answer = emulated.embed([[101] * length])
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-canary-bucket"] == f"1x{length}"
        assert answer.headers["x-canary-compiles"] == "0"
    for text, want in zip(TEXTS, reference(TEXTS), strict=True):
        (item,) = emulated.embed(text).json()["data"]
        assert float(np.dot(item["embedding"], want)) >= 0.9999
    assert emulated.metric(SERVING) == 0


def test_a_shape_outside_the_catalogue_is_refused_and_compiles_nothing(emulated: RunningServer) -> None:
    """It does not reach the device at all."""
    answer = emulated.embed([[101] * 21])
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "shape_not_served"
    assert emulated.metric(SERVING) == 0


def test_more_rows_than_a_batch_come_in_parts_and_compile_nothing(emulated: RunningServer) -> None:
    """Each part in a declared shape."""
    answer = emulated.embed(["two", "rows"])
    assert (answer.status_code, answer.headers["x-canary-rows"], answer.headers["x-canary-compiles"]) == (200, "2", "0")
    assert emulated.metric(SERVING) == 0


def test_it_says_everywhere_that_it_is_emulated(emulated: RunningServer) -> None:
    """Identity, metadata, metrics and health."""
    parameters = emulated.data.get(f"/v2/models/{MODEL}").json()["parameters"]
    assert (parameters["device"], parameters["emulated"], parameters["compiled"]) == ("tpu-emulator", True, True)
    assert "emulator" in parameters["topology"]
    assert parameters["torch_tpu"] is not None
    assert parameters["libtpu"] is None
    info = [line for line in emulated.admin.get("/metrics").text.splitlines() if line.startswith("canary_server_info")]
    assert 'emulated="true"' in info[0]
    assert "emulated, not a TPU" in emulated.health()["detail"]


def test_known_noise_of_the_plug_in_stays_out_of_the_log(emulated: RunningServer) -> None:
    """Every line of the log is one event; XLA's loader lines are not among them."""
    events = emulated.events()
    assert events
    assert not any("cpu_aot_loader" in str(event.get("line", "")) for event in events)


class Events:
    """What a worker said, in order."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[WorkerEvent | str] = asyncio.Queue()
        self.put: Callable[[WorkerEvent | str], None] = self._queue.put_nowait

    async def until(self, *kinds: type[Any]) -> Any:
        """The next event of one of the kinds; anything that ends the wait for good fails."""
        async with asyncio.timeout(240):
            while True:
                event = await self._queue.get()
                if isinstance(event, kinds):
                    return event
                assert isinstance(event, Beat | Loaded | BucketBegan | BucketWarm), event


class Log:
    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...

    def error(self, event: str, **fields: object) -> None: ...


def start(**changes: Any) -> Start:
    return Start(
        **{
            "model_path": str(folder()),
            "sha256": None,
            "device": "tpu-emulator",
            "emulator_allowed": True,
            "dtype": "float32",
            "matmul_precision": "highest",
            "compile": None,
            "threads": 1,
            "buckets": tuple(Bucket(1, length) for length in LENGTHS),
            "stability": StabilityRule(),
            "cache_dir": str(CACHE),
            "front_pid": os.getpid(),
            **changes,
        }
    )


def run(number: int, bucket: Bucket, tokens: TokenRows) -> Run:
    return Run(number, bucket, pad_rows([tokens], bucket))


def test_the_sealed_worker_fails_on_an_unseen_shape_instead_of_compiling() -> None:
    """Behind the front's own check: the batch fails, nothing compiles, and warmed shapes go on working."""

    async def scenario() -> None:
        events, link = Events(), ProcessLink(Log())
        await link.spawn(start(), events.put, events.put)
        try:
            await events.until(Warmed)
            row = TokenRows([[101, 7592, 2088, 102]])
            for number, unseen in enumerate((Bucket(1, 5), Bucket(2, 4), Bucket(1, 64)), start=1):
                link.run(run(number, unseen, row))
                failed = await events.until(RunFailed, Finished)
                assert isinstance(failed, RunFailed), f"{unseen} was served"
                assert failed.compiles == 0
            link.run(run(9, Bucket(1, 4), row))
            finished = await events.until(RunFailed, Finished)
            assert isinstance(finished, Finished)
            assert finished.compiles == 0
            (vector,) = finished.outputs["embedding"].array()
            assert vector.shape == (384,)
            assert float(np.linalg.norm(vector)) == pytest.approx(1.0, abs=1e-5)
        finally:
            await link.kill()

    asyncio.run(scenario())


def test_bfloat16_is_close_but_not_equal() -> None:
    """A realistic drift: every row above 0.99, and not the float32 answer."""

    async def answer(dtype: str) -> "np.ndarray[Any, Any]":
        events, link = Events(), ProcessLink(Log())
        await link.spawn(start(dtype=dtype, buckets=(Bucket(2, 16),)), events.put, events.put)
        try:
            await events.until(Warmed)
            row = [101, 7592, 2088, 102]
            link.run(run(1, Bucket(2, 16), TokenRows([row, [*row, 1037, 4937]])))
            finished = await events.until(Finished)
            return finished.outputs["embedding"].array()
        finally:
            await link.kill()

    full, half = asyncio.run(answer("float32")), asyncio.run(answer("bfloat16"))
    cosines = (full * half).sum(axis=1)
    assert cosines.min() >= 0.99
    assert np.abs(full - half).max() > 1e-5


def test_without_the_persons_word_the_worker_refuses_too() -> None:
    """The front's check is not the only one."""

    async def scenario() -> None:
        events, link = Events(), ProcessLink(Log())
        await link.spawn(start(emulator_allowed=False), events.put, events.put)
        try:
            failed = await events.until(Failed)
            assert "CANARY_ALLOW_EMULATOR=1" in failed.reason
        finally:
            await link.kill()

    asyncio.run(scenario())
