"""The worker's heartbeat: sweeps open requests, closes seconds, trips the breaker, and reports what was counted."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gateway.core.snapshot import Report
from gateway.core.types import Lane, Role
from gateway.ports import Clock
from gateway.runtime.arms import Arms
from gateway.runtime.books import Books
from gateway.runtime.routing import Routing
from gateway.runtime.tallies import Tallies

log = logging.getLogger("gateway.worker")

LONGEST_BEAT_S: Final = 1.0
"""The breaker counts seconds, so the worker wakes at least once in each."""


class Reporter:
    """Reports of this epoch carry everything; those of past epochs only what was still open when they ended."""

    def __init__(
        self,
        name: str,
        *,
        routing: Routing,
        books: Books,
        arms: Arms,
        clock: Clock,
        send: Callable[[Report], None],
    ) -> None:
        self._name = name
        self._routing = routing
        self._books = books
        self._arms = arms
        self._clock = clock
        self._send = send

    async def run(self, every_s: float, after_beat: Callable[[], None]) -> None:
        """Beat until cancelled; report every ``every_s`` seconds and at once when the breaker trips."""
        due = self._clock.monotonic() + every_s
        while True:
            await asyncio.sleep(max(0.0, min(LONGEST_BEAT_S, due - self._clock.monotonic())))
            now = self._clock.monotonic()
            if self.beat(now) or now >= due:
                self.report()
                due = max(due + every_s, now) if now >= due else due
            after_beat()

    def beat(self, now: float) -> bool:
        """Count what has become late, close full seconds; True when the breaker has tripped just now."""
        books = self._books
        for tallies in (*books.past, books.current):
            tallies.sweep(now)
        if not books.pulse.advance(now) or self._routing.tripped or self._routing.route is None:
            return False
        if self._routing.route.snapshot.candidate is None or not self._routing.route.snapshot.judging:
            return False
        self._routing.tripped = True
        self._arms.recheck()
        fields = {"event": "breaker_tripped", "epoch": books.current.epoch, "scores": books.pulse.scores}
        log.warning("candidate taken out", extra={"fields": fields})
        return True

    def report(self) -> None:
        """Send everything counted since the last report."""
        route, books = self._routing.route, self._books
        if route is None:
            return
        for tallies in (*books.past, books.current):
            tallies.sweep(self._clock.monotonic())
        for tallies in books.past:
            self._send(self._past(tallies, route.snapshot.version))
        books.forget_settled()
        windows, latencies = books.current.take()
        self._send(
            Report(
                name=self._name,
                version=route.snapshot.version,
                epoch=books.current.epoch,
                at=self._clock.wall(),
                windows=windows,
                latencies=latencies,
                open_since=books.current.open_since,
                breaker=books.pulse.scores,
                seconds=books.pulse.take_seconds(),
                tripped=self._routing.tripped,
                recent_failovers=books.pulse.recent_failovers,
                in_flight=(self._in_flight(Role.BASELINE), self._in_flight(Role.CANDIDATE)),
                connections=(self._arms.connections(Role.BASELINE), self._arms.connections(Role.CANDIDATE)),
                copies=books.take_copies(),
                compiled=books.current.take_compiled(),
                keys=books.current.take_keys(),
                paired=books.current.take_paired(),
            )
        )

    def _in_flight(self, role: Role) -> int:
        return self._arms.in_flight(role, Lane.LIVE, Lane.COPY)

    def _past(self, tallies: Tallies, version: int) -> Report:
        windows, latencies = tallies.take()
        return Report(
            name=self._name,
            version=version,
            epoch=tallies.epoch,
            at=self._clock.wall(),
            windows=windows,
            latencies=latencies,
            open_since=tallies.open_since,
            breaker=(0.0, 0.0),
            seconds=[],
            tripped=False,
            recent_failovers=0,
            in_flight=(0, 0),
            connections=(0, 0),
            compiled=tallies.take_compiled(),
            keys=tallies.take_keys(),
        )
