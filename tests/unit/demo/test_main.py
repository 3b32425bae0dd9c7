import asyncio
import os
import signal
from pathlib import Path
from typing import ClassVar

import pytest

import demo.__main__ as command
from demo.failures import DemoFailed
from demo.options import Options
from demo.result import Result
from demo.scenarios import SCENARIOS
from demo.weights import NoWeights, Weights


def absent() -> Path:
    raise NoWeights("the data package is not installed")


class Scripted:
    """Stands in for a play: a signal comes at the named moment of the first one."""

    moment = ""
    played: ClassVar[list[str]] = []

    def __init__(self, options: Options, *_: object, **__: object) -> None:
        self.played.append(options.scenario.name)

    async def run(self) -> Result:
        if self.moment == "run":
            os.kill(os.getpid(), signal.SIGINT)
        await asyncio.sleep(60 if self.moment == "run" else 0)
        raise DemoFailed("played to no end")

    def close(self) -> None:
        if self.moment == "close":
            os.kill(os.getpid(), signal.SIGTERM)


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
    assert "the results cannot be written" in seen
    assert str(tmp_path / "file") in seen


def test_failed_start_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When not even the first process can be started, the reason is told and the temporary folder is gone."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    monkeypatch.setattr(command, "find", lambda: Weights("m", tmp_path, "0" * 64))
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


@pytest.mark.parametrize("moment", ["run", "close"])
def test_a_signal_ends_the_whole_series(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    """A scenario that is interrupted, even while it is being stopped, is the last; no result of before is left."""
    for name in ("good", "refuse"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "result.json").write_text("{}")
    monkeypatch.setattr(command, "find", lambda: Weights("m", tmp_path, "0" * 64))
    monkeypatch.setattr(command, "Play", Scripted)
    monkeypatch.setattr(Scripted, "moment", moment)
    monkeypatch.setattr(Scripted, "played", [])
    before = signal.getsignal(signal.SIGINT)
    assert command.main(["--scenario", "all", "--results", str(tmp_path)]) == 130
    assert Scripted.played == ["good"]
    assert "interrupted; everything it started was stopped" in capsys.readouterr().err
    assert list(tmp_path.glob("*/result.json")) == []
    assert signal.getsignal(signal.SIGINT) is before


def test_a_signal_between_two_scenarios_ends_the_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two scenarios nothing runs, and the next one does not begin."""
    monkeypatch.setattr(command, "find", lambda: Weights("m", tmp_path, "0" * 64))
    monkeypatch.setattr(command, "Play", Scripted)
    monkeypatch.setattr(Scripted, "moment", "")
    monkeypatch.setattr(Scripted, "played", [])
    monkeypatch.setattr(command, "_clear", lambda options: options.scenario.name == "refuse" and signal.raise_signal(1))
    assert command.main(["--scenario", "all", "--results", str(tmp_path)]) == 130
    assert Scripted.played == []
