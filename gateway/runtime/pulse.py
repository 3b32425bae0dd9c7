"""This worker's own breaker: attempts and failures of both arms, second by second.

It works without the control process: a candidate that fails more often than not is taken out here and reported at
once, whoever else is listening.
"""

from collections import deque
from typing import Final

from gateway.core.breaker import BreakerWatch
from gateway.core.breaker import Pulse as BreakerState
from gateway.core.types import Outcome, Role

_FAILED: Final = frozenset({Outcome.FAILED, Outcome.TIMED_OUT_BY_CLIENT_DEADLINE, Outcome.UNAVAILABLE})
_NO_ATTEMPT: Final = frozenset({Outcome.CANCELLED, Outcome.SHED})
FAILOVER_MEMORY_S: Final = 10
Second = tuple[int, int, int, int]
"""(attempts, failed) of baseline and candidate."""


class Pulse:
    """Scores and failovers of one epoch. Times are monotonic seconds."""

    __slots__ = ("_counts", "_failovers", "_next", "_seconds", "_watch")

    def __init__(self, now: float) -> None:
        self._next = now + 1.0
        self.reset()

    def reset(self) -> None:
        """A new epoch knows nothing of the old one's failures."""
        self._watch = BreakerWatch()
        self._counts = {Role.BASELINE: [0, 0], Role.CANDIDATE: [0, 0]}
        self._seconds: list[Second] = []
        self._failovers: deque[int] = deque([0], maxlen=FAILOVER_MEMORY_S + 1)

    def count(self, role: Role, outcome: Outcome) -> None:
        """One request's outcome. A cancelled request and a shed copy say nothing about the arm."""
        if outcome in _NO_ATTEMPT:
            return
        counts = self._counts[role]
        counts[0] += 1
        if outcome in _FAILED:
            counts[1] += 1

    def failed_over(self) -> None:
        """The baseline answered in the candidate's place."""
        self._failovers[-1] += 1

    def advance(self, now: float) -> bool:
        """Close every full second up to ``now``; True when the candidate is to be taken out."""
        trips = False
        while now >= self._next:
            self._next += 1.0
            trips = self._close_second() or trips
        return trips

    def _close_second(self) -> bool:
        (b_n, b_failed), (c_n, c_failed) = self._counts[Role.BASELINE], self._counts[Role.CANDIDATE]
        self._counts = {Role.BASELINE: [0, 0], Role.CANDIDATE: [0, 0]}
        state = self._watch.second(
            baseline=(b_n, b_failed), candidate=(c_n, c_failed), failed_over_recently=self.recent_failovers > 0
        )
        self._seconds.append((b_n, b_failed, c_n, c_failed))
        self._failovers.append(0)
        return state is BreakerState.CANDIDATE_SICK

    @property
    def scores(self) -> tuple[float, float]:
        """Scores of (baseline, candidate) after the last full second."""
        return self._watch.baseline.score, self._watch.candidate.score

    @property
    def recent_failovers(self) -> int:
        """Requests failed over in the last ten seconds."""
        return sum(self._failovers)

    def take_seconds(self) -> list[Second]:
        """The seconds closed since the last time."""
        seconds, self._seconds = self._seconds, []
        return seconds
