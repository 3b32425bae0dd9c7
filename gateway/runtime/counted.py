"""What has been counted, for people and for counters that only rise; nothing is judged by it."""

from collections import Counter, deque
from dataclasses import dataclass, field

from gateway.core.compare.result import NotCompared
from gateway.core.evidence import Evidence
from gateway.core.histogram import Histogram
from gateway.core.snapshot import Report
from gateway.core.types import Count, Lane, Role, Tally, empty_tally


@dataclass(slots=True)
class Latencies:
    """Latency of successful answers per arm and lane: since judging began, and over the last ``recent_s`` seconds."""

    recent_s: float
    total: dict[tuple[Role, Lane], Histogram] = field(default_factory=dict)
    _recent: deque[tuple[float, Role, Lane, list[tuple[int, int]]]] = field(default_factory=deque)

    def add(self, report: Report) -> None:
        for counts in report.latencies:
            histogram = self.total.setdefault((counts.role, counts.lane), Histogram())
            for bin_, n in counts.bins:
                histogram.add_bin(bin_, n)
            self._recent.append((report.at, counts.role, counts.lane, counts.bins))
        self._trim(report.at)

    def recent(self, role: Role, now: float) -> Histogram:
        """What ``role`` answered lately, in the lanes that are evidence."""
        self._trim(now)
        merged = Histogram()
        for _, r, lane, bins in self._recent:
            if r is role and (role is Role.CANDIDATE or lane is Lane.LIVE):
                for bin_, n in bins:
                    merged.add_bin(bin_, n)
        return merged

    def _trim(self, now: float) -> None:
        while self._recent and self._recent[0][0] < now - self.recent_s:
            self._recent.popleft()

    def since_start(self, role: Role) -> Histogram:
        merged = Histogram()
        for (r, lane), histogram in self.total.items():
            if r is role and (role is Role.CANDIDATE or lane is Lane.LIVE):
                merged.merge(histogram)
        return merged


@dataclass(slots=True)
class EverCounted:
    """What this process has counted since it started, whatever the epoch: for counters that only rise."""

    tallies: dict[tuple[Role, Lane], Tally] = field(default_factory=dict)
    latencies: dict[tuple[Role, Lane], Histogram] = field(default_factory=dict)
    copies: dict[str, int] = field(default_factory=dict)
    not_compared: Counter[NotCompared] = field(default_factory=Counter)
    pairs: int = 0
    pairs_bad: int = 0
    late_events: int = 0
    incomplete_windows: int = 0

    def add(self, report: Report) -> None:
        for counts in report.windows:
            tally = self.tallies.setdefault((counts.role, counts.lane), empty_tally())
            for i, n in enumerate(counts.tally):
                tally[i] += n
        for latency in report.latencies:
            histogram = self.latencies.setdefault((latency.role, latency.lane), Histogram())
            for bin_, n in latency.bins:
                histogram.add_bin(bin_, n)
        for key, n in report.copies.items():
            self.copies[key] = self.copies.get(key, 0) + n


def live_requests(evidence: Evidence, role: Role) -> int:
    """Live requests that ``role`` was asked to answer in this epoch."""
    return evidence.total(
        role,
        Lane.LIVE,
        Count.OK,
        Count.FAILED,
        Count.DEADLINE,
        Count.REFUSED,
        Count.REFUSED_UNCHECKED,
        Count.CLIENT_FAULT,
        Count.CANCELLED,
    )
