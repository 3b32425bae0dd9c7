"""Recorded windows of the baseline as arrays: of each window its requests, sorted by what became of them.

Every request of a window is in one column, so that a draw of requests is a draw from the columns, and all metrics that
are made of the draw belong together.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from gateway.core.histogram import value_of
from gateway.core.plan import LATENCY, MetricId, Plan
from gateway.core.sequential import Cell
from gateway.core.tape import Began, Closed, Told
from gateway.core.types import Count, Lane, Role, Tally

Counts: TypeAlias = npt.NDArray[np.int64]
"""Windows by columns: answered without a latency, failed without one, then by how many limits the latency is beyond
(none first), and at last failed after all limits."""

FAILED: Final = 1
TIMED: Final = 2
LEAST_WINDOWS: Final = 180
LEAST_REQUESTS: Final = 2000
PLAYED: Final = frozenset({*LATENCY, MetricId.ERROR, MetricId.REFUSED, MetricId.PARITY})
_ATTEMPTS: Final = (Count.OK, Count.FAILED, Count.DEADLINE)
_COUNTED: Final = {
    MetricId.LAT_P50: (Count.LAT50_N, Count.LAT50_BAD),
    MetricId.LAT_P95: (Count.LAT95_N, Count.LAT95_BAD),
    MetricId.LAT_P99: (Count.LAT99_N, Count.LAT99_BAD),
}
Bins: TypeAlias = tuple[tuple[int, int], ...]


class TooLittle(Exception):
    """The recording is too short to say anything; the message says what is needed."""


def playable(plan: Plan, *, cautious: bool) -> Plan:
    """The plan without what cannot be played, with the bets of the default or of the cautious preset."""
    return replace(
        plan,
        strata=(),
        metrics=tuple(limit for limit in plan.metrics if limit.metric in PLAYED),
        preset="cautious" if cautious else "default",
        rule=replace(plan.rule, cautious=cautious),
    )


def not_played(plan: Plan) -> list[str]:
    """What is left out of it, as sentences."""
    left = [str(limit.metric) for limit in plan.metrics if limit.metric not in PLAYED]
    notes = [f"not played, since nothing of it is recorded without a run: {', '.join(left)}"] if left else []
    if plan.strata:
        notes.append("not played: strata; all requests are judged together")
    if plan.limit(MetricId.PARITY) is not None:
        notes.append("parity: every copy counts as a pair that agrees; what answers differ by is not played")
    return notes


@dataclass(frozen=True, slots=True)
class Recording:
    """Windows of ``width_s`` seconds that had traffic, in order.

    order: the latency metrics by their limits, shortest first. doubled: the same requests, each taking twice as long.
    exact: windows in which the plan's own limits had been counted; in the others they are read from histograms.
    """

    width_s: float
    order: tuple[MetricId, ...]
    counts: Counts
    doubled: Counts
    exact: int

    @property
    def windows(self) -> int:
        return len(self.counts)

    @property
    def seconds(self) -> float:
        return self.windows * self.width_s

    @property
    def requests(self) -> int:
        return int(self.counts.sum())

    @property
    def rate(self) -> float:
        """Requests a second in the windows that had any."""
        return self.requests / self.seconds

    def series(self, metric: MetricId) -> tuple[Counts, Counts]:
        """(events, bad events) of one metric, window by window."""
        if metric is MetricId.ERROR:
            return self.counts.sum(axis=1), self.counts[:, FAILED] + self.counts[:, -1]
        beyond = TIMED + 1 + self.order.index(metric)
        return self.counts[:, TIMED:].sum(axis=1), self.counts[:, beyond:].sum(axis=1)


def events_of(row: list[int], order: tuple[MetricId, ...]) -> dict[MetricId, tuple[int, int]]:
    """(events, bad events) of each metric in one window's columns; nobody refuses, and parity is not in it."""
    requests, failed, timed = sum(row), row[FAILED] + row[-1], sum(row[TIMED:])
    found = {metric: (timed, sum(row[TIMED + 1 + place :])) for place, metric in enumerate(order)}
    return {**found, MetricId.ERROR: (requests, failed), MetricId.REFUSED: (requests - failed, 0)}


