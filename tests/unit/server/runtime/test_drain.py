"""Leaving in order."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from server.core.catalog import Catalogue
from server.core.lifecycle import State
from server.core.types import BucketTiming, EngineFacts, NotReady, TokenRows
from server.core.visit import Visit
from server.ports.worker import BucketWarm, Loaded, Start, Warmed
from server.runtime.batcher import Batcher
from server.runtime.drain import DrainRule, drain
from server.runtime.last_call import LastCall
from server.runtime.supervisor import Supervisor


class Port:
    """Records when it was closed and what the server's state was at that moment.

    With ``cut_off`` requests it waits for ``hurry``, as for requests that do not end, and until ``answered`` otherwise.
    ``on_close`` happens on the way.
    """

    def __init__(self, name: str, order: list[str], supervisor: Supervisor) -> None:
        self._name, self._order, self._supervisor = name, order, supervisor
        self.limit: float | None = None
        self.cut_off = 0
        self.on_close: Callable[[], None] = lambda: None
        self.hurried = asyncio.Event()
        self.answered: asyncio.Future[Any] | None = None

    async def close(self, limit_s: float) -> int:
        self.limit = limit_s
        self._order.append(f"{self._name} closed while {self._supervisor.life.state}")
        self.on_close()
        if self.cut_off:
            await self.hurried.wait()
        if self.answered is not None:
            await asyncio.wait({self.answered})
        return self.cut_off

    def hurry(self) -> None:
        self.hurried.set()


def build(fakes: SimpleNamespace, start: Start) -> tuple[Supervisor, Batcher, Port, Port, list[str]]:
    batcher = Batcher(Catalogue((1, 2), (4,)), 8, fakes.link.run, fakes.clock, fakes.telemetry)
    supervisor = Supervisor(start, fakes.link, batcher, fakes.clock, fakes.telemetry, fakes.log, lambda facts: None)
    order: list[str] = []
    return supervisor, batcher, Port("data", order, supervisor), Port("admin", order, supervisor), order


async def ready(supervisor: Supervisor, fakes: SimpleNamespace, start: Start, facts: EngineFacts) -> None:
    await supervisor.start()
    fakes.link.receive(Loaded(facts))
    for bucket in start.buckets:
        fakes.link.receive(BucketWarm(BucketTiming(bucket, 1.0, 0.1, 4, 1, "eager")))
    fakes.link.receive(Warmed())


def test_a_ready_server_is_lame_then_closed_then_stopped(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """The data port closes while the worker still answers; health is readable to the last."""

    async def scenario() -> None:
        supervisor, _, data, admin, order = build(fakes, start)
        await ready(supervisor, fakes, start, facts)
        rule = DrainRule(delay_s=0.01, limit_s=7.0)
        assert await drain(supervisor, data, admin, rule, asyncio.Event(), fakes.log, LastCall())
        assert order == ["data closed while draining", "admin closed while stopped"]
        assert data.limit == 7.0
        assert fakes.link.kills == 1

    asyncio.run(scenario())


@pytest.mark.parametrize("while_closing", [False, True])
def test_a_second_signal_does_not_wait(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, while_closing: bool
) -> None:
    """An hour of lame duck ends at once, and so does the wait for requests; who was cut off is told."""

    async def scenario() -> None:
        supervisor, _, data, admin, _ = build(fakes, start)
        await ready(supervisor, fakes, start, facts)
        hurry = asyncio.Event()
        data.cut_off = 2
        if while_closing:
            data.on_close = hurry.set
        else:
            asyncio.get_running_loop().call_soon(hurry.set)
        rule = DrainRule(0.0 if while_closing else 3600.0, 3600.0)
        async with asyncio.timeout(20):
            assert not await drain(supervisor, data, admin, rule, hurry, fakes.log, LastCall())
        assert [fields["requests"] for event, fields in fakes.log.events if event == "drain_limit"] == [2]

    asyncio.run(scenario())


@pytest.mark.parametrize("second_signal", [False, True])
def test_who_waits_for_the_device_at_the_end_of_the_drain_is_told(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts, second_signal: bool
) -> None:
    """Shortly before the limit, or at the second signal; the port closes when they are answered, and it is no success.

    Whoever comes after it gets the same answer.
    """

    async def scenario() -> None:
        supervisor, batcher, data, admin, _ = build(fakes, start)
        await ready(supervisor, fakes, start, facts)
        asked = [asyncio.create_task(batcher.answer(TokenRows([[1]]), Visit(100.0))) for _ in range(3)]
        data.answered = asyncio.gather(*asked, return_exceptions=True)
        hurry = asyncio.Event()
        if second_signal:
            data.on_close = hurry.set
        rule = DrainRule(0.0, 3600.0 if second_signal else 0.01)
        async with asyncio.timeout(20):
            assert not await drain(supervisor, data, admin, rule, hurry, fakes.log, LastCall())
        for each in (*asked, asyncio.create_task(batcher.answer(TokenRows([[1]]), Visit(100.0)))):
            with pytest.raises(NotReady, match="server: stop"):
                await each
        (line,) = [fields for event, fields in fakes.log.events if event == "drain_limit"]
        assert (line["requests"], line["cut_off"]) == (3, 0)

    asyncio.run(scenario())


def test_a_worker_that_is_lost_in_the_drain_is_no_clean_end(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """Those who were still served were let down."""

    async def scenario() -> None:
        supervisor, _, data, admin, _ = build(fakes, start)
        await ready(supervisor, fakes, start, facts)
        data.on_close = lambda: fakes.link.lost("the process ended with signal 9")
        assert not await drain(supervisor, data, admin, DrainRule(0.0, 20.0), asyncio.Event(), fakes.log, LastCall())

    asyncio.run(scenario())


def test_a_server_that_was_never_ready_ends_at_once(fakes: SimpleNamespace, start: Start) -> None:
    """No lame duck: the worker is ended first, whatever it is compiling."""

    async def scenario() -> None:
        supervisor, _, data, admin, order = build(fakes, start)
        await supervisor.start()
        async with asyncio.timeout(5):
            assert await drain(supervisor, data, admin, DrainRule(3600.0, 20.0), asyncio.Event(), fakes.log, LastCall())
        assert order == ["data closed while stopped", "admin closed while stopped"]
        assert supervisor.life.state is State.STOPPED
        assert fakes.link.kills == 1

    asyncio.run(scenario())
