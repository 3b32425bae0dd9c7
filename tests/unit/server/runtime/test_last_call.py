"""Waits for callers, ended all at once."""

import asyncio

import pytest

from server.core.types import NotReady
from server.runtime.last_call import LastCall


def test_who_waits_is_refused_with_the_reason_and_so_is_who_comes_later() -> None:
    """All of them, counted."""

    async def scenario() -> None:
        last_call = LastCall()
        waiting = asyncio.Semaphore(0)

        async def wait() -> None:
            async with last_call.heeded(20):
                waiting.release()
                await asyncio.Event().wait()

        tasks = [asyncio.create_task(wait()) for _ in range(2)]
        for _ in tasks:
            await waiting.acquire()
        assert last_call.call("leaving") == 2
        for task in (*tasks, asyncio.create_task(wait())):
            with pytest.raises(NotReady, match="leaving"):
                await task
        assert last_call.call("leaving") == 0

    asyncio.run(scenario())


def test_the_call_may_come_while_a_wait_ends_by_itself() -> None:
    """Whose time is up in the same moment is refused like the others, and nobody is forgotten for it."""

    async def scenario() -> None:
        last_call = LastCall()
        counted: list[int] = []

        async def ends() -> None:
            async with last_call.heeded(0):
                try:
                    await asyncio.Event().wait()
                finally:
                    counted.append(last_call.call("leaving"))

        async def wait() -> None:
            async with last_call.heeded(20):
                await asyncio.Event().wait()

        for task in [asyncio.create_task(each()) for each in (ends, wait)]:
            with pytest.raises(NotReady, match="leaving"):
                await task
        assert counted == [2]

    asyncio.run(scenario())


def test_who_has_finished_or_is_cancelled_waits_no_more() -> None:
    """A cancellation stays one."""

    async def scenario() -> None:
        last_call = LastCall()
        async with last_call.heeded(20):
            pass

        async def wait() -> None:
            async with last_call.heeded(20):
                await asyncio.Event().wait()

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert last_call.call("leaving") == 0

    asyncio.run(scenario())
