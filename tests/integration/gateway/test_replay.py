"""Real gateways record what they judged: every kind of rollback is the same when it is judged again, also later."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml
from fakes.arm_server import ArmServer
from fakes.gateway_process import DEMO_PLAN, GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from wire import admin

FAST: dict[str, Any] = {
    "min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2, "steps": [50, 100],
    "slo": {**DEMO_PLAN["slo"], "lat_p95": {"limit_ms": 80, "allowed": 0.05}},
}  # fmt: skip
NO_TOKEN = {"content-type": "application/json"}


def ask(g: GatewayProcess, **asked: Any) -> httpx.Response:
    return g.admin.post(admin.REPLAY_PATH, content=json.dumps(asked), headers=NO_TOKEN, timeout=60)


def replay(g: GatewayProcess, run_id: str, **asked: Any) -> admin.Replay:
    answer = ask(g, run_id=run_id, **asked)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=admin.Replay)


def ctl(g: GatewayProcess, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ctl", "--url", g.admin_url, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def run_id(g: GatewayProcess) -> str:
    run = g.status().run
    assert run is not None
    return run.run_id


def recorded(g: GatewayProcess, run: str) -> bool:
    """The end of the run is in the store: it is written every two seconds."""
    answer = ask(g, run_id=run)
    return answer.status_code == 200 and not msgspec.json.decode(answer.content, type=admin.Replay).holes


def slow(arm: ArmServer) -> None:
    arm.delay_s = 0.15


def failing(arm: ArmServer) -> None:
    arm.answers = lambda text: 500


def compiling(arm: ArmServer) -> None:
    arm.headers = {"x-canary-compiles": "2", "x-canary-compiled": "4x128"}


@pytest.mark.parametrize(
    ("fault", "rule"),
    [(slow, "evidence"), (failing, "breaker"), (compiling, "recompile")],
    ids=["evidence", "breaker", "recompile"],
)
def test_a_rollback_is_the_same_when_it_is_judged_again_also_after_a_crash_and_a_restart(
    tmp_path: Path, fault: Callable[[ArmServer], None], rule: str
) -> None:
    """Killed while it judged and once more after the end: canaryctl says that every number is as it was."""
    # So many failures are allowed that the breaker is faster than the evidence.
    plan = {**FAST, "min_step_s": 40, "slo": {**FAST["slo"], "error": {"allowed": 0.85}}}
    with ArmServer(delay_s=0.005) as baseline, ArmServer(dtype="bfloat16", delay_s=0.005) as candidate:
        g = GatewayProcess(tmp_path, baseline.url, candidate.url)
        with g, SteadyLoad(g.data_url):
            g.run_plan(**plan)
            g.wait_judging()
            run = run_id(g)
            wait_until(lambda: ask(g, run_id=run).status_code == 200, "a window is recorded")
            assert g.stop(signal.SIGKILL) == -signal.SIGKILL
        with g:
            with SteadyLoad(g.data_url):
                g.wait_judging()
                fault(candidate)
                wait_until(lambda: g.status().state == "rolled_back", "rolled back", 60)
            wait_until(lambda: recorded(g, run), "the end of the run is recorded")
            before = replay(g, run)
            assert g.stop(signal.SIGKILL) == -signal.SIGKILL
        with g:
            after, said = replay(g, run), ctl(g, "replay", run)
            (line,) = (line for line in g.history() if line.kind == "rollback")
            other = {**DEMO_PLAN, **plan, "preset": "default"}
            (tmp_path / "other.yaml").write_text(yaml.safe_dump(other))
            refused = ctl(g, "replay", run, "--plan", str(tmp_path / "other.yaml"))
    assert line.data["rule"] == rule
    assert before.final is not None
    assert (before.same, before.final.verdict, before.holes) == (True, "ROLL_BACK", [])
    assert ("rollback", []) in [(each.kind, each.differs) for each in before.decisions]
    assert after == before
    assert (said.returncode, "As then   yes, every number of every decision" in said.stdout) == (0, True), said.stdout
    assert refused.returncode == 1
    assert "preset: default has windows of 10 s; the recorded run had 1 s" in refused.stderr


def test_a_replay_disturbs_no_run_and_calibrate_reads_beside_the_gateway(tmp_path: Path) -> None:
    """While a run goes on: it is replayed again and again, the judge stays young, and the run ends as it should."""
    with (
        ArmServer(delay_s=0.005) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005) as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
    ):
        ages = []
        with SteadyLoad(g.data_url, rate=40) as load:
            g.run_plan(**FAST)
            g.wait_judging()
            run = run_id(g)
            wait_until(lambda: ask(g, run_id=run).status_code == 200, "a window is recorded")

            def done() -> bool:
                assert replay(g, run).run_id == run
                ages.append(g.status().control["judge_age_s"])
                return g.status().state == "done"

            wait_until(done, "promoted", 60)
            assert set(load.statuses) == {200}
        assert max(ages) < 5.0
        wait_until(lambda: recorded(g, run), "the end of the run is recorded")
        found = replay(g, run)
        assert ([each.kind for each in found.decisions], found.same) == (["advance", "advance"], True)
        (tmp_path / "plan.yaml").write_text(yaml.safe_dump({**DEMO_PLAN, **FAST}))
        words = ["--config", str(tmp_path / "gateway.yaml"), "--plan", str(tmp_path / "plan.yaml"), "--run", run]
        command = [sys.executable, "-m", "gateway", "calibrate", *words]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert said.returncode == 1  # a run of half a minute
        assert "windows of 1 s are recorded; needed are 2,000 in 180 windows (3 min with traffic)" in said.stderr
        assert g.admin.get("/livez").status_code == 200
