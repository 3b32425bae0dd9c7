"""The only place in the gateway that reads a clock."""

import time


class SystemClock:
    """Wall time anchored to the monotonic clock at start.

    A stepped system clock must not move requests into windows that are closed or not yet due, so wall time is the
    start's wall time plus monotonic progress.
    """

    def __init__(self) -> None:
        self._offset = time.time() - time.monotonic()

    def wall(self) -> float:
        return self._offset + time.monotonic()

    def monotonic(self) -> float:
        return time.monotonic()
