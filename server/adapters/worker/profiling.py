"""Windows of torch.profiler over the batches of a serving worker.

Bounds: the front ends a window after its time, and this side after so many batches that about MAX_EVENTS operations
were recorded, which also bounds the memory. The file cannot grow beyond MAX_BYTES: the kernel refuses more, and what is
cut off is removed. Tensors' contents are no part of a trace, nor are shapes and stacks recorded.
"""

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

from server.ports.worker import Profile, Profiled

# About 300 bytes each in the file.
MAX_EVENTS: Final = 200_000
MAX_BATCHES: Final = 1000
MAX_BYTES: Final = 64 * 1024 * 1024


class Profiling:
    """At most one window at a time. Every method runs on the device's thread, whose work is recorded."""

    def __init__(self) -> None:
        self._most = MAX_BATCHES
        self._window: Profile | None = None
        self._profiler: Any = None
        self._began = 0.0
        self._batches = 0
        self._fault = ""

    def rehearse(self, batch: Callable[[], object]) -> None:
        """A window of one batch that nobody keeps: loading the profiler takes seconds, which no request should wait
        for, and how many operations a batch has decides how many batches a window may have.
        """
        profiler = self._started()
        batch()
        if profiler is not None:
            self._most = max(1, min(MAX_BATCHES, MAX_EVENTS // max(1, _stopped(profiler))))

    def begin(self, window: Profile) -> None:
        """A window that the front gave up is forgotten."""
        if self._profiler is not None:
            _stopped(self._profiler)
        self._window, self._batches, self._began = window, 0, time.monotonic()
        self._profiler = self._started()

    def ran(self) -> Profiled | None:
        """A batch is done; None unless it was the last of a window."""
        if self._window is None:
            return None
        self._batches += 1
        return self.end(self._window.number) if self._batches >= self._most else None

    def end(self, number: int) -> Profiled | None:
        """Writes the file; None when this window is over already."""
        window, profiler = self._window, self._profiler
        if window is None or window.number != number:
            return None
        self._window = self._profiler = None
        seconds = time.monotonic() - self._began
        if profiler is None:
            return Profiled(number, self._batches, seconds, 0, self._fault)
        try:
            _stopped(profiler)
            size = _write(profiler, Path(window.file))
        except Exception as error:  # of the profiler or the disk: the batches are served all the same
            return Profiled(number, self._batches, seconds, 0, f"{type(error).__name__}: {error}")
        return Profiled(number, self._batches, seconds, size)

    def _started(self) -> Any:
        """None where this machine has no profiler; the reason is kept."""
        try:
            # Whatever this build of torch can record; ``acc_events`` keeps one cycle, which is all that there is.
            profiler = torch.profiler.profile(acc_events=True)
            profiler.start()
        except Exception as error:  # a profiler that does not start is no reason not to serve
            self._fault = f"{type(error).__name__}: {error}"
            return None
        return profiler


def _stopped(profiler: Any) -> int:
    """How many operations were recorded."""
    profiler.stop()
    return len(profiler.profiler.kineto_results.events())


def _write(profiler: Any, file: Path) -> int:
    """The size. For its owner alone, and whole or not at all. Raises OSError or ValueError."""
    # Kineto writes beside the file that it was told and then renames, with the mode that the process gives.
    with tempfile.TemporaryDirectory(prefix=".profile-", dir=file.parent) as private:
        written = Path(private) / file.name
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_BYTES, limits[1]))
        try:
            profiler.export_chrome_trace(str(written))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        if not _whole(written):
            raise ValueError(
                f"the trace could not be written whole: larger than {MAX_BYTES} bytes (ask for fewer seconds), or the "
                "disk is full"
            )
        written.chmod(0o600)
        written.rename(file)
    return file.stat().st_size


def _whole(file: Path) -> bool:
    """Kineto says nothing when a write fails; what it wrote is whole when the JSON is closed."""
    if not file.exists():
        return False
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 64))
        return stream.read().rstrip().endswith(b"}")
