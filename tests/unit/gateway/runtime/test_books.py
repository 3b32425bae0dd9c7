from gateway.core.types import Count, Lane, Outcome, Role
from gateway.runtime.books import Books

NO_LIMITS = (None, None, None)


def begun(epoch: int = 1) -> Books:
    books = Books(0.0)
    books.begin_epoch(epoch, 10.0, NO_LIMITS)
    return books


def test_a_request_is_counted_in_its_own_epoch() -> None:
    """What arrived before the epoch changed ends in the old tallies, and neither moves the new pulse."""
    books = begun()
    old = books.current
    ticket = old.open(Role.CANDIDATE, Lane.LIVE, 5.0, 0.0)
    books.begin_epoch(2, 10.0, NO_LIMITS)
    books.close(old, ticket, Role.CANDIDATE, Outcome.FAILED, 1.0)
    books.failed_over(old, 5.0)
    books.copy(old, Role.CANDIDATE, "sent")
    books.pulse.advance(2.0)
    assert books.current.is_settled
    assert books.pulse.take_seconds() == [(0, 0, 0, 0), (0, 0, 0, 0)]
    assert (books.pulse.recent_failovers, books.take_copies()) == (0, {})
    (window,) = old.take()[0]
    assert (window.tally[Count.FAILED], window.tally[Count.FAILED_OVER]) == (1, 1)


def test_this_epochs_outcomes_move_the_pulse() -> None:
    """Requests that were sent and those that could not be, both."""
    books = begun()
    ticket = books.current.open(Role.CANDIDATE, Lane.LIVE, 5.0, 0.0)
    books.close(books.current, ticket, Role.CANDIDATE, Outcome.OK, 0.5)
    books.book(books.current, Role.CANDIDATE, Lane.LIVE, 5.0, Outcome.UNAVAILABLE)
    books.failed_over(books.current, 5.0)
    books.pulse.advance(1.0)
    assert books.pulse.take_seconds() == [(0, 0, 2, 1)]
    assert books.pulse.recent_failovers == 1


def test_past_epochs_are_kept_until_they_are_settled_and_taken() -> None:
    """An epoch with something open or unreported is not forgotten; an empty one is not even kept."""
    books = begun()
    first = books.current
    ticket = first.open(Role.BASELINE, Lane.LIVE, 5.0, 0.0)
    books.begin_epoch(2, 10.0, NO_LIMITS)
    books.begin_epoch(3, 10.0, NO_LIMITS)
    assert books.past == [first]
    books.forget_settled()
    assert books.past == [first]
    first.close(ticket, Outcome.OK, 1.0)
    books.forget_settled()
    assert books.past == [first]
    first.take()
    books.forget_settled()
    assert books.past == []


def test_copies_are_counted_by_direction_and_fate() -> None:
    """Each count is taken once."""
    books = begun()
    for role in (Role.CANDIDATE, Role.CANDIDATE, Role.BASELINE):
        books.copy(books.current, role, "sent")
    assert books.take_copies() == {"candidate:sent": 2, "baseline:sent": 1}
    assert books.take_copies() == {}
