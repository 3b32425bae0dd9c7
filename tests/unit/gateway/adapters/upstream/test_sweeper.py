import asyncio
from collections.abc import Callable

from fakes.arms import HandClock

from gateway.adapters.upstream.sweeper import FOREVER, Sweeper


class HandLoop:
    """A loop that keeps what is scheduled and runs it when asked."""

    def __init__(self) -> None:
        self.timers: list[HandTimer] = []

    def call_later(self, delay: float, callback: Callable[[], None]) -> "HandTimer":
        self.timers.append(HandTimer(delay, callback))
        return self.timers[-1]

    @property
    def live(self) -> list["HandTimer"]:
        return [timer for timer in self.timers if not timer.cancelled]


class HandTimer:
    def __init__(self, delay: float, callback: Callable[[], None]) -> None:
        self.delay = delay
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Watched:
    def __init__(self, following: float = FOREVER) -> None:
        self.following = following
        self.swept: list[float] = []

    def sweep(self, now: float) -> float:
        self.swept.append(now)
        return self.following


def sweeper() -> tuple[Sweeper, HandLoop, HandClock]:
    loop, clock = HandLoop(), HandClock(now=100.0)
    return Sweeper(loop, clock), loop, clock  # type: ignore[arg-type]  # of the loop only call_later is used


def test_one_timer_for_the_earliest() -> None:
    """An earlier time-out moves the timer, a later one does not."""
    swept, loop, _ = sweeper()
    swept.due(130.0)
    swept.due(140.0)
    assert [timer.delay for timer in loop.live] == [30.0]
    swept.due(110.0)
    assert [timer.delay for timer in loop.live] == [10.0]


def test_it_sleeps_until_the_next_is_due() -> None:
    """After a sweep the earliest of what the pools say comes next; with nothing due there is no timer."""
    swept, loop, clock = sweeper()
    one, other = Watched(150.0), Watched(120.0)
    swept.watch(one)
    swept.watch(other)
    swept.due(110.0)
    clock.step(10.0)
    loop.timers[0].callback()
    assert loop.timers[-1].delay == 10.0
    one.following = other.following = FOREVER
    before = len(loop.timers)
    loop.timers[-1].callback()
    assert len(loop.timers) == before


def test_what_is_overdue_is_swept_at_once() -> None:
    """A time-out in the past is due in the next millisecond, and a forgotten pool is left alone."""
    swept, loop, _ = sweeper()
    pool = Watched()
    swept.watch(pool)
    swept.forget(pool)
    swept.due(50.0)
    assert [timer.delay for timer in loop.live] == [0.001]
    loop.live[0].callback()
    assert pool.swept == []


def test_stopping_leaves_no_timer() -> None:
    """At the end of a worker nothing fires any more."""
    swept, loop, _ = sweeper()
    swept.due(110.0)
    swept.stop()
    assert loop.live == []


def test_on_a_real_loop() -> None:
    """The timer fires."""

    async def scenario() -> None:
        fired = asyncio.Event()

        class Pool:
            def sweep(self, now: float) -> float:
                fired.set()
                return FOREVER

        swept = Sweeper(asyncio.get_running_loop(), HandClock(now=0.0))
        swept.watch(Pool())
        swept.due(0.01)
        await asyncio.wait_for(fired.wait(), 10)

    asyncio.run(scenario())
