"""Counts per window, arm, lane and class of requests, merged from any number of workers, and closed in order.

Two rules keep the numbers honest. An event belongs to the window in which its request arrived, and what becomes of a
stream of events to the window in which it ended. A window is closed once no worker can still add to it: nothing that
arrived before its end is open anywhere, no pair of it is being compared, or its end is one time-out old. What comes
later is counted as late and judged nowhere; a window closed without a worker's report is counted as incomplete.

Addition commutes, so any order and grouping of reports gives the same closed windows. (Of keys the distinct ones; the
counters of the heavy ones may differ within their bound.)
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from gateway.core.keys import KeyCounts
from gateway.core.plan import MetricId
from gateway.core.sequential import Cell
from gateway.core.snapshot import Report, WindowKeys
from gateway.core.types import Count, Lane, Role, Tally, empty_tally, window_of

Key = tuple[Role, Lane]
MOST_NAMED: Final = 16

JUDGED_LANES: dict[Role, tuple[Lane, ...]] = {
    # A copy sent to the baseline serves parity only; a copy sent to the candidate is evidence like a live request.
    Role.BASELINE: (Lane.LIVE,),
    Role.CANDIDATE: (Lane.LIVE, Lane.COPY),
}

_OWN_COUNTS = {
    MetricId.LAT_P50: (Count.LAT50_N, Count.LAT50_BAD),
    MetricId.LAT_P95: (Count.LAT95_N, Count.LAT95_BAD),
    MetricId.LAT_P99: (Count.LAT99_N, Count.LAT99_BAD),
    MetricId.TTFT: (Count.TTFT_N, Count.TTFT_BAD),
    MetricId.ITL: (Count.ITL_N, Count.ITL_BAD),
    MetricId.STREAM_BROKEN: (Count.STREAMS, Count.STREAMS_BROKEN),
}
_NOTHING = empty_tally()
_ATTEMPTS = (Count.OK, Count.FAILED, Count.DEADLINE, Count.REFUSED, Count.REFUSED_UNCHECKED, Count.UNAVAILABLE)


@dataclass(slots=True)
class ClosedWindow:
    """One window that nobody can add to any more. ``stratum`` None: of all requests.

    strata: the same counts by class of requests, one entry a class; empty where requests are not told apart.
    keys: of the live requests, where they are split by a key of theirs.
    """

    window: int
    tallies: dict[Key, Tally]
    strata: tuple[dict[Key, Tally], ...] = ()
    keys: dict[Role, KeyCounts] = field(default_factory=dict)

    def sum(self, role: Role, *counts: Count, stratum: int | None = None) -> int:
        """Events of ``role`` over its judged lanes."""
        tallies = self._of(stratum)
        return sum(tallies[role, lane][c] for lane in JUDGED_LANES[role] if (role, lane) in tallies for c in counts)

    def events(self, role: Role, metric: MetricId, stratum: int | None = None) -> tuple[int, int]:
        """(events, bad events) of one metric for one arm."""
        if metric in _OWN_COUNTS:
            n, bad = _OWN_COUNTS[metric]
            return self.sum(role, n, stratum=stratum), self.sum(role, bad, stratum=stratum)
        if metric is MetricId.ERROR:
            failed = self.sum(role, Count.FAILED, Count.UNAVAILABLE, stratum=stratum)
            return self.sum(role, *_ATTEMPTS, stratum=stratum), failed
        if metric is MetricId.REFUSED:
            refused = self.sum(role, Count.REFUSED, stratum=stratum)
            return self.sum(role, Count.OK, stratum=stratum) + refused, refused
        if role is Role.BASELINE:  # parity is a property of the candidate's answers
            return 0, 0
        # Pairs of both directions: a copy to the baseline was answered to the client by the candidate.
        pairs = [tally for key, tally in self._of(stratum).items() if key[0] is Role.CANDIDATE]
        return sum(t[Count.PAIRS] for t in pairs), sum(t[Count.PAIRS_BAD] for t in pairs)

    def lanes(self, metric: MetricId) -> tuple[int, int, int, int]:
        """Of one latency metric the candidate's answers and late ones: live n, k, copied n, k."""
        live, copied = (self.tallies.get((Role.CANDIDATE, lane), _NOTHING) for lane in (Lane.LIVE, Lane.COPY))
        n, bad = _OWN_COUNTS[metric]
        return live[n], live[bad], copied[n], copied[bad]

    def cells(self, metrics: tuple[MetricId, ...], stratum: int | None = None) -> dict[MetricId, Cell]:
        """What the decision rule reads of this window.

        A stream that broke has failed; where ``stream_broken`` is judged that metric has it, and not ``error`` as well.
        """
        cells = {
            m: Cell(*self.events(Role.CANDIDATE, m, stratum), *self.events(Role.BASELINE, m, stratum)) for m in metrics
        }
        if MetricId.STREAM_BROKEN in cells and MetricId.ERROR in cells:
            error, broken = cells[MetricId.ERROR], cells[MetricId.STREAM_BROKEN]
            cells[MetricId.ERROR] = replace(error, k_c=error.k_c - broken.k_c, k_b=error.k_b - broken.k_b)
        return cells

    def cells_by_stratum(self, metrics: tuple[MetricId, ...]) -> tuple[dict[MetricId, Cell], ...]:
        """The same of each class."""
        return tuple(self.cells(metrics, stratum) for stratum in range(len(self.strata)))

    def _of(self, stratum: int | None) -> Mapping[Key, Tally]:
        return self.tallies if stratum is None else self.strata[stratum]


