"""Who may wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.admission import Ask, Limits, Load, admit, deadline_at, expired
from server.core.types import QueueFull

LIMITS = Limits(rows=256, wait_s=1.0)


def test_rows_are_admitted_up_to_the_limit() -> None:
    """The bound counts rows, the limit itself included."""
    assert admit(Load(250), Ask(6), LIMITS) is None


def test_rows_above_the_limit_are_refused_with_the_numbers() -> None:
    """The refusal names what waits, what came and the limit."""
    refused = admit(Load(250), Ask(7), LIMITS)
    assert refused is not None
    assert refused.reason == "queue_full"
    assert "250" in refused.message
    assert "7" in refused.message
    assert "256" in refused.message


def test_an_empty_queue_takes_any_request_that_is_served() -> None:
    """A limit below the largest batch must not make that batch impossible, nor one slow batch on the device."""
    assert admit(Load(0, 0.0, 5.0), Ask(8), Limits(rows=4, wait_s=0.1)) is None


def test_work_before_a_request_is_bounded_in_time() -> None:
    """The batch on the device does not count: a device slower than the limit would never get company for a batch."""
    assert admit(Load(8, 0.99, 20.0), Ask(1), LIMITS) is None
    refused = admit(Load(8, 1.2, 0.5), Ask(1), LIMITS)
    assert isinstance(refused, QueueFull)
    assert "1.20 s" in refused.message
    assert "1 s" in refused.message
    assert refused.retry_after_s == pytest.approx(1.7)


def test_who_comes_with_an_unknown_length_is_told_of_all_that_waits() -> None:
    """It is admitted or not by what is known, but when to come again follows from the queue that it met."""
    refused = admit(Load(256, 0.0, 0.5, 3.0), Ask(1), LIMITS)
    assert isinstance(refused, QueueFull)
    assert refused.retry_after_s == pytest.approx(3.5)
    assert admit(Load(1, 0.0, 0.5, 3.0), Ask(1, left_s=1.0), LIMITS) is None


@pytest.mark.parametrize(
    ("load", "left_s", "admitted"),
    [
        (Load(4, 0.3, 0.1), 0.7, True),
        (Load(4, 0.3, 0.1), 0.4, False),
        (Load(0, 0.0, 0.4), 0.5, False),
        (Load(0, 0.0, 0.0), 0.001, True),
    ],
)
def test_who_would_be_late_is_refused_at_once(load: Load, left_s: float, admitted: bool) -> None:
    """By queue, device and own work together; an idle device is worth a try."""
    refused = admit(load, Ask(1, own_s=0.2, left_s=left_s), LIMITS)
    assert (refused is None) == admitted
    assert refused is None or (refused.reason == "deadline" and "would take" in refused.message)


def test_copies_are_shed_first() -> None:
    """At half of either limit; the sentence says that they have a part only."""
    for load in (Load(128), Load(1, 0.6)):
        assert admit(load, Ask(1), LIMITS) is None
        refused = admit(load, Ask(1, shadow=True), LIMITS)
        assert refused is not None
        assert "copies have a part" in refused.message


@given(st.integers(0, 300), st.floats(0, 3), st.floats(0, 3), st.integers(1, 300), st.floats(0, 1), st.floats(-1, 5))
def test_where_a_copy_may_wait_a_live_request_may(
    rows: int, ahead: float, device: float, more: int, own: float, left: float
) -> None:
    """And who may wait under a load may wait under a smaller one."""
    load = Load(rows, ahead, device)
    if admit(load, Ask(more, own, left, shadow=True), LIMITS) is None:
        assert admit(load, Ask(more, own, left), LIMITS) is None
    if admit(load, Ask(more, own, left), LIMITS) is None:
        assert admit(Load(rows, ahead / 2, device / 2), Ask(more, own, left), LIMITS) is None


def test_a_deadline_counts_from_arrival_in_milliseconds() -> None:
    """Without one there is none."""
    assert deadline_at(10.0, 250) == 10.25
    assert deadline_at(10.0, None) is None


def test_a_deadline_expires_at_its_moment() -> None:
    """Equal counts as expired; no deadline never does."""
    assert not expired(10.25, 10.24)
    assert expired(10.25, 10.25)
    assert not expired(None, 1e9)
