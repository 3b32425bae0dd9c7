import asyncio

from fakes.arms import FakePool, HandClock, snapshot_of

from gateway.core.snapshot import Report
from gateway.core.types import Count, Lane, Outcome, Role
from gateway.runtime.arms import Arms
from gateway.runtime.books import Books
from gateway.runtime.reporter import Reporter
from gateway.runtime.routing import Routing


class Desk:
    """A reporter over real books, with everything it has sent."""

    def __init__(self, *, routed: bool = True, **changes: object) -> None:
        self.clock = HandClock()
        self.routing = Routing()
        self.books = Books(self.clock.monotonic())
        self.arms = Arms(FakePool)
        self.sent: list[Report] = []
        if routed:
            snapshot = snapshot_of(**changes)
            self.routing.apply(snapshot)
            self.arms.apply(snapshot)
            self.books.begin_epoch(snapshot.epoch, snapshot.window_s, (None, 0.5, None))
        self.reporter = Reporter(
            "w1", routing=self.routing, books=self.books, arms=self.arms, clock=self.clock, send=self.sent.append
        )

    def fail(self, seconds: int) -> bool:
        """So many seconds of nothing but a failing candidate; whether the breaker tripped."""
        tripped = False
        for _ in range(seconds):
            for _ in range(10):
                self.books.book(self.books.current, Role.CANDIDATE, Lane.LIVE, 0.0, Outcome.FAILED)
            self.clock.step(1.0)
            tripped = self.reporter.beat(self.clock.monotonic()) or tripped
        return tripped


def test_without_routing_nothing_is_reported() -> None:
    """A worker that serves nothing has no news."""
    desk = Desk(routed=False)
    desk.reporter.report()
    assert desk.sent == []


def test_a_report_carries_what_was_counted_since_the_last() -> None:
    """Counts are additions: the next report has none of them."""
    desk = Desk()
    desk.books.book(desk.books.current, Role.CANDIDATE, Lane.LIVE, 25.0, Outcome.UNAVAILABLE)
    desk.books.copy(desk.books.current, Role.CANDIDATE, "sent")
    desk.reporter.report()
    desk.reporter.report()
    first, second = desk.sent
    (window,) = first.windows
    assert (window.window, window.tally[Count.UNAVAILABLE]) == (2, 1)
    assert (first.name, first.version, first.epoch, first.at) == ("w1", 1, 1, desk.clock.wall())
    assert first.copies == {"candidate:sent": 1}
    assert (second.windows, second.copies) == ([], {})


def test_shapes_are_reported_with_their_epoch() -> None:
    """As additions, like the counts they stand beside; a past epoch reports its own."""
    desk = Desk()
    old, now = desk.books.current, desk.clock.monotonic()
    old.close(old.open(Role.CANDIDATE, Lane.LIVE, 25.0, now), Outcome.OK, now, compiles=1, compiled=("4x128",))
    desk.reporter.report()
    old.close(old.open(Role.CANDIDATE, Lane.LIVE, 25.0, now), Outcome.OK, now, compiles=1, compiled=("1x128",))
    desk.books.begin_epoch(2, 10.0, (None, None, None))
    desk.reporter.report()
    assert [(r.epoch, r.compiled) for r in desk.sent] == [(1, {"4x128": 1}), (1, {"1x128": 1}), (2, {})]


def test_a_report_counts_what_is_late_at_its_time() -> None:
    """An open request past its limit is in the very next report."""
    desk = Desk()
    desk.books.current.open(Role.BASELINE, Lane.LIVE, 25.0, desk.clock.monotonic())
    desk.clock.step(0.6)
    desk.reporter.report()
    (window,) = desk.sent[0].windows
    assert (window.tally[Count.LAT95_N], window.tally[Count.LAT95_BAD]) == (1, 1)
    assert desk.sent[0].open_since == 25.0


def test_past_epochs_report_apart_and_first() -> None:
    """Their reports carry no score, and stop once everything is told."""
    desk = Desk()
    old = desk.books.current
    ticket = old.open(Role.CANDIDATE, Lane.LIVE, 25.0, desk.clock.monotonic())
    desk.books.begin_epoch(2, 10.0, (None, None, None))
    desk.reporter.report()
    assert [(r.epoch, r.open_since) for r in desk.sent] == [(1, 25.0), (2, None)]
    old.close(ticket, Outcome.OK, desk.clock.monotonic())
    desk.reporter.report()
    desk.reporter.report()
    assert [(r.epoch, r.open_since) for r in desk.sent[2:]] == [(1, None), (2, None), (2, None)]


def test_a_sick_candidate_is_taken_out() -> None:
    """The breaker trips once, and what waits for the candidate is asked again at once."""
    desk = Desk()
    rechecks = sum(pool.rechecks for pool in _pools(desk))
    assert desk.fail(3)
    assert desk.routing.tripped
    assert sum(pool.rechecks for pool in _pools(desk)) == rechecks + 4
    assert not desk.fail(3)
    desk.reporter.report()
    assert desk.sent[-1].tripped
    assert desk.sent[-1].breaker == (0.0, 16.0)


def _pools(desk: Desk) -> list[FakePool]:
    pools = [desk.arms.pool(role, lane) for role in Role for lane in (Lane.LIVE, Lane.COPY)]
    return [pool for pool in pools if isinstance(pool, FakePool)]


def test_nothing_trips_while_nothing_is_judged() -> None:
    """In idle there is no candidate to take out."""
    assert not Desk(judging=False).fail(5)


def test_a_trip_is_reported_without_waiting() -> None:
    """The regular report is an hour away; the trip is told in the beat that sees it."""
    desk = Desk()
    for _ in range(3):
        for _ in range(10):
            desk.books.book(desk.books.current, Role.CANDIDATE, Lane.LIVE, 0.0, Outcome.FAILED)
        desk.clock.step(1.0)
        desk.books.pulse.advance(desk.clock.monotonic() - 0.5)
    for _ in range(10):
        desk.books.book(desk.books.current, Role.CANDIDATE, Lane.LIVE, 0.0, Outcome.FAILED)

    async def scenario() -> None:
        told = asyncio.Event()
        beats = asyncio.create_task(desk.reporter.run(3600.0, told.set))
        await asyncio.wait_for(told.wait(), 10)
        beats.cancel()

    asyncio.run(scenario())
    assert [report.tripped for report in desk.sent] == [True]
