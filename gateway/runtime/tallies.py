"""What is counted: per window, arm, lane and class of requests, for one epoch at a time.

An event belongs to the window in which its request arrived and is counted when its outcome is known. A latency limit
is the exception: a request still open when it passes a limit is counted as bad for that limit at once, so that a hung
arm does not look like a quiet one.
"""

from typing import Final

from gateway.core.compare.paired import PairedLatency
from gateway.core.histogram import Histogram
from gateway.core.keys import KeyCounts
from gateway.core.snapshot import LatencyCounts, PairedCounts, WindowCounts, WindowKeys
from gateway.core.strata import MOST_STRATA
from gateway.core.types import MOST_SHAPES, OUTCOME_COUNT, Count, Lane, Outcome, Role, Tally, empty_tally, window_of

Limits = tuple[float | None, float | None, float | None]
"""Latency limits in seconds for the three latency metrics, None where unused."""

_LATENCY: Final = ((Count.LAT50_N, Count.LAT50_BAD), (Count.LAT95_N, Count.LAT95_BAD), (Count.LAT99_N, Count.LAT99_BAD))
_LANES: Final = tuple((role, lane) for role in Role for lane in Lane)
_COLUMN: Final = {key: column for column, key in enumerate(_LANES)}
_WIDTH: Final = len(_LANES)
_PLACES: Final = tuple((role, lane, stratum) for stratum in range(MOST_STRATA) for role, lane in _LANES)
"""What each column of a window counts; the first ``_WIDTH`` are all that there is without strata."""


class Ticket:
    """One open request on one arm.

    sent: since when the arm is waited for, None while the client still sends.
    ended: until when, None so far. A ticket still open then waits for what the answer is to be compared with.
    late: a bit for each latency metric in which it is counted already.
    """

    __slots__ = ("arrived", "column", "ended", "is_open", "late", "sent", "window")

    def __init__(self, column: int, window: int, arrived: float, sent: float | None) -> None:
        self.column = column
        self.window = window
        self.arrived = arrived
        self.sent = sent
        self.ended: float | None = None
        self.late = 0
        self.is_open = True

    def start(self, now: float) -> None:
        """The arm has the whole request."""
        self.sent = now

    def end(self, now: float) -> None:
        """The arm has done its part; what comes after is not its time."""
        if self.ended is None:
            self.ended = now

    def age(self, now: float) -> float:
        """For how long the arm has been waited for."""
        if self.sent is None:
            return 0.0
        return (now if self.ended is None else self.ended) - self.sent


