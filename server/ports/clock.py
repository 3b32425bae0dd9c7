"""Time."""

from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    def wall(self) -> float:
        """Seconds since the Unix epoch, for logs."""
        ...
