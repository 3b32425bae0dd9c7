"""Gateway in front of two real servers: the real openai client, weights and torch_tpu (emulated)."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fakes.gateway_process import GatewayProcess, wait_until
from integration.server.running import MODEL, RunningServer, running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

TEXTS = [
    "chair",
    "A red bicycle for children",
    "garden lamp with battery and light sensor",
    "Größe 42, café № 7 ☕",
    "a long wooden table for the kitchen or the office",
    "warm winter gloves",
]
DECLARED = ["device", "dtype", "torch_tpu", "compiled", "emulated", "topology", "catalogue", "libtpu"]
CATALOGUE = {"batch": [1, 4], "length": [16, 32]}


@contextmanager
def canary(
    folder: Path, candidate: dict[str, Any], baseline: dict[str, Any]
) -> Iterator[tuple[GatewayProcess, RunningServer]]:
    """Both servers ready, the gateway in front of them; yields the gateway and the candidate."""
    for name in ("b", "c", "g"):
        (folder / name).mkdir()
    emulated = candidate.get("device") == "tpu-emulator"
    with (
        running(folder / "b", **baseline) as b,
        running(folder / "c", emulator=emulated, **candidate) as c,
    ):
        for server in (b, c):
            assert server.wait_state("ready", "failed")["state"] == "ready", server.log.read_text()[-2000:]
        urls = [str(server.data.base_url).rstrip("/") for server in (b, c)]
        with GatewayProcess(folder / "g", *urls, options={"model": MODEL, "expose_timings": True}) as gateway:
            wait_until(lambda: gateway.admin.get("/readyz").status_code == 200, "the gateway is ready")
            yield gateway, c


@pytest.mark.emulator
@pytest.mark.parametrize(("dtype", "bound"), [("bfloat16", 0.99), ("float32", 0.9999)])
def test_every_pair_of_a_run_is_within_the_tolerance(tmp_path: Path, dtype: str, bound: float) -> None:
    """The openai client's answers are compared pair by pair: the smallest cosine holds the bound, never the mean."""
    candidate = {"device": "tpu-emulator", "dtype": dtype, "matmul_precision": "highest", "catalogue": CATALOGUE}
    with canary(tmp_path, candidate, {"catalogue": CATALOGUE}) as (gateway, _):
        gateway.run_plan(
            steps=[50, 100],
            copies={"share": 100, "soak": True},
            parity={"cosine_min": bound},
            declared_differences=DECLARED,
            max_step_s=600,
        )
        gateway.wait_judging()
        client = openai.OpenAI(base_url=gateway.data_url + "/v1", api_key="none", max_retries=0)
        arms = set()
        with client:
            for i in range(60):
                given = [f"{TEXTS[i % len(TEXTS)]} {i}"] if i % 3 else [f"{text} {i}" for text in TEXTS[:3]]
                raw = client.embeddings.with_raw_response.create(model=MODEL, input=given)
                arms.add(raw.headers["x-canary-arm"])
                answer = raw.parse()
                assert [len(row.embedding) for row in answer.data] == [384] * len(given)
        wait_until(lambda: gateway.status().parity.pairs >= 50, "fifty compared pairs")
        parity = gateway.status().parity
        assert arms == {"gpu", "tpu"}
        assert parity.bad == 0, parity.worst
        assert parity.min_cosine is not None
        assert bound <= parity.min_cosine <= 1.0
        if dtype == "bfloat16":
            assert parity.min_cosine < 0.999999, "bfloat16 that moves nothing was not bfloat16"


def test_what_only_the_baseline_serves_is_booked_refused_and_answered_by_the_baseline(tmp_path: Path) -> None:
    """A smaller candidate catalogue: 200 from the baseline, booked; outside both the client gets the baseline's 400."""
    smaller = {"catalogue": {"batch": [1], "length": [16]}}
    larger = {"catalogue": {"batch": [1, 4], "length": [16, 64]}}
    with canary(tmp_path, smaller, larger) as (gateway, candidate):
        gateway.run_plan(steps=[100], declared_differences=DECLARED, copies={"share": 50, "soak": True}, max_step_s=600)
        gateway.wait_judging()
        compiles = candidate.metric('canary_server_compiles_total{phase="serving"}')

        def ask(words: int) -> httpx.Response:
            body = {"model": MODEL, "input": "word " * words}
            return httpx.post(gateway.data_url + "/v1/embeddings", json=body, trust_env=False, timeout=30)

        short, long, longest = ask(5), ask(40), ask(100)
        assert (short.status_code, short.headers["x-canary-arm"]) == (200, "tpu")
        assert (long.status_code, long.headers["x-canary-arm"]) == (200, "gpu")
        assert longest.status_code == 400
        error = longest.json()["error"]
        assert error["code"] == "shape_not_served"
        assert "64" in error["message"]

        def counts() -> tuple[int, int]:
            arm = next(a for a in gateway.status().arms if a.role == "candidate")
            return arm.refused, arm.failed

        wait_until(lambda: counts()[0] == 1, "the refusal is booked")
        assert counts() == (1, 0)
        assert candidate.metric('canary_server_compiles_total{phase="serving"}') == compiles
