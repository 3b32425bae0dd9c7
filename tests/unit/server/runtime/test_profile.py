"""One window at a time, which ends whatever becomes of the worker."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from server.core.lifecycle import Life, State
from server.ports.worker import Beat, Profile, Profiled, ProfileEnd, Start
from server.runtime import profile
from server.runtime.profile import ProfileRefused, ProfileWindows, Recorded

FILE = Path("/traces/a.json")
READY = replace(Life(since=0.0), state=State.READY)


class Line:
    """Windows on a fake link; ``words`` are those that passed on to the supervisor."""

    def __init__(self, fakes: SimpleNamespace, start: Start) -> None:
        self.link, self.life = fakes.link, READY
        self.windows = ProfileWindows(fakes.link, lambda: self.life, lambda: FILE)
        self.words: list[object] = []
        self.losses: list[str] = []
        self._start = start

    async def open(self) -> None:
        await self.windows.spawn(self._start, self.words.append, self.losses.append)

    async def said(self, count: int) -> None:
        """Until the worker got so many commands."""
        while len(self.link.runs) < count:  # noqa: ASYNC110  # the fake link has no event for it
            await asyncio.sleep(0)


def run(fakes: SimpleNamespace, start: Start, scenario: Callable[[Line], Awaitable[None]]) -> None:
    async def whole() -> None:
        line = Line(fakes, start)
        await line.open()
        await scenario(line)

    asyncio.run(whole())


def test_a_window_is_ended_after_its_time(fakes: SimpleNamespace, start: Start) -> None:
    """The worker's answer stays off the supervisor's line; all other words pass."""

    async def scenario(line: Line) -> None:
        recording = asyncio.create_task(line.windows.record(0.0))
        await line.said(2)
        assert line.link.runs == [Profile(1, str(FILE)), ProfileEnd(1)]
        line.link.receive(Beat())
        line.link.receive(Profiled(1, 3, 0.5, 1000))
        assert await recording == Recorded(FILE, 3, 0.5, 1000)
        assert line.words == [Beat()]
        assert len(line.link.runs) == 2

    run(fakes, start, scenario)


def test_a_window_with_enough_batches_ends_before_its_time(fakes: SimpleNamespace, start: Start) -> None:
    """The worker says so."""

    async def scenario(line: Line) -> None:
        recording = asyncio.create_task(line.windows.record(3600.0))
        await line.said(1)
        line.link.receive(Profiled(1, 200, 2.5, 1000))
        assert (await recording).batches == 200

    run(fakes, start, scenario)


def test_there_is_one_window_at_a_time_and_none_before_ready(fakes: SimpleNamespace, start: Start) -> None:
    """Another time it may be different, so the refusal says busy."""

    async def scenario(line: Line) -> None:
        line.life = replace(READY, state=State.WARMING)
        with pytest.raises(ProfileRefused, match=r"server: warming: allowed is a server that is ready") as early:
            await line.windows.record(1.0)
        line.life = READY
        recording = asyncio.create_task(line.windows.record(3600.0))
        await line.said(1)
        with pytest.raises(ProfileRefused, match=r"allowed is one at a time") as second:
            await line.windows.record(1.0)
        assert early.value.busy
        assert second.value.busy
        line.link.receive(Profiled(1, 1, 1.0, 10))
        await recording

    run(fakes, start, scenario)


@pytest.mark.parametrize("how", ["lost", "kill"])
def test_a_window_ends_with_its_worker(fakes: SimpleNamespace, start: Start, how: str) -> None:
    """Whoever asked is told, the supervisor too, and the next window has a number of its own."""

    async def scenario(line: Line) -> None:
        recording = asyncio.create_task(line.windows.record(3600.0))
        await line.said(1)
        if how == "lost":
            line.link.lost("signal 9")
        else:
            await line.windows.kill()
        with pytest.raises(ProfileRefused, match="worker: "):
            await recording
        assert line.losses == (["signal 9"] if how == "lost" else [])
        again = asyncio.create_task(line.windows.record(3600.0))
        await line.said(3)
        line.link.receive(Profiled(1, 9, 9.0, 9))
        line.link.receive(Profiled(2, 1, 1.0, 10))
        assert (await again).batches == 1

    run(fakes, start, scenario)


def test_a_worker_that_does_not_write_is_waited_for_so_long(
    fakes: SimpleNamespace, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then there may be another window."""
    monkeypatch.setattr(profile, "WRITE_S", 0.0)

    async def scenario(line: Line) -> None:
        for _ in range(2):
            with pytest.raises(ProfileRefused, match="wrote no profile") as refused:
                await line.windows.record(0.0)
            assert not refused.value.busy

    run(fakes, start, scenario)


def test_what_the_worker_could_not_do_is_told(fakes: SimpleNamespace, start: Start) -> None:
    """In its words."""

    async def scenario(line: Line) -> None:
        recording = asyncio.create_task(line.windows.record(0.0))
        await line.said(2)
        line.link.receive(Profiled(1, 3, 0.5, 0, "OSError: disk full"))
        with pytest.raises(ProfileRefused, match="profile: OSError: disk full"):
            await recording

    run(fakes, start, scenario)


def test_a_window_whose_asker_left_is_ended(fakes: SimpleNamespace, start: Start) -> None:
    """The worker does not record for nobody."""

    async def scenario(line: Line) -> None:
        recording = asyncio.create_task(line.windows.record(3600.0))
        await line.said(1)
        recording.cancel()
        await asyncio.gather(recording, return_exceptions=True)
        assert line.link.runs[-1] == ProfileEnd(1)

    run(fakes, start, scenario)
