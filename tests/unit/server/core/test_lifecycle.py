"""One state machine behind every health answer."""

import pytest

from server.core.lifecycle import TABLE, Event, Life, RefusedEvent, State
from server.core.types import Bucket, BucketTiming, Source

BUCKET = Bucket(1, 16)


def timing(source: Source = "compiled") -> BucketTiming:
    return BucketTiming(BUCKET, 1.0, 0.1, 4, 1, source)


def life_in(state: State) -> Life:
    life = Life(since=0.0, buckets=1)
    paths: dict[State, list[Event]] = {
        State.STARTING: [],
        State.LOADING: [Event.SPAWNED],
        State.WARMING: [Event.SPAWNED, Event.LOADED],
        State.READY: [Event.SPAWNED, Event.LOADED, Event.WARMED],
        State.DRAINING: [Event.SPAWNED, Event.LOADED, Event.WARMED, Event.DRAIN],
        State.STOPPED: [Event.STOP],
        State.FAILED: [Event.FAIL],
        State.STUCK: [Event.SPAWNED, Event.LOADED, Event.WARMED, Event.STALLED],
    }
    for event in paths[state]:
        if event is Event.WARMED:
            life = life.finished(timing())
        life = life.after(event, 5.0, reason="broken" if event in (Event.FAIL, Event.STALLED) else "")
    assert life.state is state
    return life


ALLOWED = {
    ("starting", "spawned"): "loading",
    ("starting", "drain"): "draining",
    ("starting", "fail"): "failed",
    ("starting", "stop"): "stopped",
    ("starting", "lost"): "starting",
    ("loading", "loaded"): "warming",
    ("loading", "stalled"): "stuck",
    ("loading", "lost"): "starting",
    ("loading", "drain"): "draining",
    ("loading", "fail"): "failed",
    ("loading", "stop"): "stopped",
    ("warming", "warmed"): "ready",
    ("warming", "stalled"): "stuck",
    ("warming", "lost"): "starting",
    ("warming", "drain"): "draining",
    ("warming", "fail"): "failed",
    ("warming", "stop"): "stopped",
    ("ready", "stalled"): "stuck",
    ("ready", "lost"): "starting",
    ("ready", "drain"): "draining",
    ("ready", "fail"): "failed",
    ("ready", "stop"): "stopped",
    ("stuck", "recovered"): "ready",
    ("stuck", "lost"): "starting",
    ("stuck", "drain"): "draining",
    ("stuck", "fail"): "failed",
    ("stuck", "stop"): "stopped",
    ("draining", "fail"): "failed",
    ("draining", "stop"): "stopped",
    ("failed", "stop"): "stopped",
}


@pytest.mark.parametrize("event", list(Event))
@pytest.mark.parametrize("state", list(State))
def test_every_event_in_every_state(state: State, event: Event) -> None:
    """An event moves to the one state that is written down here, or is refused and changes nothing."""
    life = life_in(state)
    if state is State.WARMING and event is Event.WARMED:
        life = life.finished(timing())
    following = ALLOWED.get((state.value, event.value))
    if following is None:
        with pytest.raises(RefusedEvent):
            life.after(event, 9.0)
        assert life.state is state
    else:
        assert life.after(event, 9.0).state.value == following


def test_the_table_names_every_state() -> None:
    """A new state must say what it does with events."""
    assert set(TABLE) == set(State)


@pytest.mark.parametrize(
    ("state", "live", "ready", "started", "serves"),
    [
        (State.STARTING, True, False, False, False),
        (State.LOADING, True, False, False, False),
        (State.WARMING, True, False, False, False),
        (State.READY, True, True, True, True),
        (State.DRAINING, True, False, True, True),
        (State.STOPPED, False, False, False, False),
        (State.FAILED, False, False, False, False),
        (State.STUCK, False, False, False, False),
    ],
)
def test_health_follows_from_the_state(state: State, live: bool, ready: bool, started: bool, serves: bool) -> None:
    """Probes read one value; a draining server still serves those who have not noticed."""
    life = life_in(state)
    assert (life.live, life.ready, life.started, life.serves) == (live, ready, started, serves)


