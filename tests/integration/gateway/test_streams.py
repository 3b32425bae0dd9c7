"""Real gateways and arms that answer with events: what is wrong with a stream convicts by its name."""

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from os import kill
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.arm_server import ArmServer, Script
from fakes.gateway_process import GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from wire import admin

LIMITS: dict[str, Any] = {
    "error": {"allowed": 0.05},
    "refused": {"allowed": 0.05},
    "ttft": {"limit_ms": 300},
    "itl": {"limit_ms": 200},
    "stream_broken": {"allowed": 0.05},
}
PLAN: dict[str, Any] = {
    "slo": LIMITS, "parity": None, "copies": {"share": 50, "soak": True},
    "min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2,
}  # fmt: skip
STAYS: dict[str, Any] = {**PLAN, "steps": [10, 100], "min_step_s": 40}
BROKEN = "RemoteProtocolError"


@dataclass
class Site:
    candidate: ArmServer
    gateway: GatewayProcess


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16") as candidate,
        GatewayProcess(tmp_path_factory.mktemp("streams"), baseline.url, candidate.url) as g,
    ):
        yield Site(candidate, g)


@pytest.fixture
def site(shared: Site) -> Iterator[Site]:
    """Two healthy arms and no open run, before the test and after it."""
    yield shared
    shared.candidate.stream = lambda text: Script()
    if shared.gateway.status().state not in ("rolled_back", "idle"):
        shared.gateway.command("rollback")


def run_of(g: GatewayProcess) -> admin.RunView:
    run = g.status().run
    assert run is not None
    return run


def rows(g: GatewayProcess) -> dict[str, admin.MetricView]:
    verdict = g.status().verdict
    return {row.metric: row for row in verdict.metrics} if verdict is not None else {}


def breaks_one_in_three(text: str) -> Script:
    return Script(breaks=int(text.split()[-1]) % 3 == 0)


@pytest.mark.parametrize(
    ("fault", "metric", "headline"),
    [
        (lambda text: Script(first_s=0.6), "ttft", "had their first event later than 300 ms"),
        (lambda text: Script(gap_s=0.5, events=3), "itl", "had more than 5 % of their gaps longer than 200 ms"),
        (breaks_one_in_three, "stream_broken", "were broken off by it"),
    ],
    ids=["slow first event", "stuttering", "broken off"],
)
def test_what_is_wrong_with_a_stream_convicts_by_its_name(site: Site, fault: Any, metric: str, headline: str) -> None:
    """From 10 % of live traffic, in status and explanation; only what the arm breaks off reaches a client as broken."""
    g = site.gateway
    with SteadyLoad(g.data_url, clients=12, stream=True) as load:
        g.run_plan(**STAYS)
        g.wait_judging()
        site.candidate.stream = fault
        wait_until(lambda: g.status().state == "rolled_back", "rolled back")
    run = run_of(g)
    assert (run.metric, run.rule, run.decided_weight) == (metric, "evidence", 1000)
    assert run.live_candidate_requests > 0
    told = g.admin.get(admin.EXPLAIN_PATH).json()
    assert headline in told["headline"]
    assert set(load.statuses) == ({200, BROKEN} if metric == "stream_broken" else {200})


def test_a_healthy_stream_is_promoted(site: Site) -> None:
    """Live and copied streams prove every metric."""
    g = site.gateway
    with SteadyLoad(g.data_url, clients=12, stream=True) as load:
        g.run_plan(**PLAN, steps=[0, 50, 100])
        wait_until(lambda: g.status().state == "done", "promoted", 60.0)
    assert run_of(g).outcome == "PROMOTED"
    assert set(load.statuses) == {200}
    metrics = g.admin.get("/metrics").text
    ended = re.search(r'(?m)^canary_gateway_streams_total\{arm="candidate",end="whole",lane="live"\} (\S+)', metrics)
    assert ended is not None
    assert float(ended[1]) > 0
    g.command("rollback")


def test_a_route_without_streams_waits_for_them(site: Site) -> None:
    """Whole answers are no event of these metrics: they are missing, and nothing advances."""
    g = site.gateway
    with SteadyLoad(g.data_url):
        g.run_plan(**PLAN, steps=[50, 100])
        wait_until(lambda: rows(g).get("error") is not None and rows(g)["error"].passes, "errors are proven")
        assert {name: rows(g)[name].candidate_events for name in ("ttft", "itl", "stream_broken")} == {
            "ttft": 0, "itl": 0, "stream_broken": 0
        }  # fmt: skip
        status = g.status()
        assert (status.state, status.weight) == ("stepping", 5000)


def test_a_stream_that_stays_open_holds_no_window_back(site: Site) -> None:
    """Windows close behind it as they end, not when they are overdue, which is a minute later."""
    g = site.gateway
    site.candidate.stream = lambda text: Script(events=100_000 if text == "long" else 6)
    with SteadyLoad(g.data_url, clients=12, stream=True), httpx.Client(trust_env=False, timeout=20) as client:
        g.run_plan(**{**STAYS, "copies": {"share": 100, "soak": True}})
        g.wait_judging()
        body = {"model": "m", "input": "long", "stream": True}
        with client.stream("POST", f"{g.data_url}/v1/embeddings", json=body) as answer:
            assert next(answer.iter_raw())
            wait_until(lambda: any(each.text == "long" for each in site.candidate.seen), "the candidate streams too")
            since = g.status().at
            wait_until(lambda: g.status().at > since + 2, "the window of its arrival has ended")
            before = rows(g)["error"].candidate_events
            wait_until(lambda: rows(g)["error"].candidate_events > before, "the next windows are judged", 10.0)


def test_a_worker_that_is_stopped_is_named_with_the_windows_that_closed_without_it(tmp_path: Path) -> None:
    """In the verdict, the status and the metrics; the step does not advance on what is left."""
    timeouts = {"connect_s": 2, "first_byte_s": 2, "idle_s": 2, "total_s": 2}
    with (
        ArmServer(delay_s=0.005) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005) as candidate,
    ):
        arms = {
            "baseline": {"name": "gpu", "url": baseline.url, "timeouts": timeouts},
            "candidate": {"name": "tpu", "url": candidate.url, "timeouts": timeouts},
        }
        with GatewayProcess(tmp_path, baseline.url, candidate.url, options={"workers": 2, "arms": arms}) as g:
            wait_until(lambda: len(g.status().workers) == 2, "two workers")
            g.run_plan(**STAYS)
            g.wait_judging()
            assert g.status().control["incomplete_windows"] == 0
            stopped = g.status().workers[1]
            kill(stopped.pid, signal.SIGSTOP)
            try:
                wait_until(lambda: g.status().control["incomplete_windows"] > 2, "windows close without it")
                verdict = g.status().verdict
                assert verdict is not None
                assert any(re.search(rf"\d windows closed without worker {stopped.name}", n) for n in verdict.notes)
                counted = re.search(r"(?m)^canary_gateway_incomplete_windows_total (\S+)", g.admin.get("/metrics").text)
                assert counted is not None
                assert float(counted[1]) > 2
            finally:
                kill(stopped.pid, signal.SIGCONT)
