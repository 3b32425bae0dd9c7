"""Leaving in order."""

import asyncio
from types import SimpleNamespace

from server.core.catalog import Catalogue
from server.core.lifecycle import State
from server.core.types import Bucket, BucketTiming, EngineFacts
from server.ports.worker import BucketWarm, Loaded, Start, Warmed
from server.runtime.batcher import Batcher
from server.runtime.drain import DrainRule, drain
from server.runtime.supervisor import Supervisor


class Port:
    """Records when it was closed and what the server's state was at that moment."""

    def __init__(self, name: str, order: list[str], supervisor: Supervisor) -> None:
        self._name, self._order, self._supervisor = name, order, supervisor
        self.limit: float | None = None

    async def close(self, limit_s: float) -> None:
        self.limit = limit_s
        self._order.append(f"{self._name} closed while {self._supervisor.life.state}")


def build(fakes: SimpleNamespace, start: Start) -> tuple[Supervisor, Port, Port, list[str]]:
    batcher = Batcher(Catalogue((1, 2), (4,)), 8, fakes.link.run, fakes.clock, fakes.telemetry)
    supervisor = Supervisor(start, fakes.link, batcher, fakes.clock, fakes.telemetry, fakes.log, lambda facts: None)
    order: list[str] = []
    return supervisor, Port("data", order, supervisor), Port("admin", order, supervisor), order


def test_a_ready_server_is_lame_then_closed_then_stopped(
    fakes: SimpleNamespace, start: Start, facts: EngineFacts
) -> None:
    """The data port closes while the worker still answers; health is readable to the last."""

    async def scenario() -> None:
        supervisor, data, admin, order = build(fakes, start)
        await supervisor.start()
        fakes.link.receive(Loaded(facts))
        for bucket in start.buckets:
            fakes.link.receive(BucketWarm(BucketTiming(bucket, 1.0, 0.1, 4, 1, "eager")))
        fakes.link.receive(Warmed(0))
        rule = DrainRule(delay_s=0.01, limit_s=7.0)
        await drain(supervisor, data, admin, rule, asyncio.Event(), fakes.log, busy=lambda: False)
        assert order == ["data closed while draining", "admin closed while stopped"]
        assert data.limit == 7.0
        assert fakes.link.kills == 1

    asyncio.run(scenario())


def test_a_second_signal_does_not_wait(fakes: SimpleNamespace, start: Start, facts: EngineFacts) -> None:
    """An hour of lame duck ends at once."""

    async def scenario() -> None:
        supervisor, data, admin, _ = build(fakes, start)
        await supervisor.start()
        fakes.link.receive(Loaded(facts))
        for bucket in (Bucket(1, 4), Bucket(2, 4)):
            fakes.link.receive(BucketWarm(BucketTiming(bucket, 1.0, 0.1, 4, 1, "eager")))
        fakes.link.receive(Warmed(0))
        hurry = asyncio.Event()
        asyncio.get_running_loop().call_soon(hurry.set)
        async with asyncio.timeout(5):
            await drain(supervisor, data, admin, DrainRule(3600.0, 20.0), hurry, fakes.log, busy=lambda: True)
        assert data.limit == 0.0
        assert "drain_limit" in [event for event, _ in fakes.log.events]

    asyncio.run(scenario())


def test_a_server_that_was_never_ready_ends_at_once(fakes: SimpleNamespace, start: Start) -> None:
    """No lame duck: the worker is ended first, whatever it is compiling."""

    async def scenario() -> None:
        supervisor, data, admin, order = build(fakes, start)
        await supervisor.start()
        async with asyncio.timeout(5):
            await drain(
                supervisor, data, admin, DrainRule(3600.0, 20.0), asyncio.Event(), fakes.log, busy=lambda: False
            )
        assert order == ["data closed while stopped", "admin closed while stopped"]
        assert supervisor.life.state is State.STOPPED
        assert fakes.link.kills == 1

    asyncio.run(scenario())
