"""Where profiles are kept: named by time and run, and no more than fit."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from server.ports.clock import Clock
from server.runtime.profile import ProfileRefused

# Of 64 MiB at most.
MAX_FILES: Final = 20


class ProfileFolder:
    """Removes nothing: whoever recorded a profile decides when it has been looked at."""

    def __init__(self, folder: Path, run_id: str, clock: Clock) -> None:
        self._folder = folder
        self._run_id = run_id
        self._clock = clock

    def next_file(self) -> Path:
        """Raises ProfileRefused."""
        try:
            kept = sum(1 for _ in self._folder.glob("profile-*.json"))
        except OSError as error:
            raise ProfileRefused(f"profiler.folder: {error}", busy=False) from error
        if kept >= MAX_FILES:
            raise ProfileRefused(
                f"profiler.folder: {self._folder} holds {kept} profiles, allowed are {MAX_FILES}: remove some",
                busy=True,
            )
        now = datetime.fromtimestamp(self._clock.wall(), UTC)
        return self._folder / f"profile-{now:%Y%m%dT%H%M%S.%f}Z-{self._run_id}.json"
