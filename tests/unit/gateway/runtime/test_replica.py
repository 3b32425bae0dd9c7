"""Snapshots rise in version and are waited for."""

import asyncio

from fakes.gateway import FakeClock, FakeWorker, arm

from gateway.core.snapshot import Ack
from gateway.core.types import Role
from gateway.runtime.conductor import initial_snapshot
from gateway.runtime.replica import Replica


def make() -> tuple[Replica, FakeClock]:
    clock = FakeClock()
    arms = {role: arm(role, role.value) for role in Role}
    return Replica(clock, initial_snapshot(arms, model="m", key_header=None, secret=b"s")), clock


def ack(name: str, version: int) -> Ack:
    return Ack(name=name, version=version, epoch=1, written=0)


def test_a_new_worker_gets_the_present_snapshot_and_a_change_reaches_all() -> None:
    """Attach sends what is in force; publish raises the version for every worker; no change sends nothing."""
    replica, _ = make()
    first, second = FakeWorker("w0"), FakeWorker("w1")
    replica.attach(first, 1)
    replica.attach(second, 2)
    version = replica.publish(weight=1000)
    assert version == 2
    assert first.last_snapshot().weight == second.last_snapshot().weight == 1000
    assert replica.publish(weight=1000) == 2
    assert len(first.sent) == 2


def test_waiting_ends_with_the_last_acknowledgement() -> None:
    """acknowledged() returns once every live worker follows the version."""

    async def scenario() -> tuple[list[str], list[str]]:
        replica, _ = make()
        for name in ("w0", "w1"):
            replica.attach(FakeWorker(name), 1)
        version = replica.publish(weight=5)
        waiting = asyncio.create_task(replica.acknowledged(version, 5.0))
        await asyncio.sleep(0)
        replica.acknowledge(ack("w0", version))
        await asyncio.sleep(0)
        assert not waiting.done()
        replica.acknowledge(ack("w1", version))
        return await waiting

    assert asyncio.run(scenario()) == (["w0", "w1"], [])


def test_a_dead_worker_is_not_waited_for_and_a_deaf_one_is_named() -> None:
    """Detaching ends the wait for that worker; a time-out names who is missing."""

    async def scenario() -> tuple[list[str], list[str]]:
        replica, clock = make()
        for name in ("w0", "w1", "w2"):
            replica.attach(FakeWorker(name), 1)
        version = replica.publish(weight=5)
        waiting = asyncio.create_task(replica.acknowledged(version, 5.0))
        await asyncio.sleep(0)
        replica.detach("w0")
        replica.acknowledge(ack("w1", version))
        clock.advance(6.0)
        replica.acknowledge(ack("w1", version))
        return await waiting

    assert asyncio.run(scenario()) == (["w1"], ["w2"])


def test_a_silent_or_missing_worker_is_seen() -> None:
    """Ten seconds without a word, or gone: the worker is named."""
    replica, clock = make()
    assert (replica.silent(), replica.missing()) == ([], [])
    replica.attach(FakeWorker("w0"), 1)
    assert (replica.silent(), replica.missing()) == ([], [])
    clock.advance(10.5)
    assert replica.silent() == ["w0"]
    replica.detach("w0")
    assert (replica.silent(), replica.missing()) == ([], ["w0"])
