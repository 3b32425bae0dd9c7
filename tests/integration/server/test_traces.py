"""Traces of a real server at a real OTLP receiver."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fakes.otlp_receiver import OtlpReceiver
from integration.server.running import ROOT, tiny_model

SERVER, INTERNAL, ERROR = 2, 1, 2
PARENT = "00f067aa0ba902b7"
WORD = "xylophone"


def trace(number: int) -> str:
    return f"{number:032x}"


def parent(number: int, *, sampled: bool) -> dict[str, str]:
    return {"traceparent": f"00-{trace(number)}-{PARENT}-0{int(sampled)}"}


def test_a_request_is_one_span_of_its_callers_trace_with_its_phases_below(
    start_server: Callable[..., Any], tmp_path: Path
) -> None:
    """As its caller decided: what it did not sample is not sent, and no word of what was asked or answered ever is."""
    with (
        OtlpReceiver() as receiver,
        start_server(
            model=tiny_model(tmp_path),
            catalogue={"batch": [2], "length": [8]},
            tracing={"endpoint": receiver.endpoint, "ratio": 0},
        ) as server,
    ):
        ready = server.wait_state("ready", "failed")
        assert ready["state"] == "ready"
        asked = {"model": "all-MiniLM-L6-v2", "input": WORD}
        silent = [{}, parent(1, sampled=False), {"traceparent": f"00-{trace(2)}-{PARENT}"}]
        for headers in silent:
            assert server.data.post("/v1/embeddings", json=asked, headers=headers).status_code == 200
        good = server.data.post(
            "/v1/embeddings", json=asked, headers={**parent(3, sampled=True), "x-request-id": "r-3"}
        )
        refused = server.data.post(
            "/v1/embeddings", json={**asked, "input": f"{WORD} " * 99}, headers=parent(4, sampled=True)
        )
        assert (good.status_code, refused.status_code) == (200, 400)
        receiver.wait(lambda: trace(4) in {span.trace for span in receiver.spans}, "second trace")

        assert {span.trace for span in receiver.spans} == {trace(3), trace(4)}
        spans = receiver.of(trace(3))
        assert set(spans) == {"POST /v1/embeddings", "tokenise", "queue", "batch", "device"}
        request, batch, device = spans["POST /v1/embeddings"], spans["batch"], spans["device"]
        assert (request.parent, request.kind) == (PARENT, SERVER)
        assert {spans[name].parent for name in ("tokenise", "queue", "batch")} == {request.id}
        assert (device.parent, device.kind) == (batch.id, INTERNAL)
        order = [request.start, spans["tokenise"].start, spans["queue"].start, batch.start, device.start,
                 device.end, batch.end, request.end]  # fmt: skip
        assert order == sorted(order)
        assert spans["queue"].end == batch.start
        assert request.attributes == {
            "http.request.method": "POST", "http.route": "/v1/embeddings", "url.path": "/v1/embeddings",
            "url.scheme": "http", "network.protocol.version": "1.1", "server.address": "127.0.0.1",
            "server.port": server.data.base_url.port, "http.response.status_code": 200, "canary.request_id": "r-3",
            "canary.shadow": False, "canary.compiles": 0, "canary.bucket": "2x8", "canary.rows": 1,
            "canary.tokens": request.attributes["canary.tokens"],
        }  # fmt: skip
        assert batch.attributes == {
            "canary.batch.number": 4, "canary.batch.requests": 1, "canary.batch.rows": 1, "canary.bucket": "2x8",
            "canary.padding": round(1 - request.attributes["canary.tokens"] / 16, 4), "canary.compiles": 0,
        }  # fmt: skip
        assert request.resource["service.name"] == "canary-server"
        assert request.resource["service.instance.id"] == ready["run_id"]

        wrong = receiver.of(trace(4))["POST /v1/embeddings"]
        assert (wrong.status, wrong.attributes["canary.reason"]) == (0, "shape_not_served")
        assert not any(WORD.encode() in body for body in receiver.bodies)
        lines = [json.loads(line) for line in server.access_log.read_text().splitlines()]
        assert [line["trace_id"] for line in lines] == ["", "", "", trace(3), trace(4)]


def test_a_collector_that_is_gone_costs_no_request_and_holds_up_no_end(
    start_server: Callable[..., Any], tmp_path: Path
) -> None:
    """What it missed is counted, and told once."""
    with OtlpReceiver() as receiver:
        receiver.status = 400
        tracing = {"endpoint": receiver.endpoint, "ratio": 1}
        with start_server(
            model=tiny_model(tmp_path), catalogue={"batch": [1], "length": [8]}, tracing=tracing
        ) as server:
            assert server.wait_state("ready", "failed")["state"] == "ready"
            assert server.embed("a").status_code == 200
            receiver.wait(lambda: len(receiver.bodies) == 1, "first post")
            assert server.embed("b").status_code == 200
            receiver.wait(lambda: len(receiver.bodies) == 2, "second post")
            server._until(
                lambda: 'canary_server_spans_lost_total{reason="export"} 10.0' in server.admin.get("/metrics").text,
                "lost spans",
            )
            assert server.end() == 0
            assert [event["level"] for event in server.events() if event["event"] == "tracing_lost"] == ["warning"]


def test_where_tracing_is_off_the_sdk_is_not_imported() -> None:
    """It costs time and memory that nobody asked for."""
    text = "import sys, server.main; sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", text], cwd=ROOT, timeout=60).returncode == 0
