"""The load process itself, against a small endpoint on loopback."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "loadtest", *words]


def run_load(endpoint: Any, out: Path, *more: str) -> "subprocess.CompletedProcess[str]":
    words = ["run", "--host", endpoint.url, "--rate", "40", "--seconds", "1.5", "--out", str(out), *more]
    return subprocess.run(command(*words), capture_output=True, text=True, timeout=60)


def stats(out: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((out / "stats.json").read_text())
    return loaded


def test_whole_run(endpoint: Any, tmp_path: Path) -> None:
    """All planned requests are sent and answered, the known ones compared, and the exit code is 0."""
    done = run_load(endpoint, tmp_path, "--reference", endpoint.url)
    assert done.returncode == 0, done.stderr
    seen = stats(tmp_path)
    assert seen["planned"] == seen["sent"] == seen["answered"] > 30
    assert seen["compared"] > 0
    assert (seen["failures"], seen["wrong_answers"], seen["unsent"]) == (0, 0, 0)
    assert set(seen["by_arm"]) == {"cpu", "tpu"}
    assert set(seen["by_bucket"]) == {"1x16"}
    assert len(endpoint.texts) == 64 + seen["sent"]


def test_schedule_repeats_with_the_seed(endpoint: Any, tmp_path: Path) -> None:
    """The same seed sends the same texts, whatever order the answers come in."""
    run_load(endpoint, tmp_path / "a")
    first = list(endpoint.texts)
    endpoint.texts.clear()
    run_load(endpoint, tmp_path / "b")
    assert sorted(first) == sorted(endpoint.texts)


def test_failures_set_the_exit_code(endpoint: Any, tmp_path: Path) -> None:
    """Bad status, lost connections and answers without vectors are failures, told apart, and the exit code is 1."""
    usual = endpoint.reply

    def reply(number: int, texts: list[str]) -> tuple[int, bytes] | None:
        return {0: (500, b"{}"), 1: None, 2: (200, b"{}")}.get(number, usual(number, texts))

    endpoint.reply = reply
    done = run_load(endpoint, tmp_path)
    assert done.returncode == 1, done.stderr
    seen = stats(tmp_path)
    assert seen["failures_by_code"] == {"connection": 1, "not_json": 1, "status_500": 1}
    assert seen["answered"] == seen["sent"] - 3


def test_wrong_answers_are_counted_not_failed(endpoint: Any, tmp_path: Path) -> None:
    """Well-formed answers to another text are wrong answers; the run has no failures."""
    usual = endpoint.reply
    endpoint.reply = lambda number, texts: usual(number, texts if number < 64 else ["another"] * len(texts))
    done = run_load(endpoint, tmp_path, "--reference", endpoint.url)
    seen = stats(tmp_path)
    assert done.returncode == 0, done.stderr
    assert seen["wrong_answers"] == seen["compared"] > 0
    assert seen["min_cosine"] < 0.95


def test_no_free_user_is_late_not_lost(endpoint: Any, tmp_path: Path) -> None:
    """With one user and an endpoint that holds back, requests are sent late and their latency counts the wait."""
    endpoint.hold.clear()
    words = ["run", "--host", endpoint.url, "--rate", "40", "--seconds", "1", "--users", "1", "--out", str(tmp_path)]
    load = subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True)
    assert load.stderr is not None
    for line in load.stderr:
        if line.startswith("finishing"):  # the schedule is over, one request is out
            break
    endpoint.hold.set()
    load.communicate(timeout=60)
    seen = stats(tmp_path)
    assert seen["sent"] == seen["planned"] == seen["answered"]
    assert seen["late"] > seen["planned"] // 2
    assert seen["latency"]["p50"] > 50


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_the_run_cleanly(endpoint: Any, tmp_path: Path, number: signal.Signals) -> None:
    """A signal stops arrivals, lets what is out finish and writes the statistics."""
    words = ["run", "--host", endpoint.url, "--rate", "20", "--seconds", "600", "--out", str(tmp_path)]
    load = subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True)
    assert endpoint.reached.acquire(timeout=30)
    load.send_signal(number)
    load.communicate(timeout=60)
    assert load.returncode == 0
    seen = stats(tmp_path)
    assert seen["state"] == "done"
    assert seen["sent"] == seen["answered"] > 0


def test_stop_file_ends_the_run(endpoint: Any, tmp_path: Path) -> None:
    """The schedule ends when the stop file appears."""
    stop = tmp_path / "stop"
    words = ["run", "--host", endpoint.url, "--rate", "20", "--seconds", "600", "--stop-file", str(stop)]
    load = subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True)
    assert endpoint.reached.acquire(timeout=30)
    stop.touch()
    load.communicate(timeout=60)
    assert load.returncode == 0


def test_no_reference_no_run(endpoint: Any, tmp_path: Path) -> None:
    """A reference endpoint that does not answer ends the run before it starts, with exit code 2."""
    endpoint.reply = lambda _, __: (503, b"warming")
    done = run_load(endpoint, tmp_path, "--reference", endpoint.url)
    assert done.returncode == 2
    assert "known text 0 of 64: status_503" in done.stderr
    assert not (tmp_path / "stats.json").exists()


def test_usage() -> None:
    """Options that cannot be end with exit code 2 and a line for each."""
    done = subprocess.run(
        command("run", "--host", "nowhere", "--rate", "0", "--seconds", "1"), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 2


def test_mix_prints_bucket_shares() -> None:
    """The mix command prints shares that add up to one and never starts locust."""
    done = subprocess.run(command("mix", "--seed", "2"), capture_output=True, text=True, timeout=60)
    assert sum(json.loads(done.stdout).values()) == pytest.approx(1.0)


def test_plain_locust(endpoint: Any, tmp_path: Path) -> None:
    """The locust file works under locust's own command line."""
    words = ["-f", "loadtest/locustfile.py", "--headless", "-u", "8", "-r", "8", "-t", "2s", "--host", endpoint.url]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "locust"), *words, "--rate", "20", "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": os.getcwd()},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = stats(tmp_path)
    assert seen["sent"] == seen["answered"] > 15
