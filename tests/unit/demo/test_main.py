import asyncio
from pathlib import Path

import pytest

import demo.__main__ as command
from demo.options import Options
from demo.result import Result
from demo.scenarios import SCENARIOS
from demo.weights import NoWeights


def absent() -> Path:
    raise NoWeights("the data package is not installed")


def interrupted(options: Options) -> Result | None:
    raise asyncio.CancelledError


def no_room(*_: object, **__: object) -> int:
    raise OSError(28, "No space left on device")


def test_failure_is_told_and_no_old_result_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo that cannot start exits 1 with the reason, and the result of an earlier one is gone."""
    monkeypatch.setattr(command, "find", absent)
    old = tmp_path / "good" / "result.json"
    old.parent.mkdir()
    old.write_text("{}")
    assert command.main(["--results", str(tmp_path)]) == 1
    assert "the data package is not installed" in capsys.readouterr().err
    assert not old.exists()


def test_unwritable_results_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no result can be written the demo says so and does not start."""
    (tmp_path / "file").write_text("")
    assert command.main(["--results", str(tmp_path / "file")]) == 1
    seen = capsys.readouterr().err
    assert str(tmp_path / "file") in seen
    assert "logs are in" in seen


def test_failed_start_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When not even the first process can be started, the reason is told and the temporary folder is gone."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(command, "find", lambda: tmp_path)
    monkeypatch.setattr("demo.processes.Crew.start", no_room)
    assert command.main(["--results", str(tmp_path / "results"), "--cache-dir", str(tmp_path / "cache")]) == 1
    assert "No space left" in capsys.readouterr().err
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_scenario_that_cannot_be_played_stops_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All are tried, each failure is told, and the series fails."""
    monkeypatch.setattr(command, "find", absent)
    assert command.main(["--scenario", "all", "--results", str(tmp_path)]) == 1
    seen = capsys.readouterr()
    assert [name for name in SCENARIOS if f"demo: {name}: the data package" in seen.err] == list(SCENARIOS)
    assert "0 of 7 scenarios ended as expected" in seen.out


def test_ctrl_c_ends_the_whole_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interrupted scenario is the last one, and no result of an earlier series is left."""
    for name in ("good", "refuse"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("{}")
    monkeypatch.setattr(command, "_played", interrupted)
    assert command.main(["--scenario", "all", "--results", str(tmp_path)]) == 130
    assert list(tmp_path.glob("*/result.json")) == []
