"""How often a worker that is lost is started again, and after what pause."""

from dataclasses import dataclass
from typing import Final

MAX_PAUSE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class RestartRule:
    """``limit`` losses in a row are made good, the next one is the end; pauses double from ``back_off_s``.

    A worker that was ready for ``steady_s`` starts the count anew; one that never gets ready never does.
    """

    limit: int = 3
    back_off_s: float = 1.0
    steady_s: float = 600.0

    def in_a_row(self, before: int, ready_s: float) -> int:
        """Losses in a row, this one included, after ``before``; the worker had been ready for ``ready_s``."""
        return 1 if ready_s >= self.steady_s else before + 1

    def pause_s(self, losses: int) -> float | None:
        """Before the restart after so many losses in a row; None when there is none any more."""
        if losses > self.limit:
            return None
        return min(self.back_off_s * 2.0 ** (losses - 1), MAX_PAUSE_S)
