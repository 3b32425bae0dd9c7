import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bench.decisions import main
from bench.outcome import Outcome
from bench.trials import Task, Trial, play

SMALL = ["--seeds", "4", "--runs", "1", "--fault-runs", "1", "--kinds", "default", "--weights", "1000"]


def test_a_small_table_finds_the_planted_fault_and_leaves_the_healthy_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line to the table and the file."""
    out = tmp_path / "decisions.json"
    code = main([*SMALL, "--rules", "ours", "--scenarios", "aa,errors5", "--processes", "1", "--out", str(out)])
    printed, written = capsys.readouterr().out, json.loads(out.read_text())
    assert code == 0
    assert "| default | aa | 10 % | 0/1 |" in printed
    assert "| errors5 | 100 % · " in printed
    assert [row["rolled_back"] for row in written["nulls"]] == [0]
    assert [row["found"] for row in written["faults"]] == [1]
    assert written["problems"] == []


@pytest.mark.parametrize(
    ("scenario", "back", "reason"),
    [("stall", None, "stall found in 0 of 1 runs"), ("aa", 300, "1 of 1 healthy candidates rolled back")],
)
def test_a_broken_promise_fails_the_command(
    scenario: str, back: int | None, reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 1 and the reason when the judge misses a gross fault or rolls healthy candidates back."""

    def planted(todo: Sequence[Task], *, processes: int) -> list[Trial]:
        played = [trial for task in todo for trial in play(task)]
        return [replace(trial, outcome=Outcome(rolled_back_at=back, passed_at=None)) for trial in played]

    monkeypatch.setattr("bench.decisions.run", planted)
    assert main([*SMALL, "--rules", "ours", "--scenarios", scenario]) == 1
    assert f"FAILED ours: {reason}" in capsys.readouterr().out


def test_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    """Two processes write the file that one writes."""
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    for file, processes in zip(files, ("1", "2"), strict=True):
        main(
            [*SMALL, "--rules", "flagger-like", "--scenarios", "aa,stall", "--processes", processes, "--out", str(file)]
        )
    assert files[0].read_text() == files[1].read_text()


@pytest.mark.parametrize(
    ("option", "value"),
    [("--rules", "spinnaker"), ("--scenarios", "flood"), ("--weights", "1234"), ("--seeds", "1,x"), ("--runs", "0")],
)
def test_an_unknown_value_is_refused_with_what_is_allowed(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that the benchmark does not know is no silent default."""
    with pytest.raises(SystemExit) as refused:
        main([option, value])
    assert refused.value.code == 2
    assert "must be" in capsys.readouterr().err