def test_a_server_that_drains_before_it_was_ready_serves_nothing() -> None:
    """There is nobody to finish for."""
    assert not life_in(State.WARMING).after(Event.DRAIN, 1.0).serves


def test_ready_needs_every_bucket() -> None:
    """Declared = warmed: one bucket short is refused."""
    life = Life(since=0.0, buckets=2).after(Event.SPAWNED, 1.0).after(Event.LOADED, 2.0).finished(timing())
    with pytest.raises(RefusedEvent, match="1 of 2"):
        life.after(Event.WARMED, 3.0)


def test_ready_remembers_how_long_it_took() -> None:
    """Seconds from the start of the process."""
    assert life_in(State.READY).ready_after_s == 5.0


def test_progress_is_counted_and_told() -> None:
    """The sentence names the bucket, its number and how many there are."""
    life = Life(since=0.0, buckets=12).after(Event.SPAWNED, 1.0).after(Event.LOADED, 2.0)
    life = life.finished(timing()).began(Bucket(4, 32))
    assert life.detail == "warming bucket 2 of 12, now 4x32"


@pytest.mark.parametrize("state", [each for each in State if each is not State.WARMING])
def test_progress_outside_the_warm_up_is_refused(state: State) -> None:
    """Only a warming server warms buckets."""
    with pytest.raises(RefusedEvent):
        life_in(state).began(BUCKET)
    with pytest.raises(RefusedEvent):
        life_in(state).finished(timing())


def test_the_reason_of_a_failure_stays_readable() -> None:
    """It is the detail of every later health answer."""
    assert life_in(State.FAILED).detail == "broken"


@pytest.mark.parametrize("state", list(State))
def test_every_state_has_a_sentence(state: State) -> None:
    """No health answer is without words."""
    assert life_in(state).detail


def test_the_summary_tells_a_cold_cache_from_a_warm_one() -> None:
    """Compiled and cached buckets are counted apart, eager ones have neither."""
    base = Life(since=0.0, buckets=2).after(Event.SPAWNED, 1.0).after(Event.LOADED, 2.0)
    assert base.finished(timing("compiled")).finished(timing("cache")).summary == "2 buckets, 1 compiled, 1 from cache"
    assert base.finished(timing("eager")).summary == "1 buckets, eager"


@pytest.mark.parametrize("state", [State.LOADING, State.WARMING, State.READY])
def test_a_stuck_server_goes_back_to_where_it_was(state: State) -> None:
    """With what it had warmed: a warm-up that is late still ends in ready."""
    life = life_in(state)
    stuck = life.after(Event.STALLED, 6.0, reason="nothing heard")
    assert (stuck.live, stuck.serves, stuck.detail) == (False, False, "nothing heard")
    back = stuck.after(Event.RECOVERED, 7.0)
    assert (back.state, back.serves, back.warmed) == (state, life.serves, life.warmed)
    if state is State.WARMING:
        assert back.finished(timing()).after(Event.WARMED, 8.0).ready


@pytest.mark.parametrize("state", [State.STUCK, State.STARTING, State.WARMING])
def test_who_serves_nobody_serves_nobody_while_draining(state: State) -> None:
    """Whether or not it was ready before."""
    assert not life_in(state).after(Event.DRAIN, 6.0).serves


def test_a_lost_worker_is_warmed_anew_and_the_first_start_stays_known() -> None:
    """Live and started, not ready, and nothing of the old worker's warmth; every sentence says why."""
    life = life_in(State.READY).after(Event.LOST, 6.0, reason="signal 9")
    assert (life.live, life.started, life.ready, life.serves, life.warmed) == (True, True, False, False, ())
    sentences = [life.detail]
    for event in (Event.SPAWNED, Event.LOADED):
        life = life.after(event, 7.0)
        sentences.append(life.detail)
    assert all("(restart 1: signal 9)" in each for each in sentences)
    with pytest.raises(RefusedEvent, match="0 of 1"):
        life.after(Event.WARMED, 8.0)
    life = life.finished(timing()).after(Event.WARMED, 9.0)
    assert (life.ready, life.serves, life.ready_after_s, life.restarts) == (True, True, 5.0, 1)
