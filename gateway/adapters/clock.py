"""The only place in the gateway that reads a clock."""

import time


class SystemClock:
    """Wall time anchored to the monotonic clock at start.

    A stepped system clock must not move requests into windows that are closed or not yet due, so wall time is the
    start's wall time plus monotonic progress. ``wall_offset`` takes over another process's anchor: the monotonic clock
    is the machine's, so both then agree on every window.
    """

    def __init__(self, wall_offset: float | None = None) -> None:
        self.wall_offset = time.time() - time.monotonic() if wall_offset is None else wall_offset

    def wall(self) -> float:
        return self.wall_offset + time.monotonic()

    def monotonic(self) -> float:
        return time.monotonic()
