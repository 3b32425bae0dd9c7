"""What a process prints, as lines that fit into a log: bounded in length, and in number over time."""

from typing import Final

MAX_LINE: Final = 2000


class Lines:
    """Bytes in, lines out. The rest of a line that is too long is thrown away, and never kept in memory."""

    def __init__(self, most: int = MAX_LINE) -> None:
        self._most = most
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that are complete by now, without those of white space alone."""
        *lines, rest = (self._rest + data).split(b"\n")
        # One byte more than is shown, so that a line still counts as the one that was too long.
        self._rest = rest[: self._most + 1]
        return [line[: self._most] for line in lines if line[: self._most].strip()]

    def end(self) -> list[bytes]:
        """The last line, which may lack its end."""
        return self.feed(b"\n")


class Allowance:
    """So many at once, and so many a second after that. ``now``: seconds of one clock."""

    def __init__(self, burst: int, per_s: float) -> None:
        self._burst = burst
        self._per_s = per_s
        self._left = float(burst)
        self._at: float | None = None
        self._refused = 0

    def take(self, now: float) -> bool:
        """Whether one more is allowed; if not, it counts as left out."""
        if self._at is not None:
            self._left = min(float(self._burst), self._left + (now - self._at) * self._per_s)
        self._at = now
        if self._left < 1:
            self._refused += 1
            return False
        self._left -= 1
        return True

    def left_out(self) -> int:
        """How many were refused since this was last asked."""
        refused, self._refused = self._refused, 0
        return refused
