"""The demo as a newcomer starts it: real servers, real gateway, real load, in processes of their own."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.server.running import CACHE

pytestmark = [pytest.mark.e2e, pytest.mark.emulator, pytest.mark.timeout(1800)]

_MARK = "CANARY_DEMO_TEST"
_LIMIT_S = 1500
_WARM_UP_LIMIT_S = 600
_CANARY_WITHIN_S = 2 * _WARM_UP_LIMIT_S + 120
_BASELINE_WARMS = "  baseline warm(ing |-up \\[)"
_CANDIDATE_WARMS = "  candidate warm(ing |-up \\[)"
_CANARY = "^canary  "
_MODULES = {"server.adapters.worker", "demo.fault_proxy", "loadtest"}


@dataclass
class Running:
    """A demo under way. Its lines go to a file, so that it never waits for a reader."""

    process: subprocess.Popen[bytes]
    output: Path

    def reach(self, point: str) -> None:
        """Wait for a line that matches ``point``; each warm-up ends within the limit that the demo was given."""
        said = re.compile(point, re.MULTILINE)
        reached = until(lambda: bool(said.search(self.text())) or self.process.poll() is not None, _CANARY_WITHIN_S)
        assert reached, self.text()
        assert self.process.poll() is None, self.text()

    def end(self) -> int:
        """The exit code; a demo that was told to end stops its processes within its grace."""
        return self.process.wait(timeout=60)

    def text(self) -> str:
        return self.output.read_text(errors="replace")


@dataclass
class Stage:
    """Starts demos whose processes carry a mark in their environment, so that none can hide."""

    folder: Path
    mark: str

    def command(self, scenario: str, *more: str) -> list[str]:
        words = [
            "--scenario",
            scenario,
            "--results",
            str(self.folder / "results"),
            "--cache-dir",
            str(CACHE / "demo"),
            *more,
        ]
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

    @contextmanager
    def running(self, scenario: str) -> Iterator[Running]:
        """A demo to be disturbed; nothing of it outlives the test."""
        output = self.folder / "output.txt"
        command = self.command(scenario, "--warm-up-limit", str(_WARM_UP_LIMIT_S))
        with output.open("wb") as file:
            process = subprocess.Popen(command, env=self.environment(), stdout=file, stderr=subprocess.STDOUT)
        try:
            yield Running(process, output)
        finally:
            process.kill()
            process.wait(timeout=60)

    def programs(self) -> dict[str, int]:
        """The pids of what runs besides the demo itself, by role or module; of two workers one."""
        found: dict[str, int] = {}
        for pid, words in self.processes().items():
            names = {Path(word).stem for word in words if word.startswith(str(self.folder)) and word.endswith(".yaml")}
            names |= _MODULES.intersection(words)
            found |= dict.fromkeys(names, pid)
        return found

    def wait_for(self, programs: set[str]) -> dict[str, int]:
        """The pids of ``programs``, once they and a server's worker run and nothing else does."""
        wanted = programs | {"server.adapters.worker"}
        assert until(lambda: self.programs().keys() == wanted, 30), self.processes()
        return self.programs()

    def logs(self, scenario: str) -> str:
        folder = self.folder / "results" / scenario / "logs"
        return "".join(f"\n== {p.name}\n{p.read_text(errors='replace')[-3000:]}" for p in sorted(folder.glob("*.log")))

    def processes(self) -> dict[int, list[str]]:
        """Command lines by pid of the living processes that carry the mark."""
        found: dict[int, list[str]] = {}
        wanted = f"{_MARK}={self.mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue  # ended meanwhile, or not ours
        return found

    def left_behind(self) -> list[Any]:
        """What is still there of a demo that has ended: processes, temporary folders."""
        until(lambda: not self.processes(), 10)
        return [*self.processes().values(), *(path.name for path in (self.folder / "tmp").glob("canary-demo-*"))]


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


