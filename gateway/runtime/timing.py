"""How long the two sides of a request and its copy took, each from its own sending. Information, no evidence.

Both are sent in one turn of the loop, in an order that was drawn. A side that had to wait for a connection, or was sent
again on a fresh one, was not: its pair is left out, and so is one with a failure, a refusal, a compile, an event stream
or a client that was slower than the arm.
"""

from gateway.core.classify import is_accepted
from gateway.core.leg import Head
from gateway.core.types import Role
from gateway.runtime.tallies import Tallies


class Timing:
    """One pair. ``sent`` and ``ended`` are monotonic seconds; ``sent`` None: not in the turn of the other side."""

    __slots__ = ("_arrived", "_candidate_first", "_tallies", "_took")

    def __init__(self, tallies: Tallies, arrived: float, *, candidate_first: bool) -> None:
        self._tallies = tallies
        self._arrived = arrived
        self._candidate_first = candidate_first
        self._took: dict[Role, float] = {}

    def answered(self, role: Role, head: Head, sent: float | None, ended: float) -> None:
        """One side's answer is complete; a side of which this is never said makes no pair."""
        if sent is None or not is_accepted(head.status) or head.compiles or head.event_stream:
            return
        self._took[role] = ended - sent
        if len(self._took) == len(Role):
            self._tallies.note_pair(
                self._arrived,
                self._took[Role.BASELINE],
                self._took[Role.CANDIDATE],
                candidate_first=self._candidate_first,
            )
