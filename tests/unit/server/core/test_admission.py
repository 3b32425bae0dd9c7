"""Who may wait."""

from server.core.admission import admit, deadline_at, expired


def test_rows_are_admitted_up_to_the_limit() -> None:
    """The bound counts rows, the limit itself included."""
    assert admit(250, 6, 256) is None


def test_rows_above_the_limit_are_refused_with_the_numbers() -> None:
    """The refusal names what waits, what came and the limit."""
    refused = admit(250, 7, 256)
    assert refused is not None
    assert refused.reason == "queue_full"
    assert "250" in refused.message
    assert "7" in refused.message
    assert "256" in refused.message


def test_an_empty_queue_takes_any_request_that_is_served() -> None:
    """A limit below the largest batch must not make that batch impossible."""
    assert admit(0, 8, 4) is None


def test_a_deadline_counts_from_arrival_in_milliseconds() -> None:
    """Without one there is none."""
    assert deadline_at(10.0, 250) == 10.25
    assert deadline_at(10.0, None) is None


def test_a_deadline_expires_at_its_moment() -> None:
    """Equal counts as expired; no deadline never does."""
    assert not expired(10.25, 10.24)
    assert expired(10.25, 10.25)
    assert not expired(None, 1e9)
