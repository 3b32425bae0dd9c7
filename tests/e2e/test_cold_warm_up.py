"""While every bucket compiles from nothing the server answers its probes, and is ready only afterwards."""

import asyncio
import shutil
import statistics
import time
from pathlib import Path

import httpx
import pytest
from integration.server.running import CACHE, MODEL, RunningServer, running

pytestmark = [pytest.mark.e2e, pytest.mark.emulator, pytest.mark.alone, pytest.mark.timeout(900)]

CATALOGUE = {"batch": [1, 4, 8], "length": [16, 32, 64, 128]}
EVERY_S = 0.05
P99_S = 0.1
WORST_S = 1.0


async def bare_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The least that can answer HTTP: what the machine itself makes of a poll."""
    try:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def poll(server: RunningServer) -> tuple[list[int], list[float], list[float]]:
    """Polls /livez and a bare server side by side until ready: statuses, both latencies in seconds."""
    statuses: list[int] = []
    ours: list[float] = []
    bare: list[float] = []
    listener = await asyncio.start_server(bare_answer, "127.0.0.1", 0)
    bare_url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
    live_url = str(server.admin.base_url).rstrip("/") + "/livez"
    ready_url = str(server.admin.base_url).rstrip("/") + "/readyz"
    async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
        due = time.monotonic()
        for turn in range(20_000):
            started = time.monotonic()
            statuses.append((await client.get(live_url)).status_code)
            between = time.monotonic()
            await client.get(bare_url)
            ours.append(between - started)
            bare.append(time.monotonic() - between)
            if turn % 10 == 0:
                ready = await client.get(ready_url)
                body = ready.json()
                if ready.status_code == 200:
                    assert body["bucket"] == body["buckets"] == 12
                    break
                assert body["state"] in ("starting", "loading", "warming"), body
            due += EVERY_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
    listener.close()
    return statuses, ours, bare


def test_probes_are_answered_during_a_cold_warm_up_and_nothing_compiles_after_it(tmp_path: Path) -> None:
    """livez is 200 and fast; ready comes after the last bucket; first requests of each bucket add 0 compiles."""
    cache = CACHE / "demo"  # left warm for the demo's tests, which come after
    shutil.rmtree(cache, ignore_errors=True)
    changes = {
        "device": "tpu-emulator",
        "dtype": "bfloat16",
        "catalogue": CATALOGUE,
        "cache_dir": str(cache),
    }
    with running(tmp_path, emulator=True, **changes) as server:
        statuses, ours, bare = asyncio.run(poll(server))
        assert set(statuses) == {200}
        assert len(ours) > 100, "the warm-up was not cold"
        p99, bare_p99 = (statistics.quantiles(times, n=100)[98] for times in (ours, bare))
        # The second bound of each pair is for a machine that stalls by itself.
        assert p99 <= max(P99_S, 2 * bare_p99), f"p99 {p99:.3f} s, bare {bare_p99:.3f} s"
        assert max(ours) <= max(WORST_S, 2 * max(bare)), f"worst {max(ours):.3f} s, bare {max(bare):.3f} s"
        reports = server.health()["warm_up"]
        assert {r["source"] for r in reports} == {"compiled"}
        assert all(r["first_s"] > r["warm_s"] for r in reports)
        compiles = server.metric('canary_server_compiles_total{phase="serving"}')
        for batch in CATALOGUE["batch"]:
            for length in CATALOGUE["length"]:
                given = ["word " * (length - 2)] * batch
                answer = server.data.post("/v1/embeddings", json={"model": MODEL, "input": given})
                assert (answer.status_code, answer.headers["x-canary-bucket"]) == (200, f"{batch}x{length}")
                assert answer.headers["x-canary-compiles"] == "0"
        assert server.metric('canary_server_compiles_total{phase="serving"}') == compiles
