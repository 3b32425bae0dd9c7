from pathlib import Path

import pytest

import demo.__main__ as command
from demo.weights import NoWeights


def test_failure_is_told_and_no_old_result_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo that cannot start exits 1 with the reason, and the result of an earlier one is gone."""

    def absent() -> Path:
        raise NoWeights("the data package is not installed")

    monkeypatch.setattr(command, "find", absent)
    old = tmp_path / "good" / "result.json"
    old.parent.mkdir()
    old.write_text("{}")
    assert command.main(["--results", str(tmp_path)]) == 1
    assert "the data package is not installed" in capsys.readouterr().err
    assert not old.exists()
