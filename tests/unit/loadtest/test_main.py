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


def test_rows_in_another_order_are_wrong_answers(endpoint: Any, tmp_path: Path) -> None:
    """Answers to several known texts whose rows are rotated are counted; those to one text are right as they are."""
    mix = tmp_path / "mix.json"
    mix.write_text('{"parts": [{"name": "several", "share": 1, "tokens": [8, 16], "texts": [2, 4]}]}')
    usual = endpoint.reply
    endpoint.reply = lambda number, texts: usual(number, texts[1:] + texts[:1])
    done = run_load(endpoint, tmp_path, "--reference", endpoint.url, "--mix", str(mix))
    seen = stats(tmp_path)
    assert done.returncode == 0, done.stderr
    assert seen["wrong_answers"] == seen["compared"] > 0
    assert seen["failures"] == 0


def longest_at_most_six(texts: list[str]) -> bool:
    # No word of these lists holds a space, so words are tokens.
    return all(len(text.split()) <= 4 for text in texts)


def test_second_mix_from_a_moment_on(endpoint: Any, tmp_path: Path) -> None:
    """Once the file exists requests come from the second mix, compared with a reference of its own."""
    short, long, moment = tmp_path / "short.json", tmp_path / "long.json", tmp_path / "now"
    short.write_text('{"parts": [{"name": "short", "share": 1, "tokens": [3, 6]}]}')
    long.write_text('{"parts": [{"name": "long", "share": 1, "tokens": [100, 128]}]}')
    usual = endpoint.reply

    def reply(number: int, texts: list[str]) -> tuple[int, bytes] | None:
        if number == 2 * 64 + 20:
            moment.touch()
        return usual(number, texts)

    endpoint.reply = reply
    words = ["--reference", endpoint.url, "--mix", str(short), "--then-mix", str(long), "--then-when", str(moment)]
    done = run_load(endpoint, tmp_path, "--seconds", "3", *words)
    assert done.returncode == 0, done.stderr
    seen = stats(tmp_path)
    assert 0 < seen["switched_after_s"] < 3
    assert (seen["failures"], seen["wrong_answers"]) == (0, 0)
    known, sent = endpoint.texts[:128], endpoint.texts[128:]
    assert [longest_at_most_six(texts) for texts in known] == [True] * 64 + [False] * 64
    assert all(longest_at_most_six(texts) for texts in sent[:20])
    assert not any(longest_at_most_six(texts) for texts in sent[-20:])
    assert any(texts in known[64:] for texts in sent[20:])


def test_second_mix_that_is_due_at_once(endpoint: Any, tmp_path: Path) -> None:
    """A file that is there before the start means the second mix from the first request on."""
    long, moment = tmp_path / "long.json", tmp_path / "now"
    long.write_text('{"parts": [{"name": "long", "share": 1, "tokens": [100, 128]}]}')
    moment.touch()
    done = run_load(endpoint, tmp_path, "--gaps", "fixed", "--then-mix", str(long), "--then-when", str(moment))
    assert done.returncode == 0, done.stderr
    assert not any(longest_at_most_six(texts) for texts in endpoint.texts)
    assert min(len(texts[0].split()) for texts in endpoint.texts) > 90
    assert stats(tmp_path)["switched_after_s"] is not None


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


def test_second_mix_without_its_moment(tmp_path: Path) -> None:
    """One of the two options alone ends with exit code 2 and names both; so does a second mix that is absent."""
    words = ["run", "--host", "http://127.0.0.1:1", "--rate", "1", "--seconds", "1"]
    done = subprocess.run(command(*words, "--then-when", "x"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--then-mix, --then-when: only --then-when is given" in done.stderr
    words += ["--then-when", "x", "--then-mix", str(tmp_path / "absent.json")]
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--then-mix: " in done.stderr


def test_mix_prints_bucket_shares() -> None:
    """The mix command prints shares that add up to one and never starts locust."""
    done = subprocess.run(command("mix", "--seed", "2"), capture_output=True, text=True, timeout=60)
    assert sum(json.loads(done.stdout).values()) == pytest.approx(1.0)


def test_plain_locust(endpoint: Any, tmp_path: Path) -> None:
    """The locust file works under locust's own command line, a second mix included."""
    words = ["-f", "loadtest/locustfile.py", "--headless", "-u", "8", "-r", "8", "-t", "2s", "--host", endpoint.url]
    long, moment = tmp_path / "long.json", tmp_path / "now"
    long.write_text('{"parts": [{"name": "long", "share": 1, "tokens": [100, 128]}]}')
    moment.touch()
    second = {"CANARY_LOAD_THEN_MIX": str(long), "CANARY_LOAD_THEN_WHEN": str(moment)}
    done = subprocess.run(
        [str(Path(sys.executable).parent / "locust"), *words, "--rate", "20", "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": os.getcwd(), **second},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seen = stats(tmp_path)
    assert seen["sent"] == seen["answered"] > 15
    assert min(len(texts[0].split()) for texts in endpoint.texts) > 90
