"""What is counted: per window, arm, lane and class of requests, for one epoch at a time.

An event belongs to the window in which its request arrived and is counted when its outcome is known. A latency limit
is the exception: a request still open when it passes a limit is counted as bad for that limit at once, so that a hung
arm does not look like a quiet one.

An event stream may go on for hours. It is timed by the wait for its first event alone, in the window of arrival; what
becomes of it is counted in the window in which it ends. So a stream holds no window open once that wait is over.
"""

from typing import Final

from gateway.core.compare.paired import PairedLatency
from gateway.core.histogram import Histogram
from gateway.core.keys import KeyCounts
from gateway.core.pace import Pace
from gateway.core.snapshot import LatencyCounts, PairedCounts, WindowCounts, WindowKeys
from gateway.core.strata import MOST_STRATA
from gateway.core.types import (
    MOST_SHAPES,
    OUTCOME_COUNT,
    PHASE_COUNT,
    Count,
    Lane,
    Outcome,
    Phase,
    Role,
    Tally,
    empty_tally,
    window_of,
)
from gateway.runtime.ticket import ANSWER, FIRST_EVENT, TIMES, Ticket

Limits = tuple[float | None, float | None, float | None]
"""Latency limits in seconds for the three latency metrics, None where unused."""
StreamLimits = tuple[float | None, float | None]
"""Seconds: for the wait for a stream's first event, and for the gaps between its events. None where unused."""

_ENDED: Final = frozenset({Outcome.OK, Outcome.FAILED})
"""Ends of a stream that say something of the arm; a client's leaving does not."""
_LANES: Final = tuple((role, lane) for role in Role for lane in Lane)
_COLUMN: Final = {key: column for column, key in enumerate(_LANES)}
_WIDTH: Final = len(_LANES)
_PLACES: Final = tuple((role, lane, stratum) for stratum in range(MOST_STRATA) for role, lane in _LANES)
"""What each column of a window counts; the first ``_WIDTH`` are all that there is without strata."""


