"""The demo as a newcomer starts it: real servers, real gateway, real load, in processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.emulator, pytest.mark.timeout(1800)]

_MARK = "CANARY_DEMO_TEST"
_LIMIT_S = 1500


@dataclass
class Stage:
    """Starts demos whose processes carry a mark in their environment, so that none can hide."""

    folder: Path
    mark: str

    def command(self, scenario: str, *more: str) -> list[str]:
        words = ["--scenario", scenario, "--results", str(self.folder / "results"), *more]
        return [sys.executable, "-m", "demo", *words]

    def environment(self) -> dict[str, str]:
        return {**os.environ, _MARK: self.mark, "TMPDIR": str(self.folder / "tmp")}

    def run(self, scenario: str, *more: str) -> tuple[int, dict[str, Any], str]:
        """Exit code, result and output of a demo that runs to its end."""
        done = subprocess.run(
            self.command(scenario, *more), env=self.environment(), capture_output=True, text=True, timeout=_LIMIT_S
        )
        output = done.stdout + done.stderr
        file = self.folder / "results" / scenario / "result.json"
        assert file.exists(), output + self.logs(scenario)
        return done.returncode, json.loads(file.read_text()), output

    def logs(self, scenario: str) -> str:
        folder = self.folder / "results" / scenario / "logs"
        return "".join(f"\n== {p.name}\n{p.read_text(errors='replace')[-3000:]}" for p in sorted(folder.glob("*.log")))

    def processes(self) -> list[str]:
        """Command lines of the living processes that carry the mark."""
        found = []
        wanted = f"{_MARK}={self.mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # ended meanwhile, or not ours
        return found

    def left_behind(self) -> list[str]:
        """What is still there of a demo that has ended: processes, temporary folders."""
        until(lambda: not self.processes(), 10)
        return self.processes() + [path.name for path in (self.folder / "tmp").glob("canary-demo-*")]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    (tmp_path / "tmp").mkdir()
    return Stage(tmp_path, uuid.uuid4().hex)


def until(true: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_good_candidate_is_promoted(stage: Stage) -> None:
    """A healthy candidate takes over all traffic, no client sees a failure, and nothing is left behind."""
    code, result, output = stage.run("good")
    if result["outcome"] == "INCONCLUSIVE":  # too little evidence in the time of a step on a busy machine
        code, result, output = stage.run("good", "--step-scale", "2")
    assert result["outcome"] == "PROMOTED", output
    assert (code, result["weight"], result["as_expected"]) == (0, 100.0, True), output
    assert (result["locust_failures"], result["wrong_answers"]) == (0, 0), output
    assert result["locust_requests"] > 100
    assert result["compared_answers"] > 10
    assert result["live_candidate_requests"] > 50
    assert result["parity_pairs"] > 50
    assert result["min_cosine"] >= 0.99
    assert result["emulated"] is True
    assert "PROMOTED at 100 %" in output
    assert stage.left_behind() == []


def test_crashing_candidate_is_rolled_back(stage: Stage) -> None:
    """A candidate that drops connections is rolled back from live traffic for its errors, unseen by any client."""
    code, result, output = stage.run("crash")
    assert result["outcome"] == "ROLLED_BACK", output
    assert (code, result["metric"]) == (0, "error"), output
    assert result["weight"] >= 10.0
    assert result["rule"] in ("evidence", "breaker")
    assert (result["locust_failures"], result["wrong_answers"]) == (0, 0), output
    assert result["time_to_zero_ms"] is not None
    assert result["fault_to_decision_s"] > 0
    assert any(line["kind"] == "rollback" for line in result["journal"])
    assert stage.left_behind() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_demo_leaves_nothing(stage: Stage, number: signal.Signals) -> None:
    """Ctrl-C while the servers load ends every process and removes every temporary folder."""
    demo = subprocess.Popen(stage.command("good"), env=stage.environment(), stdout=subprocess.PIPE, text=True)
    # Two fronts, two workers and the fault proxy, besides the demo itself.
    assert until(lambda: len(stage.processes()) >= 6, 60), stage.processes()
    demo.send_signal(number)
    demo.communicate(timeout=60)
    assert demo.returncode == 130
    assert stage.left_behind() == []


def test_killed_demo_takes_its_processes_along(stage: Stage) -> None:
    """Even a demo that is killed outright leaves no process behind."""
    demo = subprocess.Popen(stage.command("good"), env=stage.environment(), stdout=subprocess.PIPE, text=True)
    assert until(lambda: len(stage.processes()) >= 6, 60), stage.processes()
    demo.kill()
    demo.communicate(timeout=60)
    assert until(lambda: not stage.processes(), 15), stage.processes()


def test_dead_server_ends_the_demo_with_its_log(stage: Stage) -> None:
    """When a server dies the demo ends at once, with the end of that server's log, and cleans up."""
    demo = subprocess.Popen(
        stage.command("good"), env=stage.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert until(lambda: len(stage.processes()) >= 6, 60), stage.processes()
    pid = next(
        int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _is_front(folder, stage.folder, "candidate.yaml")
    )
    os.kill(pid, signal.SIGKILL)
    _, errors = demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert "candidate ended by itself (signal SIGKILL)" in errors
    assert stage.left_behind() == []


def _is_front(folder: Path, stage: Path, config: str) -> bool:
    try:
        words = (folder / "cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False
    return "server" in words and any(w.startswith(str(stage)) and w.endswith(config) for w in words)