@dataclass(slots=True)
class _Worker:
    """reported_to: wall time of its last report. complete_to: before it there is nothing left to report."""

    reported_to: float
    complete_to: float


@dataclass(slots=True)
class Evidence:
    """The open windows of one epoch. ``timeout_s`` bounds how long an answer can be outstanding.

    strata: how many classes of requests are told apart, 0: none are. What names a higher one is of the last.
    """

    epoch: int
    width_s: float
    timeout_s: float
    first_window: int
    strata: int = 0
    _windows: dict[int, ClosedWindow] = field(default_factory=dict)
    _workers: dict[str, _Worker] = field(default_factory=dict)
    totals: dict[Key, Tally] = field(default_factory=dict)
    late_events: int = 0
    incomplete_windows: int = 0
    """Windows that were closed without the report of a worker that was expected to have one."""
    closed_without: dict[str, int] = field(default_factory=dict)
    """How many without whose, for the first MOST_NAMED workers of which that is true."""
    next_window: int = field(init=False)
    _awaited: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.next_window = self.first_window

    def add(self, report: Report) -> None:
        """Merges one report; one of another epoch is ignored, since a start and a rollback void everything."""
        if report.epoch != self.epoch:
            return
        for counts in report.windows:
            self._count(counts.window, (counts.role, counts.lane), counts.tally, counts.stratum)
        for keys in report.keys:
            self._count_keys(keys)
        self._workers[report.name] = _Worker(report.at, min(report.at, report.open_since or report.at))

    def add_pair(self, *, epoch: int, window: int, lane: Lane, bad: bool, stratum: int = 0) -> bool:
        """Counts one compared pair; False when its window is closed or its epoch is past."""
        if epoch != self.epoch:
            return False
        tally = empty_tally()
        tally[Count.PAIRS], tally[Count.PAIRS_BAD] = 1, int(bad)
        return self._count(window, (Role.CANDIDATE, lane), tally, stratum)

    def await_pair(self, window: int) -> None:
        """A pair of this window is being compared: the window waits for it, unless it is overdue."""
        self._awaited[window] += 1

    def settle_pair(self, window: int) -> None:
        """What was awaited is known, whatever came of it."""
        self._awaited[window] -= 1
        if not self._awaited[window]:
            del self._awaited[window]

    def expect(self, name: str) -> None:
        """A worker that is attached but has not reported yet: windows wait for its first word."""
        begin = self.first_window * self.width_s
        self._workers.setdefault(name, _Worker(begin, begin))

    def forget_worker(self, name: str) -> None:
        """A worker that is gone reports nothing more; windows do not wait for it."""
        self._workers.pop(name, None)

    def close(self, now: float) -> Iterator[ClosedWindow]:
        """Yields, in order and without gaps, every window that is complete at wall time ``now``."""
        overdue = now - self.timeout_s
        complete_to = min((w.complete_to for w in self._workers.values()), default=overdue)
        awaited = min((window for window in self._awaited if window >= self.next_window), default=sys.maxsize)
        ready_to = min(window_of(complete_to, self.width_s), awaited)
        ready_to = max(ready_to, window_of(overdue, self.width_s))
        while self.next_window < ready_to:
            window = self.next_window
            self.next_window += 1
            self._note_incomplete(self.next_window * self.width_s)
            yield self._windows.pop(window) if window in self._windows else self._empty(window)

    def notes(self) -> tuple[str, ...]:
        """What a reader of a verdict on these windows must know: which were judged without somebody's counts."""
        if not self.closed_without:
            return ()
        told = [
            f"{n} {'window' if n == 1 else 'windows'} closed without worker {name}"
            for name, n in sorted(self.closed_without.items())
        ]
        return ("; ".join(told),)

    def _note_incomplete(self, end: float) -> None:
        """A window is closed that ended at wall time ``end``: whose report is it closed without?"""
        silent = [name for name, worker in self._workers.items() if worker.reported_to < end]
        self.incomplete_windows += bool(silent)
        for name in silent:
            if name in self.closed_without or len(self.closed_without) < MOST_NAMED:
                self.closed_without[name] = self.closed_without.get(name, 0) + 1

    def total(self, role: Role, lane: Lane, *counts: Count) -> int:
        """Events since this epoch began, closed windows or not."""
        tally = self.totals.get((role, lane))
        return sum(tally[c] for c in counts) if tally else 0

    def _count_keys(self, keys: WindowKeys) -> None:
        if keys.window >= self.next_window:  # what is late or early is counted, or not, with the events
            counts = self._open_window(keys.window).keys.setdefault(keys.role, KeyCounts())
            counts.merge(keys.requests, keys.hashes, keys.heavy)

    def _open_window(self, window: int) -> ClosedWindow:
        if (found := self._windows.get(window)) is None:
            found = self._windows[window] = self._empty(window)
        return found

    def _empty(self, window: int) -> ClosedWindow:
        return ClosedWindow(window, {}, tuple({} for _ in range(self.strata)))

    def _count(self, window: int, key: Key, tally: Tally, stratum: int) -> bool:
        if window < self.first_window:  # arrived before judging began: nobody's evidence, and not late either
            return False
        _add(self.totals, key, tally)
        if window < self.next_window:
            self.late_events += sum(tally[c] for c in _ATTEMPTS) + tally[Count.PAIRS]
            return False
        target = self._open_window(window)
        _add(target.tallies, key, tally)
        if self.strata:
            _add(target.strata[min(stratum, self.strata - 1)], key, tally)
        return True


def _add(tallies: dict[Key, Tally], key: Key, tally: Tally) -> None:
    target = tallies.setdefault(key, empty_tally())
    for i, n in enumerate(tally):
        target[i] += n
