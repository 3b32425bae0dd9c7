"""How many judged requests come in: what expected times, the length of a step and the residual are worked out from."""

from collections import deque
from typing import Final

from gateway.core.plan import RuleParameters
from gateway.core.snapshot import Report
from gateway.core.types import Count, Lane

KEPT_S: Final = 300
"""As far back as the control of the default rule reaches."""
_COUNTED: Final = (Count.OK, Count.FAILED, Count.DEADLINE, Count.REFUSED, Count.REFUSED_UNCHECKED, Count.UNAVAILABLE)


class Traffic:
    """Live requests of both arms that become events, second by second, through every epoch. Times are wall clock."""

    def __init__(self, now: float) -> None:
        self._began = now
        self._seconds: deque[list[int]] = deque()
        """[second, requests], oldest first."""

    def add(self, report: Report) -> None:
        """What a worker has counted since its last report."""
        second = int(report.at)
        n = sum(sum(w.tally[c] for c in _COUNTED) for w in report.windows if w.lane is Lane.LIVE)
        if not self._seconds or self._seconds[-1][0] < second:
            self._seconds.append([second, 0])
        self._seconds[-1][1] += n  # a worker whose report came a little late is of now
        while self._seconds[0][0] <= second - KEPT_S:
            self._seconds.popleft()

    def rate(self, now: float, rule: RuleParameters) -> float | None:
        """Requests a second over the time that the rule's control reaches back; None before a wide window is counted.

        Windows of another length change both in proportion.
        """
        back_s = min(float(KEPT_S), rule.trail_max_windows * rule.window_s)
        counted_s = min(back_s, now - self._began)
        if counted_s < min(back_s, rule.wide_windows * rule.window_s):
            return None
        return sum(n for second, n in self._seconds if second > now - counted_s) / counted_s
