"""Callers that leave while they are worked for."""

import asyncio

import pytest

from server.adapters.asgi.leaving import CallerGone, Leaving


def test_work_for_a_caller_that_stays_is_finished() -> None:
    """Its result or its error is passed on, and its leaving afterwards ends nothing."""

    async def scenario() -> None:
        async def work() -> int:
            await asyncio.sleep(0)
            return 3

        async def failing() -> int:
            raise ValueError("inside")

        leaving = Leaving()
        assert await leaving.unless_gone(work()) == 3
        with pytest.raises(ValueError, match="inside"):
            await leaving.unless_gone(failing())
        leaving.tell()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


@pytest.mark.parametrize("how", ["leaves", "cancelled"])
def test_work_for_a_caller_that_leaves_is_cancelled(how: str) -> None:
    """By its leaving, or by the server's end; nothing runs on."""

    async def scenario() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def work() -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        leaving = Leaving()
        running = asyncio.create_task(leaving.unless_gone(work()))
        await began.wait()
        if how == "leaves":
            leaving.tell()
        else:
            running.cancel()
        with pytest.raises(CallerGone if how == "leaves" else asyncio.CancelledError):
            await running
        assert ended.is_set()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())


def test_nothing_is_begun_for_a_caller_that_is_gone() -> None:
    """Its connection ended between two reads."""

    async def scenario() -> None:
        async def work() -> None:
            raise AssertionError

        leaving = Leaving()
        leaving.tell()
        with pytest.raises(CallerGone):
            await leaving.unless_gone(work())

    asyncio.run(scenario())