def cells_of(
    candidate: list[int], baseline: list[int], pairs: int, order: tuple[MetricId, ...]
) -> dict[MetricId, Cell]:
    """What the judge is told of a window in which the arms had these requests; all ``pairs`` agree."""
    ours, theirs = events_of(candidate, order), events_of(baseline, order)
    cells = {metric: Cell(*ours[metric], *theirs[metric]) for metric in ours}
    return {**cells, MetricId.PARITY: Cell(pairs, 0, 0, 0)}


def recording_of(told: Iterable[Told], plan: Plan, *, width_s: float) -> Recording:
    """The baseline's live requests in what was told, sorted by the plan's limits. Raises TooLittle."""
    limits = {limit.metric: (limit.limit_ms or 0.0) / 1000.0 for limit in plan.metrics if limit.metric in LATENCY}
    order = tuple(sorted(limits, key=lambda metric: limits[metric]))
    edges = [limits[metric] for metric in order]
    counted: dict[str, float] = {}
    rows: dict[int, tuple[list[int], list[int], bool]] = {}
    for each in told:
        if isinstance(each, Began):
            counted = each.limits
        if not isinstance(each, Closed):
            continue
        tally = each.window.tallies.get((Role.BASELINE, Lane.LIVE))
        if tally is None or not sum(tally[count] for count in _ATTEMPTS):
            continue
        exact = all(counted.get(metric) == limits[metric] * 1000.0 for metric in order)
        classes = _counted(tally, order) if exact else _read(each.latencies, edges)
        slow = _read(each.latencies, [edge / 2.0 for edge in edges])
        rows[each.window.window] = _columns(tally, classes), _columns(tally, slow), exact
    found = [rows[window] for window in sorted(rows)]
    recording = Recording(
        width_s=width_s,
        order=order,
        counts=np.array([counts for counts, _, _ in found], dtype=np.int64).reshape(len(found), len(order) + TIMED + 2),
        doubled=np.array([slow for _, slow, _ in found], dtype=np.int64).reshape(len(found), len(order) + TIMED + 2),
        exact=sum(exact for _, _, exact in found),
    )
    if recording.windows < LEAST_WINDOWS or recording.requests < LEAST_REQUESTS:
        raise TooLittle(
            f"{recording.requests:,} requests in {recording.windows} windows of {width_s:g} s are recorded; needed are"
            f" {LEAST_REQUESTS:,} in {LEAST_WINDOWS} windows ({LEAST_WINDOWS * width_s / 60:g} min with traffic)"
        )
    return recording


def _counted(tally: Tally, order: tuple[MetricId, ...]) -> list[int]:
    """Requests beyond none, one, two ... of the limits, as they were counted."""
    beyond = [tally[_COUNTED[metric][1]] for metric in order]
    timed = max((tally[_COUNTED[metric][0]] for metric in order), default=0)
    return _apart([timed, *beyond])


def _read(bins: Bins, edges: list[float]) -> list[int]:
    """The same from a histogram: to the width of a bin, 2 %."""
    values = [(value_of(bin_), n) for bin_, n in bins]
    return _apart([sum(n for _, n in values), *(sum(n for value, n in values if value > edge) for edge in edges)])


def _apart(beyond: list[int]) -> list[int]:
    """From those beyond at least so many limits to those beyond just so many."""
    at_least = list(np.minimum.accumulate(np.maximum(beyond, 0)))
    return [int(n - more) for n, more in zip(at_least, [*at_least[1:], 0], strict=True)]


def _columns(tally: Tally, classes: list[int]) -> list[int]:
    """A failure beyond every limit was counted as late, too; one for which there is no other room is taken for that."""
    requests, failed = sum(max(0, tally[count]) for count in _ATTEMPTS), max(0, tally[Count.FAILED])
    untimed = max(0, requests - sum(classes))
    quick = min(failed, untimed)
    late = min(failed - quick, classes[-1])
    return [untimed - quick, quick, *classes[:-1], classes[-1] - late, late]
