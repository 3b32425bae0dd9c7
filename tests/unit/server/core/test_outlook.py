"""What a 503 says of its end."""

import pytest

from server.core.lifecycle import Event, Life
from server.core.outlook import LONGEST_S, ready_in_s, refusal
from server.core.types import Bucket, BucketTiming, Draining, NotReady


def warming(warmed: int, due: float | None = None) -> Life:
    """Of four buckets, since second 10."""
    life = Life(0.0, buckets=4, due=due).after(Event.SPAWNED, 0.0).after(Event.LOADED, 10.0)
    for batch in range(1, warmed + 1):
        life = life.finished(BucketTiming(Bucket(batch, 8), 1.0, 0.1, 4, 1, "compiled"))
    return life


@pytest.mark.parametrize(
    ("life", "left_s"),
    [
        (Life(0.0, buckets=4), None),
        (Life(0.0, buckets=4, due=25.0), 5.0),
        (warming(0), None),
        (warming(2), 10.0),
        (warming(2, due=25.0), 5.0),
        (warming(2, due=15.0), 10.0),
    ],
    ids=["nothing known", "restart", "first bucket", "by the buckets", "by the record", "the record was too short"],
)
def test_the_wait_is_what_is_known(life: Life, left_s: float | None) -> None:
    assert ready_in_s(life, 20.0) == left_s


def test_a_refusal_has_the_sentence_of_the_state_or_its_own_reason() -> None:
    life = warming(1)
    assert refusal(life, 20.0).message == "server: warming: warming bucket 2 of 4"
    assert refusal(life, 20.0, "worker: gone").message == "worker: gone"
    assert refusal(warming(1, due=1e6), 20.0).retry_after_s == LONGEST_S


@pytest.mark.parametrize("event", [Event.DRAIN, Event.STOP])
def test_a_server_that_leaves_says_so_whatever_it_was(event: Event) -> None:
    assert type(refusal(warming(1).after(event, 20.0), 20.0)) is Draining


def test_a_server_that_fails_while_it_leaves_leaves() -> None:
    left = warming(1).after(Event.DRAIN, 20.0).after(Event.FAIL, 20.0, reason="worker: gone")
    assert type(refusal(left, 20.0)) is Draining


@pytest.mark.parametrize("event", [Event.FAIL, Event.STALLED])
def test_of_a_failed_or_stuck_server_nothing_is_known(event: Event) -> None:
    told = refusal(warming(1, due=99.0).after(event, 20.0, reason="device: halted"), 20.0)
    assert (type(told), told.retry_after_s) == (NotReady, None)
