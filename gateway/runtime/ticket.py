"""One open request on one arm, and the metrics that its time may belong to."""

from typing import Final

from gateway.core.pace import Pace
from gateway.core.types import Count

TIMES: Final = (
    (1, Count.LAT50_N, Count.LAT50_BAD),
    (2, Count.LAT95_N, Count.LAT95_BAD),
    (4, Count.LAT99_N, Count.LAT99_BAD),
    (8, Count.TTFT_N, Count.TTFT_BAD),
)
"""Of each metric with a limit on time its bit and its counts."""
ANSWER: Final = 1 | 2 | 4
FIRST_EVENT: Final = 8


class Ticket:
    """One open request on one arm.

    sent: since when the arm is waited for, None while the client still sends.
    ended: until when, None so far. A ticket still open then waits for what the answer is to be compared with.
    held: since when the arm is made to wait by a slow client, None while it is not; that time is not the arm's.
    times: the bits of the metrics that its time belongs to. late: of those in which it is counted already.
    pace: once its answer is a stream whose events count.
    """

    __slots__ = ("arrived", "column", "ended", "held", "is_open", "late", "pace", "sent", "times", "window")

    def __init__(self, column: int, window: int, arrived: float, sent: float | None, times: int) -> None:
        self.column = column
        self.window = window
        self.arrived = arrived
        self.sent = sent
        self.ended: float | None = None
        self.held: float | None = None
        self.times = times
        self.late = 0
        self.pace: Pace | None = None
        self.is_open = True

    def start(self, now: float) -> None:
        """The arm has the whole request."""
        self.sent = now

    def end(self, now: float) -> None:
        """The arm has done its part; what comes after is not its time."""
        if self.ended is None:
            self.ended = now

    def hold(self, now: float) -> None:
        """What the arm still sends is not read for now, because the client does not read it."""
        if self.held is None and self.sent is not None:
            self.held = now

    def go_on(self, now: float) -> None:
        """The client has read; the arm is waited for again."""
        if self.held is not None and self.sent is not None:
            self.sent += now - self.held
        self.held = None

    def age(self, now: float) -> float:
        """For how long the arm has been waited for."""
        if self.sent is None:
            return 0.0
        until = self.held if self.ended is None else self.ended
        return (now if until is None else until) - self.sent
