"""A lenient server on the real torch_tpu: what is undeclared is compiled while clients wait, and everyone is told."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from integration.server.running import MODEL, RunningServer, running

pytestmark = pytest.mark.emulator

SERVING = 'canary_server_compiles_total{phase="serving"}'
SHORT = "Hello world"
LONG = "the quick brown fox jumps over the lazy dog"


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A ready server of one declared bucket, 1x8, and of five others up to 2x32."""
    with running(
        tmp_path_factory.mktemp("lenient"),
        emulator=True,
        device="tpu-emulator",
        catalogue={"batch": [1], "length": [8]},
        strict=False,
        largest={"batch": 2, "length": 32},
    ) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        yield server


def met(answer: httpx.Response) -> tuple[str, int, str | None]:
    """Bucket, compiles and their shapes."""
    assert answer.status_code == 200, answer.text
    headers = answer.headers
    return headers["x-canary-bucket"], int(headers["x-canary-compiles"]), headers.get("x-canary-compiled")


def cosine(answer: httpx.Response, wanted: list[float]) -> float:
    return float(np.dot(answer.json()["data"][0]["embedding"], wanted))


def test_it_is_ready_after_its_declared_buckets_and_says_what_it_is(lenient: RunningServer) -> None:
    """The identity has the bound; a declared shape is compiled by then, and a request of it compiles nothing."""
    assert [each["bucket"] for each in lenient.health()["warm_up"]] == ["1x8"]
    parameters = lenient.data.get(f"/v2/models/{MODEL}").json()["parameters"]
    assert parameters["strict"] is False
    assert parameters["catalogue"] == "batch 1 x length 8, undeclared up to 2x32"
    before = lenient.metric(SERVING)
    assert met(lenient.embed(SHORT)) == ("1x8", 0, None)
    assert lenient.metric(SERVING) == before


def test_an_undeclared_shape_is_compiled_once_and_named_by_all_who_met_it(
    lenient: RunningServer, reference: Callable[[list[str]], list[list[float]]]
) -> None:
    """Right vectors, culprit and victim with the same shape, live and ready meanwhile; the second of it meets none."""
    short, long = reference([SHORT, LONG])
    before = lenient.metric(SERVING)
    done = threading.Event()
    states: list[tuple[int, int]] = []

    def probe() -> None:
        with httpx.Client(base_url=lenient.admin.base_url, timeout=10) as client:
            while not done.wait(0.02):
                states.append((client.get("/livez").status_code, client.get("/readyz").status_code))

    with ThreadPoolExecutor(max_workers=2) as pool:
        probing = pool.submit(probe)
        culprit = pool.submit(lenient.embed, LONG)
        others = []
        while not culprit.done():
            others.append(lenient.embed(SHORT))
        done.set()
        first = culprit.result()
        probing.result()
    bucket, compiles, compiled = met(first)
    assert (bucket, compiled) == ("1x16", "1x16")
    assert compiles >= 1
    # Those who were there before it met nothing. Of one connection, one came while it compiled, and waited.
    waited = [each for each in map(met, others) if each != ("1x8", 0, None)]
    assert waited == [("1x8", compiles, "1x16")]
    assert cosine(first, long) >= 0.9999
    assert all(cosine(each, short) >= 0.9999 for each in others)
    assert len(states) > 1
    assert set(states) == {(200, 200)}
    again = lenient.embed(LONG)
    assert met(again) == ("1x16", 0, None)
    assert again.json()["data"] == first.json()["data"]
    assert lenient.metric(SERVING) == before + compiles
    events = [each for each in lenient.events() if each["event"] == "compiled_on_request_path"]
    (line,) = [each for each in events if each["bucket"] == "1x16"]
    assert line["compiles"] == compiles
    assert line["seconds"] > 0
    log = [json.loads(each) for each in lenient.access_log.read_text().splitlines()]
    assert [each["compiles"] for each in log if each["bucket"] == "1x16"] == [compiles, 0]


def test_more_rows_than_declared_are_served_together(
    lenient: RunningServer, reference: Callable[[list[str]], list[list[float]]]
) -> None:
    """Each with its own vector, in a shape that the answer names."""
    texts = [SHORT, "a"]
    answer = lenient.embed(texts)
    bucket, compiles, compiled = met(answer)
    assert (bucket, compiled) == ("2x8", "2x8")
    assert compiles >= 1
    for item, wanted in zip(answer.json()["data"], reference(texts), strict=True):
        assert float(np.dot(item["embedding"], wanted)) >= 0.9999
    assert met(lenient.embed(texts)) == ("2x8", 0, None)


@pytest.mark.parametrize("given", [["a"] * 257, [[101] * 33], " ".join([LONG] * 4)])
def test_beyond_the_bound_nothing_is_served_or_compiled(lenient: RunningServer, given: object) -> None:
    """Refused with the bound, not with the declared shapes."""
    before = lenient.metric(SERVING)
    answer = lenient.embed(given)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "shape_not_served"
    assert "of at most 32 tokens" in answer.json()["error"]["message"]
    assert lenient.metric(SERVING) == before
