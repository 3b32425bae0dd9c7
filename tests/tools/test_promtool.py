"""Both programs' /metrics under the eyes of Prometheus' own linter."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fakes.arm_server import ArmServer
from fakes.gateway_process import GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad
from integration.server.running import running

pytestmark = pytest.mark.tool


@pytest.fixture(scope="module")
def promtool() -> str:
    """The tool, or a skip that says how to get it; where tools are required its absence fails."""
    found = shutil.which("promtool")
    if found is None:
        reason = "promtool is missing: apt-get install -y --no-install-recommends prometheus"
        if os.environ.get("CANARY_TOOLS_REQUIRED"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def lint(promtool: str, exposition: str) -> str:
    """What ``promtool check metrics`` complains about."""
    done = subprocess.run([promtool, "check", "metrics"], input=exposition, capture_output=True, text=True, timeout=30)
    return done.stdout + done.stderr


def test_the_linter_finds_faults(promtool: str) -> None:
    """A counter without help or suffix is complained about, so the tests below can fail."""
    assert "help" in lint(promtool, "# TYPE bad counter\nbad 1\n")


def test_gateway_metrics_pass_the_linter(promtool: str, tmp_path: Path) -> None:
    """In mid-run, with every family filled."""
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16") as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
        SteadyLoad(g.data_url),
    ):
        g.run_plan(steps=[50, 100])
        wait_until(lambda: g.status().verdict is not None and len(candidate.seen) > 20, "traffic and a verdict")
        g.command("rollback")
        assert lint(promtool, g.admin.get("/metrics").text) == ""


def test_server_metrics_pass_the_linter(promtool: str, tmp_path: Path) -> None:
    """After an answer and a refusal."""
    with running(tmp_path, catalogue={"batch": [1], "length": [16]}) as server:
        assert server.wait_state("ready", "failed")["state"] == "ready"
        assert server.embed("one sentence").status_code == 200
        assert server.embed("word " * 40).status_code == 400
        assert lint(promtool, server.admin.get("/metrics").text) == ""
