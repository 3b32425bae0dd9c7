"""The recorder: notes what the judge is told, as rows for the store, and never holds judging up.

Nothing in here waits or fails where it is told something. Rows wait in a bounded queue until the store takes them; what
does not fit is left out and counted, and the numbers of the rows show where.

A row holds what was told up to and with one window; the one that is still being filled is written again and again.
"""

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.core.evidence import ClosedWindow
from gateway.core.findings import BreakerCounts, Gap
from gateway.core.histogram import Histogram
from gateway.core.keys import MOST_KEYS, KeyCounts
from gateway.core.plan import Plan
from gateway.core.snapshot import Report
from gateway.core.tape import Began, Beside, Closed, Kept, Looked, Second, Stepped, Told, digest_of, pack
from gateway.core.types import Lane, Role
from gateway.ports import EvidenceRow, EvidenceStore, StoreUnavailable

log = logging.getLogger("gateway.tape")

MOST_WAITING: Final = 1000
"""Rows kept for a store that is away: nearly three hours of the default windows."""
MOST_TOLD: Final = 600
"""In one row: without a window that closes a row ends all the same."""
MOST_AT_ONCE: Final = 64
"""Rows in one write, so that no decision waits long behind it."""


@dataclass(slots=True)
class _Row:
    """``told`` is packed when it is written."""

    run_id: str
    part: int
    position: int
    width_s: float
    window: int = 0
    at: float = 0.0
    told: list[Told] = field(default_factory=list)
    written: int = 0
    """So much of it is in the store."""

    def packed(self, length: int) -> EvidenceRow:
        """With the first ``length`` things told."""
        return EvidenceRow(
            run_id=self.run_id,
            part=self.part,
            position=self.position,
            window=self.window,
            width_s=self.width_s,
            at=self.at,
            data=pack(self.told[:length]),
        )


class Tape:
    """Of one replica. ``left_out``: rows that did not fit since the process started."""

    def __init__(self) -> None:
        self._row = _Row("", 0, 0, 0.0)
        self._waiting: deque[_Row] = deque()
        self._latencies = Histogram()
        self._known: dict[Role, set[int]] = {}
        self._step_from = 0
        self._gaps: tuple[Gap, ...] = ()
        self.left_out = 0

    def idle(self, *, now: float, width_s: float) -> None:
        """From here on nothing is judged: windows with traffic are kept, for what the baseline does."""
        self._begin("", now, width_s)

    def judging(
        self, run_id: str, plan: Plan, *, now: float, first_window: int, resumed: Mapping[str, Any] | None
    ) -> None:
        """A judge of ``plan`` begins at ``first_window``, or goes on from a checkpoint."""
        self._begin(run_id, now, plan.rule.window_s)
        limits = {str(each.metric): each.limit_ms for each in plan.metrics if each.limit_ms is not None}
        self._add(Began(now, first_window, None if resumed is None else digest_of(resumed), limits), now)

    def stepped(self, now: float, terms: Mapping[str, Any]) -> None:
        """A step begins under these arguments of ``Judge.start_step``."""
        self._known, self._step_from = {}, int(terms["window"])
        self._add(Stepped(now, dict(terms)), now)

    def second(self, now: float, baseline: tuple[int, int], candidate: tuple[int, int], failed_over: bool) -> None:
        self._add(Second(now, baseline, candidate, failed_over), now)

    def answered(self, report: Report) -> None:
        """Latencies are kept with the window that is closed next."""
        for counts in report.latencies:
            if counts.role is Role.BASELINE and counts.lane is Lane.LIVE:
                for bin_, n in counts.bins:
                    self._latencies.add_bin(bin_, n)

    def closed(self, now: float, window: ClosedWindow, shapes: tuple[str, ...] = ()) -> None:
        """A window that the judge has booked, or that nobody judges."""
        latencies = tuple(self._latencies.take())
        if not self._row.run_id and not window.tallies and not latencies:
            return
        kept = ClosedWindow(window.window, window.tallies, window.strata, self._news(window))
        self._row.window = window.window
        self._add(Closed(now, kept, shapes, latencies), now)
        self._turn()

    def beside(self, now: float, gaps: Sequence[Gap]) -> None:
        """What holds the step beside the judge; noted when it changes."""
        if tuple(gaps) != self._gaps:
            self._gaps = tuple(gaps)
            self._add(Beside(now, self._gaps), now)

    def looked(self, at: float, worker: str | None = None, trip: BreakerCounts | None = None) -> None:
        """The verdict of the look at ``at`` is being acted on; ``worker`` when that one's breaker came first."""
        self._add(Looked(at, worker, trip), at)

    def kept(self, state: Mapping[str, Any]) -> None:
        """A checkpoint is about to be stored: whoever goes on from it goes on from here."""
        self._row.told.append(Kept(digest_of(state)))

    async def write(self, store: EvidenceStore) -> None:
        """Gives the store what it has not got, oldest first. A store that is away is logged and asked again."""
        while rows := self._unwritten():
            lengths, packed = [len(row.told) for row in rows], []
            try:
                for row, length in zip(rows, lengths, strict=True):
                    packed.append(row.packed(length))
                    await asyncio.sleep(0)  # many rows that waited hold nothing else up
                await store.record(packed)
            except StoreUnavailable as error:
                log.error("not recorded", extra={"fields": {"event": "store_unavailable", "detail": str(error)}})
                return
            except Exception:
                # What cannot be packed or written would be in the way of all that follows.
                log.exception("recording failed", extra={"fields": {"event": "evidence_left_out"}})
                self.left_out += len(rows)
            for row, length in zip(rows, lengths, strict=True):
                row.written = length
            while self._waiting and self._waiting[0].written == len(self._waiting[0].told):
                self._waiting.popleft()

    def _unwritten(self) -> list[_Row]:
        """The next rows to be written, oldest first, a bounded number; the one that is being filled is the last."""
        rows = list(itertools.islice(self._waiting, MOST_AT_ONCE))
        if len(rows) < MOST_AT_ONCE and len(self._row.told) > self._row.written:
            rows.append(self._row)
        return rows

    def _begin(self, run_id: str, now: float, width_s: float) -> None:
        self._turn()
        part = max(round(now * 1000), self._row.part + 1)  # told apart also where the clock stands still
        self._row = _Row(run_id, part, 0, width_s)
        self._latencies = Histogram()
        self._known, self._step_from = {}, 0
        self._gaps = ()

    def _add(self, told: Told, now: float) -> None:
        self._row.told.append(told)
        self._row.at = now
        if len(self._row.told) >= MOST_TOLD:
            self._turn()

    def _turn(self) -> None:
        """The row is full: the next one is begun."""
        row = self._row
        if not row.told:
            return
        if len(self._waiting) < MOST_WAITING:
            self._waiting.append(row)
        else:
            if self.left_out == 0:
                log.error("recording has holes", extra={"fields": {"event": "evidence_left_out"}})
            self.left_out += 1
        self._row = _Row(row.run_id, row.part, row.position + 1, row.width_s, row.window, row.at)

    def _news(self, window: ClosedWindow) -> dict[Role, KeyCounts]:
        """The window's keys without those that the step has seen: what a judge makes of them is the same, and a step
        takes no more room than the keys that any rule counts.
        """
        if window.window < self._step_from:
            return {}
        kept = {}
        for role, keys in window.keys.items():
            known = self._known.setdefault(role, set())
            fresh = [key for key in keys.hashes if key not in known][: MOST_KEYS - len(known)]
            known.update(fresh)
            news = kept[role] = KeyCounts()
            news.merge(keys.requests, fresh, keys.heavy.items())
        return kept