class Tallies:
    """Counts of one epoch. Wall times decide windows, monotonic times measure latency; both in seconds."""

    __slots__ = (
        "_compiled",
        "_gap_s",
        "_histograms",
        "_keys",
        "_limits",
        "_open",
        "_paired",
        "_shortest",
        "_streams",
        "_visits",
        "_windows",
        "epoch",
        "window_s",
    )

    def __init__(
        self, *, epoch: int, window_s: float, limits: Limits, stream_limits: StreamLimits = (None, None)
    ) -> None:
        self.epoch = epoch
        self.window_s = window_s
        self.set_limits(limits, stream_limits)
        self._open: dict[int, Ticket] = {}
        self._streams: set[object] = set()
        """Tickets and requests that are open, and of which nothing more is counted in the window of their arrival."""
        self._visits: dict[object, float] = {}
        self._windows: dict[int, list[Tally | None]] = {}
        self._histograms: list[Histogram | None] = [None] * len(_LANES)
        self._compiled: dict[str, int] = {}
        self._keys: dict[tuple[int, Role], KeyCounts] = {}
        self._paired = PairedLatency()

    def set_limits(self, limits: Limits, stream_limits: StreamLimits = (None, None)) -> None:
        """Limits of an open run are only tightened; what is counted already stays."""
        first_event_s, self._gap_s = stream_limits
        self._limits = (*limits, first_event_s)
        self._shortest = min((limit for limit in self._limits if limit is not None), default=None)

    def enter(self, request: object, arrived: float) -> None:
        """A judged request is here: its window stays open until it leaves, whatever is counted in between."""
        self._visits[request] = arrived

    def stream(self, request: object) -> None:
        """The client gets events: what is counted of the request from here on belongs to the window of the end."""
        if self._visits.pop(request, None) is not None:
            self._streams.add(request)

    def leave(self, request: object) -> None:
        """Everything about the request has been counted."""
        self._visits.pop(request, None)
        self._streams.discard(request)

    def note_key(self, role: Role, arrived: float, key: int) -> None:
        """A live request was assigned to ``role`` by the key with this hash, whatever becomes of it."""
        place = window_of(arrived, self.window_s), role
        counts = self._keys.get(place)
        if counts is None:
            counts = self._keys[place] = KeyCounts()
        counts.add(key)

    def note_pair(self, arrived: float, baseline_s: float, candidate_s: float, *, candidate_first: bool) -> None:
        """A request and its copy were answered: how long each took. For people; no metric has it."""
        if baseline_s > 0.0 and candidate_s > 0.0:  # a clock too coarse to tell has no ratio
            window = window_of(arrived, self.window_s)
            self._paired.add(window, baseline_s, candidate_s, candidate_first=candidate_first)

    def open(
        self,
        role: Role,
        lane: Lane,
        arrived: float,
        sent: float | None,
        stratum: int = 0,
        *,
        asks_for_events: bool = False,
    ) -> Ticket:
        """A request that arrived at wall time ``arrived`` is sent at monotonic time ``sent``, None: not all of it.

        asks_for_events: the answer should be a stream, so while there is none the first event is what is waited for.
        """
        column = _COLUMN[role, lane] + stratum * _WIDTH
        times = FIRST_EVENT if asks_for_events and self._limits[3] is not None else ANSWER
        ticket = Ticket(column, int(arrived // self.window_s), arrived, sent, times)
        self._open[id(ticket)] = ticket
        return ticket

    def close(
        self,
        ticket: Ticket,
        outcome: Outcome,
        now: float,
        *,
        at: float | None = None,
        compiles: int = 0,
        compiled: tuple[str, ...] = (),
        phase: Phase | None = None,
    ) -> None:
        """The outcome of an open request; closing twice changes nothing.

        at: wall time of now, in whose window the end of a stream is counted.
        compiles: an answer that met any counts once; a success leaves the latency metrics and counts as excused. Of a
            stream they were counted when it began.
        compiled: the shapes of those compiles; they are kept for the candidate, in no window.
        phase: how far a failed request came.
        An answer that came before its request had been sent says nothing of latency.
        """
        if not ticket.is_open:
            return
        self._forget(ticket)
        latency = ticket.age(now)
        if ticket.pace is not None:
            if ticket.times:
                self._count_late(ticket, self._tally(ticket.window, ticket.column), latency)
            self._count_end(ticket, ticket.pace, outcome, ticket.arrived if at is None else at)
            return
        tally = self._tally(ticket.window, ticket.column)
        tally[OUTCOME_COUNT[outcome]] += 1
        if phase is not None:
            tally[PHASE_COUNT[phase]] += 1
        if compiles or compiled:
            self._count_compiles(ticket, tally, compiles, compiled)
        match outcome:
            case Outcome.CLIENT_FAULT:
                self._uncount_late(ticket, tally)
            case Outcome.OK if compiles:
                tally[Count.EXCUSED] += 1
                self._uncount_late(ticket, tally)
            case Outcome.OK if ticket.sent is not None:
                self._time_by(ticket, tally, ANSWER)
                self._count_latency(ticket, tally, latency)
                self._histogram(ticket.column).observe(latency)
            case Outcome.OK:
                self._uncount_late(ticket, tally)
            case Outcome.TIMED_OUT_BY_CLIENT_DEADLINE:
                self._count_latency(ticket, tally, float("inf"))
            case _:
                self._count_late(ticket, tally, latency)

    def begin_stream(
        self, ticket: Ticket, *, framed: bool, compiles: int = 0, compiled: tuple[str, ...] = ()
    ) -> Pace | None:
        """The answer of an open request is an event stream; its pace, None where nobody judges it.

        framed: its bytes can be read (they are not compressed). compiles, compiled: as in ``close``.
        """
        if not ticket.is_open:
            return None
        if not _is_judged(ticket.column):
            self._let_stream(ticket)
            return None
        ticket.pace = Pace(self._gap_s, framed=framed)
        tally = self._tally(ticket.window, ticket.column)
        self._time_by(ticket, tally, 0 if compiles else FIRST_EVENT)
        self._count_compiles(ticket, tally, compiles, compiled)
        tally[Count.EXCUSED] += int(compiles > 0)
        if compiles or ticket.late or self._limits[3] is None:
            self._let_stream(ticket)
        return ticket.pace

    def took(self, ticket: Ticket, data: bytes, now: float) -> None:
        """A piece of a stream came, at monotonic time ``now``."""
        pace = ticket.pace
        if pace is None or not ticket.is_open or not pace.took(data, now) or not ticket.times:
            return
        if ticket.sent is not None:
            self._count_latency(ticket, self._tally(ticket.window, ticket.column), ticket.age(now))
        self._let_stream(ticket)

    def drop(self, ticket: Ticket) -> None:
        """The request was not sent after all: nothing of it is counted."""
        if ticket.is_open:
            self._forget(ticket)
            if ticket.late:
                self._uncount_late(ticket, self._tally(ticket.window, ticket.column))

    def add(self, role: Role, lane: Lane, arrived: float, count: Count, stratum: int = 0) -> None:
        """One event for which nothing was open."""
        self._tally(window_of(arrived, self.window_s), _COLUMN[role, lane] + stratum * _WIDTH)[count] += 1

    def sweep(self, now: float) -> None:
        """Count every open request that has passed a limit since the last sweep."""
        if self._shortest is None:
            return
        for ticket in tuple(self._open.values()):
            age = ticket.age(now)
            if age > self._shortest and ticket.ended is None and _is_judged(ticket.column):
                self._count_late(ticket, self._tally(ticket.window, ticket.column), age)
                if ticket.pace is not None and ticket.late:
                    self._let_stream(ticket)

    def take(self) -> tuple[list[WindowCounts], list[LatencyCounts]]:
        """Everything counted since the last time."""
        windows = [
            WindowCounts(window=window, role=role, lane=lane, tally=tally, stratum=stratum)
            for window, row in sorted(self._windows.items())
            for (role, lane, stratum), tally in zip(_PLACES, row, strict=True)
            if tally is not None
        ]
        latencies = [
            LatencyCounts(role=_LANES[column][0], lane=_LANES[column][1], bins=bins)
            for column, histogram in enumerate(self._histograms)
            if histogram is not None and (bins := histogram.take())
        ]
        self._windows = {}
        return windows, latencies

    def take_compiled(self) -> dict[str, int]:
        """Answers of the candidate that named a shape as compiled, by shape, since the last time."""
        found = {shape: n for shape, n in self._compiled.items() if n}
        for shape in found:
            self._compiled[shape] = 0  # the name stays known, and so counts towards the bound
        return found

    def take_keys(self) -> list[WindowKeys]:
        """The keys noted since the last time."""
        noted, self._keys = self._keys, {}
        return [
            WindowKeys(
                window=window,
                role=role,
                requests=counts.requests,
                hashes=list(counts.hashes),
                heavy=list(counts.heavy.items()),
            )
            for (window, role), counts in noted.items()
        ]

    def take_paired(self) -> PairedCounts:
        """The pairs noted since the last time."""
        clipped, blocks = self._paired.take()
        return PairedCounts(clipped=clipped, blocks=blocks)

    @property
    def open_since(self) -> float | None:
        """Wall time of arrival of the oldest request in whose window something may still be counted."""
        arrivals = (*self._visits.values(), *(ticket.arrived for ticket in self._open.values()))
        return min(arrivals, default=None)

    @property
    def is_settled(self) -> bool:
        """Nothing is open and nothing waits to be taken."""
        return not (self._open or self._streams or self._visits or self._windows or self._keys)

    def _tally(self, window: int, column: int) -> Tally:
        row = self._windows.get(window)
        if row is None:
            row = self._windows[window] = [None] * len(_PLACES)
        tally = row[column]
        if tally is None:
            tally = row[column] = empty_tally()
        return tally

    def _name_shapes(self, compiled: tuple[str, ...]) -> None:
        for shape in compiled:
            if shape in self._compiled or len(self._compiled) < MOST_SHAPES:
                self._compiled[shape] = self._compiled.get(shape, 0) + 1

    def _histogram(self, column: int) -> Histogram:
        column %= _WIDTH  # for people, who read the classes together
        histogram = self._histograms[column]
        if histogram is None:
            histogram = self._histograms[column] = Histogram()
        return histogram

    def _forget(self, ticket: Ticket) -> None:
        ticket.is_open = False
        self._open.pop(id(ticket), None)
        self._streams.discard(ticket)

    def _let_stream(self, ticket: Ticket) -> None:
        """Its window does not wait for it any more."""
        ticket.times = 0
        self._open.pop(id(ticket), None)
        self._streams.add(ticket)

    def _count_compiles(self, ticket: Ticket, tally: Tally, compiles: int, compiled: tuple[str, ...]) -> None:
        tally[Count.COMPILES] += int(compiles > 0)
        if compiled and _PLACES[ticket.column][0] is Role.CANDIDATE:
            self._name_shapes(compiled)

    def _count_end(self, ticket: Ticket, pace: Pace, outcome: Outcome, at: float) -> None:
        """A stream has ended, at wall time ``at``."""
        tally = self._tally(window_of(at, self.window_s), ticket.column)
        tally[OUTCOME_COUNT[outcome]] += 1
        if outcome not in _ENDED:
            return
        tally[Count.STREAMS] += 1
        if outcome is Outcome.FAILED:
            tally[Count.STREAMS_BROKEN] += 1
            tally[Count.FAILED_BODY] += 1
        if pace.gaps:
            tally[Count.ITL_N] += 1
            tally[Count.ITL_BAD] += int(pace.is_slow)

    def _count_latency(self, ticket: Ticket, tally: Tally, latency: float) -> None:
        """In each metric that has not counted it: one event, bad when beyond the limit."""
        for limit, (bit, n, bad) in zip(self._limits, TIMES, strict=True):
            if limit is not None and ticket.times & bit and not ticket.late & bit:
                tally[n] += 1
                if latency > limit:
                    tally[bad] += 1

    def _count_late(self, ticket: Ticket, tally: Tally, age: float) -> None:
        for limit, (bit, n, bad) in zip(self._limits, TIMES, strict=True):
            if limit is not None and age > limit and ticket.times & bit and not ticket.late & bit:
                ticket.late |= bit
                tally[n] += 1
                tally[bad] += 1

    def _time_by(self, ticket: Ticket, tally: Tally, times: int) -> None:
        """The answer shows by which metrics it is to be timed: what others had counted at once is taken back."""
        ticket.times = times
        if ticket.late:
            self._uncount_late(ticket, tally, ~times)

    def _uncount_late(self, ticket: Ticket, tally: Tally, bits: int = ANSWER | FIRST_EVENT) -> None:
        """It turned out not to belong in these metrics: additions of -1 take back what was counted at once."""
        for bit, n, bad in TIMES:
            if ticket.late & bits & bit:
                tally[n] -= 1
                tally[bad] -= 1
        ticket.late &= ~bits


def _is_judged(column: int) -> bool:
    """Copies to the baseline serve parity alone; their latency is nobody's evidence."""
    return _LANES[column % _WIDTH] != (Role.BASELINE, Lane.COPY)
