"""The system's clocks."""

import time


class SystemClock:
    """A Clock (see ports)."""

    def monotonic(self) -> float:
        return time.monotonic()

    def wall(self) -> float:
        return time.time()
