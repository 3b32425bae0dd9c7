import io
import sys

import pytest

from ctl.printing import say


class Cut(io.StringIO):
    """A stream that fails as it is told to, with nothing of the system behind it."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def flush(self) -> None:
        raise self._error


def test_text_arrives_at_once() -> None:
    """What is said is in the stream, with the end that was asked for."""
    out = io.StringIO()
    assert say("a", out)
    assert say("b", out, end="")
    assert out.getvalue() == "a\nb"


def test_reader_that_left_is_not_mourned(capsys: pytest.CaptureFixture[str]) -> None:
    """A broken pipe is reported to the caller alone."""
    assert not say("a", Cut(BrokenPipeError()))
    assert capsys.readouterr().err == ""


def test_other_losses_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """What could not be printed for another reason is told on stderr."""
    assert not say("a", Cut(OSError(28, "No space left on device")))
    assert "cannot print" in capsys.readouterr().err


def test_lost_stderr_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """When stderr itself is lost nobody is told, and nothing is raised."""
    monkeypatch.setattr(sys, "stderr", Cut(OSError(28, "No space left on device")))
    assert not say("a", sys.stderr)