@pytest.mark.alone
def test_good_candidate_is_promoted(stage: Stage) -> None:
    """A healthy candidate takes over all traffic, no client sees a failure, and nothing is left behind."""
    code, result, output = stage.run("good")
    if result["outcome"] == "INCONCLUSIVE":  # too little evidence in the time of a step on a busy machine
        code, result, output = stage.run("good", "--step-scale", "2")
    assert result["outcome"] == "PROMOTED", output
    assert (code, result["weight"], result["passed"]) == (0, 100.0, True), output
    assert (result["locust_failures"], result["wrong_answers"], result["objections"]) == (0, 0, []), output
    assert result["locust_requests"] > 100
    assert result["compared_answers"] > 10
    assert result["live_candidate_requests"] > 50
    assert result["parity_pairs"] > 50
    assert result["min_cosine"] >= 0.99
    assert result["emulated"] is True
    assert "PROMOTED at 100 %" in output
    assert stage.left_behind() == []


@pytest.mark.alone
@pytest.mark.parametrize(
    ("scenario", "metric", "rules", "said"),
    [
        # A dropped poll makes the candidate unready: which of the two it is then blamed for depends on the moment.
        ("crash", "error", {"evidence", "breaker"}, "the candidate's log|takes the candidate away"),
        ("wrong", "parity", {"evidence"}, "is no rounding"),
        ("recompile", "recompile", {"recompile"}, "the candidate's catalogue: declare"),
    ],
)
def test_sick_candidate_is_rolled_back(stage: Stage, scenario: str, metric: str, rules: set[str], said: str) -> None:
    """From live traffic, for the metric of its fault, unseen by any client, and with one thing to change."""
    code, result, output = stage.run(scenario)
    assert result["outcome"] == "ROLLED_BACK", output
    assert (code, result["metric"], result["passed"]) == (0, metric, True), output
    assert result["rule"] in rules
    assert result["weight"] >= 10.0
    assert (result["locust_failures"], result["objections"]) == (0, []), output
    assert result["wrong_answers"] == 0 or scenario == "wrong"
    assert result["compared_answers"] > 10
    assert result["live_candidate_requests"] > 0
    assert result["fault_struck"] > 0
    assert result["emulated"] is True
    assert result["time_to_zero_ms"] is not None
    assert result["fault_to_decision_s"] > 0
    assert re.search(said, result["explanation"]["next"]), output
    assert all(line in output for line in ("  Seen  ", "  Limit  ", "  Baseline  ", "  Samples  ", "D decision at "))
    assert any(line["kind"] == "rollback" for line in result["journal"])
    assert stage.left_behind() == []


@pytest.mark.parametrize(
    ("number", "point", "programs"),
    [
        pytest.param(signal.SIGINT, _BASELINE_WARMS, {"baseline"}, id="baseline"),
        pytest.param(signal.SIGTERM, _CANDIDATE_WARMS, {"baseline", "candidate"}, id="candidate"),
        pytest.param(
            signal.SIGINT, _CANARY, {"baseline", "candidate", "demo.fault_proxy", "gateway", "loadtest"}, id="canary"
        ),
    ],
)
def test_interrupted_demo_leaves_nothing(stage: Stage, number: signal.Signals, point: str, programs: set[str]) -> None:
    """Ctrl-C while a server warms up, or in mid-canary, ends every process and removes every temporary folder."""
    with stage.running("good") as demo:
        demo.reach(point)
        stage.wait_for(programs)
        demo.process.send_signal(number)
        assert demo.end() == 130, demo.text()
        assert "interrupted; everything it started was stopped" in demo.text()
    assert stage.left_behind() == []


def test_killed_demo_takes_its_processes_along(stage: Stage) -> None:
    """Even a demo that is killed outright leaves no process behind, neither a warm server nor a warming one."""
    with stage.running("good") as demo:
        demo.reach(_CANDIDATE_WARMS)
        stage.wait_for({"baseline", "candidate"})
        demo.process.kill()
        demo.end()
    assert until(lambda: not stage.processes(), 15), stage.processes()


def test_dead_server_ends_the_demo_with_its_log(stage: Stage) -> None:
    """When a server dies the demo ends at once, with the end of that server's log, and cleans up."""
    with stage.running("good") as demo:
        demo.reach(_BASELINE_WARMS)
        os.kill(stage.wait_for({"baseline"})["baseline"], signal.SIGKILL)
        assert demo.end() == 1, demo.text()
        assert "baseline ended by itself (signal SIGKILL)" in demo.text()
    assert stage.left_behind() == []
