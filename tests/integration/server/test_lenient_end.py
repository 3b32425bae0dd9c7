"""A lenient server that ends while it compiles: who waits is told in words, and of which shape's compile."""

import json
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from integration.server.running import RunningServer

pytestmark = pytest.mark.emulator

LONG = "the quick brown fox jumps over the lazy dog"


def lose_the_worker(server: RunningServer) -> None:
    (pid,) = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    os.kill(int(pid), signal.SIGKILL)


def drain(server: RunningServer) -> None:
    server.process.send_signal(signal.SIGTERM)


@pytest.mark.parametrize(
    ("ends", "kind", "reason", "code"),
    [
        (lose_the_worker, "not_ready", "signal 9", 0),
        (drain, "draining", "server: stopping, the time to finish has passed", 1),
    ],
)
def test_who_waits_for_a_compile_that_does_not_end_is_told(
    start_server: Callable[..., Any], ends: Callable[[RunningServer], None], kind: str, reason: str, code: int
) -> None:
    """Culprit and victim get 503 in the protocol's shape with the compile, and a line each.

    The exit code is that of the drain: a worker that is being restarted keeps nobody waiting.
    """
    with start_server(
        emulator=True,
        device="tpu-emulator",
        catalogue={"batch": [1], "length": [8]},
        strict=False,
        largest={"batch": 1, "length": 16},
        drain={"delay_s": 0.0, "limit_s": 0.2},
    ) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        with ThreadPoolExecutor(max_workers=2) as pool:
            asked = [pool.submit(server.embed, LONG) for _ in range(2)]
            end = time.monotonic() + 20
            while server.metric("canary_server_queue_rows") != 1:
                assert time.monotonic() < end
                assert not any(each.done() for each in asked)
            ends(server)
            answers = [each.result(60) for each in asked]
        for answer in answers:
            assert answer.status_code == 503, answer.text
            assert answer.json()["error"]["code"] == kind
            assert reason in answer.json()["error"]["message"]
            assert (answer.headers["x-canary-compiles"], answer.headers["x-canary-compiled"]) == ("1", "1x16")
        assert (server.process.wait(30) if ends is drain else server.end()) == code
        lines = [json.loads(each) for each in server.access_log.read_text().splitlines()]
        assert [(line["status"], line["reason"], line["compiles"]) for line in lines] == [(503, kind, 1)] * 2
