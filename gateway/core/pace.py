"""How the events of one stream come: when the first one did, and how many of the gaps between them were too long.

"The 95th percentile of the gaps is beyond the limit" is the same statement as "more than 1 in 20 gaps is", so a stream
of any length is two counts and no quantile is kept. A gap during which the gateway did not read, because the client
did not, is nobody's and is left out.
"""

from typing import Final

_FIELD: Final = 5
"""``data:``; no more of a line has to be known."""


class Pace:
    """Of one stream. Times are monotonic seconds, ``limit_s`` is for a gap; None: gaps are not counted.

    framed: the bytes are server-sent events as they stand; False (they are compressed): every piece is an event.
    """

    __slots__ = ("_after_cr", "_framed", "_has_data", "_last", "_limit_s", "_line", "gaps", "has_begun", "too_long")

    def __init__(self, limit_s: float | None, *, framed: bool) -> None:
        self._limit_s = limit_s
        self._framed = framed
        self._line = b""
        self._has_data = False
        self._after_cr = False
        self._last: float | None = None
        self.has_begun = False
        self.gaps = 0
        self.too_long = 0

    def took(self, data: bytes, now: float) -> bool:
        """A piece of the stream came; True when it completes the first event."""
        events = self._events(data) if self._framed else 1
        if not events:
            return False
        begins, self.has_begun = not self.has_begun, True
        if self._limit_s is not None:
            if self._last is not None:
                self.gaps += events  # those that came together had no gap, all but the first
                self.too_long += now - self._last > self._limit_s
            elif begins:
                self.gaps += events - 1
            # After a pause nobody knows how far apart the events of the first piece were.
        self._last = now
        return begins

    def excuse(self) -> None:
        """Reading pauses, because the client is slow: the gap that is open is left out."""
        self._last = None

    @property
    def is_slow(self) -> bool:
        """More than 1 in 20 gaps was too long."""
        return 20 * self.too_long > self.gaps

    def _events(self, data: bytes) -> int:
        """How many events ``data`` completes. An event ends with an empty line, and has a field ``data``: comments and
        bare field names wake nobody (HTML standard, 9.2.6).
        """
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]  # the rest of a line end that was cut in two
        self._after_cr = data[-1:] == b"\r"
        found = 0
        for piece in data.splitlines(keepends=True):
            text = piece.rstrip(b"\r\n")
            line = self._line + text[:_FIELD]
            if len(text) == len(piece):
                self._line = line[:_FIELD]
            else:
                self._line = b""
                if not line:
                    found += self._has_data
                    self._has_data = False
                elif line == b"data" or line.startswith(b"data:"):
                    self._has_data = True
        return found
