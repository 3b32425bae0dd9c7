"""Writes in order, one at a time, and nothing waits for a store that hangs."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest
from fakes.gateway import FakeStore

from gateway.core.events import JournalEntry
from gateway.core.run import Rollout
from gateway.ports import StoreUnavailable
from gateway.runtime.ledger import Entry, Ledger


class SlowStore(FakeStore):
    """``gate`` holds every save until it is set."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def save(self, rollout: Rollout, lines: Sequence[JournalEntry], at: float) -> None:
        await self.gate.wait()
        await super().save(rollout, lines, at)


def entry(epoch: int) -> Entry:
    return Entry(Rollout(epoch=epoch), [JournalEntry(kind="k", who="w", text=str(epoch), data={})], 1.0)


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_owed_writes_come_before_an_asked_one() -> None:
    """What is routed already is written first, in order."""

    async def scenario() -> None:
        store = FakeStore()
        ledger = Ledger(store)
        ledger.owe(entry(1))
        ledger.owe(entry(2))
        assert ledger.is_behind
        await ledger.write(entry(3))
        assert [r.epoch for r in store.saved] == [1, 2, 3]
        assert not ledger.is_behind

    play(scenario)


def test_a_failed_write_stays_owed_and_is_tried_again() -> None:
    """The store is away: the detail says so; when it is back everything gets in, once."""

    async def scenario() -> None:
        store = FakeStore(down=True)
        ledger = Ledger(store)
        ledger.owe(entry(1))
        with pytest.raises(StoreUnavailable, match="down"):
            await ledger.settle(1.0)
        assert ledger.is_behind
        assert "down" in ledger.detail
        store.down = False
        await ledger.settle(1.0)
        assert (ledger.detail, [r.epoch for r in store.saved]) == ("ok", [1])

    play(scenario)


def test_a_hanging_write_is_given_up_by_its_caller_and_still_counted_when_it_ends() -> None:
    """The caller gets StoreUnavailable; an owed write that ends later is not written twice."""

    async def scenario() -> None:
        store = SlowStore()
        ledger = Ledger(store)
        ledger.owe(entry(1))
        with pytest.raises(StoreUnavailable, match="does not answer"):
            await ledger.settle(0.0)
        with pytest.raises(StoreUnavailable):
            await ledger.settle(0.0)
        store.gate.set()
        await ledger.settle(1.0)
        assert [r.epoch for r in store.saved] == [1]
        assert not ledger.is_behind

    play(scenario)


def test_the_background_writer_writes_what_is_owed() -> None:
    """Nobody waits for it: run() picks it up."""

    async def scenario() -> None:
        store = SlowStore()
        store.gate.set()
        ledger = Ledger(store)
        writer = asyncio.create_task(ledger.run())
        ledger.owe(entry(1))
        for _ in range(100):
            if store.saved:
                break
            await asyncio.sleep(0)
        writer.cancel()
        assert [r.epoch for r in store.saved] == [1]

    play(scenario)
