"""Traces of torch's own profiler: whole, bounded, for their owner alone."""

import json
from pathlib import Path
from typing import Any

import pytest

from server.ports.worker import Profile, Profiled


@pytest.fixture
def profiling(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module; torch is imported without its back ends."""
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    from server.adapters.worker import profiling

    return profiling


def batch() -> None:
    import torch

    torch.ones(4, 4) @ torch.ones(4, 4)


def end(window: Any) -> Profiled:
    event: Profiled = window.end(1)
    return event


def test_a_window_leaves_a_trace_of_its_batches(profiling: Any, tmp_path: Path) -> None:
    """In Chrome's form, and nothing beside it; a window is over once."""
    file = tmp_path / "a.json"
    window = profiling.Profiling()
    assert window.ran() is None
    window.begin(Profile(1, str(file)))
    batch()
    assert window.ran() is None
    event = end(window)
    assert (event.batches, event.size, event.error) == (1, file.stat().st_size, "")
    assert file.stat().st_mode & 0o777 == 0o600
    assert any(each.get("name") == "aten::matmul" for each in json.loads(file.read_text())["traceEvents"])
    assert list(tmp_path.iterdir()) == [file]
    assert window.end(1) is None


def test_the_rehearsal_decides_how_many_batches_a_window_has(
    profiling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The more operations a batch has, the fewer; what it recorded is thrown away."""
    monkeypatch.setattr(profiling, "MAX_EVENTS", 1)
    window = profiling.Profiling()
    window.rehearse(batch)
    window.begin(Profile(1, str(tmp_path / "a.json")))
    event = window.ran()
    assert isinstance(event, Profiled)
    assert (event.batches, event.error) == (1, "")


def test_a_trace_that_is_too_large_is_refused_and_removed(
    profiling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel stops it at the limit, so the disk never holds more."""
    monkeypatch.setattr(profiling, "MAX_BYTES", 100)
    window = profiling.Profiling()
    window.begin(Profile(1, str(tmp_path / "a.json")))
    batch()
    assert "larger than 100 bytes" in end(window).error
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_is_told(profiling: Any, tmp_path: Path) -> None:
    """A folder that is gone is no reason to stop serving."""
    window = profiling.Profiling()
    window.begin(Profile(1, str(tmp_path / "absent" / "a.json")))
    assert end(window).error.startswith("FileNotFoundError: ")


def test_a_machine_without_a_profiler_serves_all_the_same(
    profiling: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window says why there is none."""
    import torch

    def none(**given: Any) -> None:
        raise RuntimeError("no profiler here")

    monkeypatch.setattr(torch.profiler, "profile", none)
    window = profiling.Profiling()
    window.rehearse(batch)
    window.begin(Profile(1, str(tmp_path / "a.json")))
    assert window.ran() is None
    assert end(window).error == "RuntimeError: no profiler here"


def test_a_window_that_was_given_up_is_forgotten(profiling: Any, tmp_path: Path) -> None:
    """The next one has its own batches."""
    window = profiling.Profiling()
    window.begin(Profile(1, str(tmp_path / "a.json")))
    window.ran()
    window.begin(Profile(2, str(tmp_path / "b.json")))
    assert window.end(1) is None
    event = window.end(2)
    assert (event.batches, event.error) == (0, "")
    assert [each.name for each in tmp_path.iterdir()] == ["b.json"]