class Tallies:
    """Counts of one epoch. Wall times decide windows, monotonic times measure latency; both in seconds."""

    __slots__ = (
        "_compiled",
        "_histograms",
        "_keys",
        "_limits",
        "_open",
        "_paired",
        "_shortest",
        "_visits",
        "_windows",
        "epoch",
        "window_s",
    )

    def __init__(self, *, epoch: int, window_s: float, limits: Limits) -> None:
        self.epoch = epoch
        self.window_s = window_s
        self.set_limits(limits)
        self._open: dict[int, Ticket] = {}
        self._visits: dict[object, float] = {}
        self._windows: dict[int, list[Tally | None]] = {}
        self._histograms: list[Histogram | None] = [None] * len(_LANES)
        self._compiled: dict[str, int] = {}
        self._keys: dict[tuple[int, Role], KeyCounts] = {}
        self._paired = PairedLatency()

    def set_limits(self, limits: Limits) -> None:
        """Limits of an open run are only tightened; what is counted already stays."""
        self._limits = limits
        self._shortest = min((limit for limit in limits if limit is not None), default=None)

    def enter(self, request: object, arrived: float) -> None:
        """A judged request is here: its window stays open until it leaves, whatever is counted in between."""
        self._visits[request] = arrived

    def leave(self, request: object) -> None:
        """Everything about the request has been counted."""
        self._visits.pop(request, None)

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

    def open(self, role: Role, lane: Lane, arrived: float, sent: float | None, stratum: int = 0) -> Ticket:
        """A request that arrived at wall time ``arrived`` is sent at monotonic time ``sent``, None: not all of it."""
        column = _COLUMN[role, lane] + stratum * _WIDTH
        ticket = Ticket(column, int(arrived // self.window_s), arrived, sent)
        self._open[id(ticket)] = ticket
        return ticket

    def close(
        self,
        ticket: Ticket,
        outcome: Outcome,
        now: float,
        *,
        compiles: int = 0,
        timed: bool = True,
        compiled: tuple[str, ...] = (),
    ) -> None:
        """The outcome of an open request; closing twice changes nothing.

        compiles: an answer that met any counts once; a success leaves the latency metrics and counts as excused.
        timed: False for answers whose total duration says nothing (event streams); so is one that came before its
            request had been sent.
        compiled: the shapes of those compiles; they are kept for the candidate, in no window.
        """
        if not ticket.is_open:
            return
        ticket.is_open = False
        del self._open[id(ticket)]
        tally = self._tally(ticket.window, ticket.column)
        tally[OUTCOME_COUNT[outcome]] += 1
        tally[Count.COMPILES] += int(compiles > 0)
        if compiled and _PLACES[ticket.column][0] is Role.CANDIDATE:
            self._name_shapes(compiled)
        latency = ticket.age(now)
        match outcome:
            case Outcome.CLIENT_FAULT:
                self._uncount_late(ticket, tally)
            case Outcome.OK if compiles:
                tally[Count.EXCUSED] += 1
                self._uncount_late(ticket, tally)
            case Outcome.OK if timed and ticket.sent is not None:
                self._count_latency(ticket, tally, latency)
                self._histogram(ticket.column).observe(latency)
            case Outcome.OK:
                self._uncount_late(ticket, tally)
            case Outcome.TIMED_OUT_BY_CLIENT_DEADLINE:
                self._count_latency(ticket, tally, float("inf"))
            case _:
                self._count_late(ticket, tally, latency)

    def drop(self, ticket: Ticket) -> None:
        """The request was not sent after all: nothing of it is counted."""
        if ticket.is_open:
            ticket.is_open = False
            del self._open[id(ticket)]
            if ticket.late:
                self._uncount_late(ticket, self._tally(ticket.window, ticket.column))

    def add(self, role: Role, lane: Lane, arrived: float, count: Count, stratum: int = 0) -> None:
        """One event for which nothing was open."""
        self._tally(window_of(arrived, self.window_s), _COLUMN[role, lane] + stratum * _WIDTH)[count] += 1

    def sweep(self, now: float) -> None:
        """Count every open request that has passed a limit since the last sweep."""
        if self._shortest is None:
            return
        for ticket in self._open.values():
            age = ticket.age(now)
            if age > self._shortest and ticket.ended is None and _is_judged(ticket.column):
                self._count_late(ticket, self._tally(ticket.window, ticket.column), age)

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
        """Wall time of arrival of the oldest open request."""
        arrivals = (*self._visits.values(), *(ticket.arrived for ticket in self._open.values()))
        return min(arrivals, default=None)

    @property
    def is_settled(self) -> bool:
        """Nothing is open and nothing waits to be taken."""
        return not (self._open or self._visits or self._windows or self._keys)

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

    def _count_latency(self, ticket: Ticket, tally: Tally, latency: float) -> None:
        """In each metric that has not counted it: one event, bad when beyond the limit."""
        for bit, (limit, (n, bad)) in enumerate(zip(self._limits, _LATENCY, strict=True)):
            if limit is not None and not ticket.late & (1 << bit):
                tally[n] += 1
                if latency > limit:
                    tally[bad] += 1

    def _count_late(self, ticket: Ticket, tally: Tally, age: float) -> None:
        for bit, (limit, (n, bad)) in enumerate(zip(self._limits, _LATENCY, strict=True)):
            if limit is not None and age > limit and not ticket.late & (1 << bit):
                ticket.late |= 1 << bit
                tally[n] += 1
                tally[bad] += 1

    def _uncount_late(self, ticket: Ticket, tally: Tally) -> None:
        """It turned out not to belong in the latency metrics: additions of -1 take back what was counted at once."""
        for bit, (n, bad) in enumerate(_LATENCY):
            if ticket.late & (1 << bit):
                tally[n] -= 1
                tally[bad] -= 1
        ticket.late = 0


def _is_judged(column: int) -> bool:
    """Copies to the baseline serve parity alone; their latency is nobody's evidence."""
    return _LANES[column % _WIDTH] != (Role.BASELINE, Lane.COPY)
