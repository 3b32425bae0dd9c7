"""Busy is not dead, and stuck is not busy."""

from dataclasses import replace

import pytest

from server.core.lifecycle import Event, Life, State
from server.core.types import Bucket, BucketTiming
from server.core.watch import SILENCE_BUSY_S, SILENCE_S, Seen, StuckRule, stalled

BUCKETS = (Bucket(1, 16), Bucket(4, 16))
RULE = StuckRule(times=20.0, floor_s=30.0, step_s=600.0)
CALM = Seen(silent_s=1.0, step_s=1.0)


def life_in(state: State) -> Life:
    life = Life(since=0.0, buckets=2)
    if state is State.STARTING:
        return life
    life = life.after(Event.SPAWNED, 1.0)
    if state is State.LOADING:
        return life
    life = life.after(Event.LOADED, 2.0)
    if state is State.WARMING:
        return life.began(BUCKETS[1])
    for bucket, warm_s in zip(BUCKETS, (0.5, 5.0), strict=True):
        life = life.finished(BucketTiming(bucket, 9.0, warm_s, 4, 1, "compiled"))
    life = life.after(Event.WARMED, 3.0)
    return life if state is State.READY else life.after(Event.DRAIN, 4.0)


def batch(bucket: Bucket, running_s: float, *, compiling: bool = False) -> Seen:
    return replace(CALM, bucket=bucket, running_s=running_s, compiling=compiling)


@pytest.mark.parametrize(("bucket", "limit_s"), [(BUCKETS[0], 30.0), (BUCKETS[1], 100.0), (Bucket(8, 16), 200.0)])
def test_a_batch_has_the_time_of_its_bucket(bucket: Bucket, limit_s: float) -> None:
    """So many times its warm median, at least the floor; an undeclared shape is scaled from the declared ones."""
    life = life_in(State.READY)
    assert stalled(life, batch(bucket, limit_s), RULE) is None
    reason = stalled(life, batch(bucket, limit_s + 1), RULE)
    assert reason is not None
    for part in (str(bucket), f"{limit_s + 1:.0f} s", f"limit is {limit_s:g} s"):
        assert part in reason


def test_a_batch_that_may_compile_has_the_time_of_a_warm_up_step() -> None:
    """Also in silence, up to the limit of a worker that traces."""
    life = life_in(State.READY)
    seen = batch(Bucket(8, 16), RULE.step_s, compiling=True)
    assert stalled(life, replace(seen, silent_s=SILENCE_BUSY_S), RULE) is None
    assert stalled(life, replace(seen, running_s=RULE.step_s + 1), RULE)
    assert stalled(life, replace(seen, silent_s=SILENCE_BUSY_S + 1), RULE)


@pytest.mark.parametrize(
    ("state", "limit_s"),
    [(State.LOADING, SILENCE_BUSY_S), (State.WARMING, SILENCE_BUSY_S), (State.READY, SILENCE_S)],
)
def test_silence_is_judged_by_the_state(state: State, limit_s: float) -> None:
    """A tracing worker may be silent for long, a serving one may not."""
    assert stalled(life_in(state), replace(CALM, silent_s=limit_s), RULE) is None
    assert "nothing heard" in str(stalled(life_in(state), replace(CALM, silent_s=limit_s + 1), RULE))


@pytest.mark.parametrize(("state", "part"), [(State.LOADING, "loading the model"), (State.WARMING, "bucket 4x16")])
def test_a_step_of_the_warm_up_has_a_limit_whether_or_not_the_worker_beats(state: State, part: str) -> None:
    """The sentence names the step."""
    assert stalled(life_in(state), replace(CALM, step_s=RULE.step_s), RULE) is None
    assert part in str(stalled(life_in(state), replace(CALM, step_s=RULE.step_s + 1), RULE))


@pytest.mark.parametrize("state", [State.STARTING, State.DRAINING])
def test_nobody_is_stuck_who_has_no_worker_or_another_limit(state: State) -> None:
    """A pause before a restart, and a drain."""
    seen = Seen(silent_s=1e9, step_s=1e9, bucket=BUCKETS[0], running_s=1e9)
    assert stalled(life_in(state), seen, RULE) is None


def test_a_stuck_server_is_judged_as_what_it_was() -> None:
    """So that a word from a worker whose step is overdue is no recovery."""
    stuck = life_in(State.WARMING).after(Event.STALLED, 5.0, reason="late")
    assert stalled(stuck, replace(CALM, step_s=RULE.step_s + 1), RULE)
    assert stalled(stuck, CALM, RULE) is None
