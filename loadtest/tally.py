"""Counts and latencies of a run, in memory of fixed size however long it lasts."""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

LATE_S: Final = 0.05  # started this long after its time: the generator, not the gateway, was the bottleneck
_RATIO: Final = 1.02  # neighbouring bins differ by 2 %
_FLOOR_MS: Final = 0.05
UNKNOWN: Final = "none"
OTHER: Final = "other"
MAX_GROUPS: Final = 256  # names told apart by arm and by bucket each; the rest is one group


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds from the planned start to the whole answer, successful answers only."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class GroupStats(msgspec.Struct, frozen=True, kw_only=True):
    """One arm or one bucket."""

    answered: int
    latency: Latency


class RunStats(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run. ``sent_ratio`` is sent / planned of the requests whose time has come.

    ``compared`` and ``wrong_answers`` count answers, ``min_cosine`` is over all their rows. ``switched_after_s`` is
    when the first request of the second mix was due, in seconds since the start, ``switched_at`` the same as a stamp of
    the machine's wall clock; None while there was none.
    """

    state: str
    elapsed_s: float
    seed: int
    rate: float
    planned: int
    sent: int
    sent_ratio: float
    in_flight: int
    answered: int
    failures: int
    failures_by_code: dict[str, int]
    last_failure: str
    failovers: int
    late: int
    max_late_ms: float
    unsent: int
    compared: int
    wrong_answers: int
    min_cosine: float | None
    switched_after_s: float | None
    switched_at: float | None
    latency: Latency
    by_arm: dict[str, GroupStats]
    by_bucket: dict[str, GroupStats]


class Histogram:
    """Latencies in log bins: quantiles within 2 %."""

    def __init__(self) -> None:
        self._bins: dict[int, int] = {}
        self.count = 0
        self._max = 0.0

    def observe(self, ms: float) -> None:
        place = math.ceil(math.log(max(ms, _FLOOR_MS) / _FLOOR_MS) / math.log(_RATIO))
        self._bins[place] = self._bins.get(place, 0) + 1
        self.count += 1
        self._max = max(self._max, ms)

    def quantile(self, q: float) -> float | None:
        """The upper edge of the bin that holds the quantile, at most the largest value; None without values."""
        if not self.count:
            return None
        wanted, seen = max(1, math.ceil(q * self.count)), 0
        for place in sorted(self._bins):
            seen += self._bins[place]
            if seen >= wanted:
                return min(_FLOOR_MS * _RATIO**place, self._max)
        return self._max

    def view(self) -> Latency:
        p50, p95, p99 = (_rounded(self.quantile(q)) for q in (0.5, 0.95, 0.99))
        return Latency(count=self.count, p50=p50, p95=p95, p99=p99, max=_rounded(self._max) if self.count else None)


class Tally:
    """What happened so far. Every planned request ends in exactly one of answered, failures, unsent."""

    def __init__(self) -> None:
        self.planned = 0
        self.sent = 0
        self.answered = 0
        self.failovers = 0
        self.late = 0
        self.max_late_ms = 0.0
        self.unsent = 0
        self.compared = 0
        self.wrong_answers = 0
        self.min_cosine: float | None = None
        self.switched_after_s: float | None = None
        self.switched_at: float | None = None
        self.failures: dict[str, int] = {}
        self.last_failure = ""
        self._all = Histogram()
        self._arms: dict[str, Histogram] = {}
        self._buckets: dict[str, Histogram] = {}

    @property
    def in_flight(self) -> int:
        return self.sent - self.answered - sum(self.failures.values())

    def started(self, late_s: float) -> None:
        """A request was sent ``late_s`` after its planned time."""
        self.sent += 1
        self.late += late_s > LATE_S
        self.max_late_ms = max(self.max_late_ms, late_s * 1000.0)

    def switched(self, after_s: float, *, at: float) -> None:
        """The first request of the second mix is due."""
        self.switched_after_s, self.switched_at = round(after_s, 3), at

    def succeeded(self, ms: float, *, arm: str, bucket: str, failover: bool) -> None:
        self.answered += 1
        self.failovers += failover
        self._all.observe(ms)
        _group(self._arms, arm).observe(ms)
        _group(self._buckets, bucket).observe(ms)

    def failed(self, code: str, text: str) -> None:
        self.failures[code] = self.failures.get(code, 0) + 1
        self.last_failure = text[:300]

    def compared_with_reference(self, cosine: float, *, wrong: bool) -> None:
        self.compared += 1
        self.wrong_answers += wrong
        self.min_cosine = cosine if self.min_cosine is None else min(self.min_cosine, cosine)

    def stats(self, *, state: str, elapsed_s: float, seed: int, rate: float) -> RunStats:
        return RunStats(
            state=state,
            elapsed_s=round(elapsed_s, 3),
            seed=seed,
            rate=rate,
            planned=self.planned,
            sent=self.sent,
            sent_ratio=round(self.sent / self.planned, 4) if self.planned else 1.0,
            in_flight=self.in_flight,
            answered=self.answered,
            failures=sum(self.failures.values()),
            failures_by_code=dict(sorted(self.failures.items())),
            last_failure=self.last_failure,
            failovers=self.failovers,
            late=self.late,
            max_late_ms=round(self.max_late_ms, 1),
            unsent=self.unsent,
            compared=self.compared,
            wrong_answers=self.wrong_answers,
            min_cosine=self.min_cosine,
            switched_after_s=self.switched_after_s,
            switched_at=self.switched_at,
            latency=self._all.view(),
            by_arm=_groups(self._arms),
            by_bucket=_groups(self._buckets),
        )


def _group(histograms: dict[str, Histogram], name: str) -> Histogram:
    """The histogram of a name from an answer's header. Headers are the server's: so many names and no more."""
    name = name or UNKNOWN
    if name not in histograms and len(histograms) >= MAX_GROUPS:
        name = OTHER
    return histograms.setdefault(name, Histogram())


def _groups(histograms: Mapping[str, Histogram]) -> dict[str, GroupStats]:
    return {name: GroupStats(answered=h.count, latency=h.view()) for name, h in sorted(histograms.items())}


def _rounded(ms: float | None) -> float | None:
    return None if ms is None else round(ms, 2)
