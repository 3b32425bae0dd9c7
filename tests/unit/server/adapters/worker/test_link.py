"""The front's end of the line, against real processes that play the worker."""

import asyncio
import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from server.adapters.worker.link import STDERR_BURST, ProcessLink
from server.core.tensors import Raw
from server.core.types import Bucket
from server.core.warmup import StabilityRule
from server.ports.worker import Beat, Failed, Finished, Run, Start, WorkerEvent

START = Start(
    model_path="/m",
    sha256=None,
    device="cpu",
    emulator_allowed=False,
    dtype="float32",
    matmul_precision="highest",
    compile=None,
    threads=1,
    buckets=(Bucket(1, 16),),
    stability=StabilityRule(),
    cache_dir="/c",
    front_pid=7,
)
HEAD = """
import os, socket, sys
sys.path.insert(0, {root!r})
from server.adapters.worker.channel import Channel
from server.ports.worker import *
channel = Channel(socket.socket(fileno=int(sys.argv[-1])))
start = channel.receive()
"""


class Log:
    def __init__(self) -> None:
        self.lines: asyncio.Queue[str] = asyncio.Queue()

    def info(self, event: str, **fields: object) -> None:
        self.lines.put_nowait(json.dumps({"event": event, **fields}))

    warning = error = info


@pytest.fixture
def worker(tmp_path: Path) -> Callable[[str], str]:
    """Makes an interpreter that runs the given text in place of the worker."""

    def make(text: str) -> str:
        script = tmp_path / "worker.py"
        script.write_text(HEAD.format(root=str(Path.cwd())) + text)
        interpreter = tmp_path / "python"
        interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
        interpreter.chmod(stat.S_IRWXU)
        return str(interpreter)

    return make


class Events:
    """Collects what the link tells, and waits for it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[WorkerEvent | str] = asyncio.Queue()

    async def next(self) -> WorkerEvent | str:
        async with asyncio.timeout(20):
            return await self.queue.get()


def test_commands_arrive_and_events_come_back(worker: Callable[[str], str]) -> None:
    """The worker gets Start first, then each Run; large frames pass in both directions."""
    text = """
channel.send(Beat())
while (run := channel.receive()) is not None:
    channel.send(Finished(run.number, {"y": run.inputs["x"]}, 0.5, 0))
"""

    async def scenario() -> None:
        events, link = Events(), ProcessLink(Log(), interpreter=worker(text))
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        assert await events.next() == Beat()
        large, small = Raw("UINT8", (1, 256 * 8192), bytes(range(256)) * 8192), Raw("UINT8", (2,), b"ab")
        link.run(Run(1, Bucket(1, 16), {"x": large}))
        link.run(Run(2, Bucket(1, 16), {"x": small}))
        assert await events.next() == Finished(1, {"y": large}, 0.5, 0)
        assert await events.next() == Finished(2, {"y": small}, 0.5, 0)
        await link.kill()
        assert events.queue.empty()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("os._exit(3)", "the process ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", "the process ended with signal 9"),
    ],
)
def test_a_worker_that_ends_is_reported_once_with_its_end(worker: Callable[[str], str], text: str, reason: str) -> None:
    """Exit code and signal are told apart."""

    async def scenario() -> None:
        events, link = Events(), ProcessLink(Log(), interpreter=worker(text))
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        assert await events.next() == reason
        await link.kill()
        assert events.queue.empty()

    asyncio.run(scenario())


def test_a_workers_last_words_come_before_its_end(worker: Callable[[str], str]) -> None:
    """The reason that it gives is heard, then the exit code."""
    text = "channel.send(Failed('no weights')); os._exit(1)"

    async def scenario() -> None:
        events, link = Events(), ProcessLink(Log(), interpreter=worker(text))
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        assert await events.next() == Failed("no weights")
        assert await events.next() == "the process ended with exit code 1"
        await link.kill()

    asyncio.run(scenario())


def test_a_worker_that_speaks_nonsense_is_lost(worker: Callable[[str], str]) -> None:
    """A frame that does not decode ends the line."""
    text = r"channel._end.sendall(b'\x02\x00\x00\x00\xc1\xc1'); channel.receive()"

    async def scenario() -> None:
        events, link = Events(), ProcessLink(Log(), interpreter=worker(text))
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        lost = await events.next()
        assert isinstance(lost, str)
        assert "the line is broken" in lost
        await link.kill()

    asyncio.run(scenario())


def test_known_noise_is_kept_out_of_the_log(worker: Callable[[str], str]) -> None:
    """XLA's loader lines are dropped; what remains is logged line by line, cut where it is too long."""
    text = """
os.write(2, b"E0000 cpu_aot_loader.cc:210] " + b"x" * 2000 + b"\\n")
os.write(2, b"a warning\\n" + b"y" * 5000)
os._exit(0)
"""

    async def scenario() -> None:
        log = Log()
        events, link = Events(), ProcessLink(log, interpreter=worker(text))
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        assert await events.next() == "the process ended with exit code 0"
        async with asyncio.timeout(20):
            lines = [json.loads(await log.lines.get())["line"] for _ in range(2)]
        assert lines == ["a warning", "y" * 2000]
        await link.kill()
        assert log.lines.empty()

    asyncio.run(scenario())


def test_a_worker_that_prints_without_end_fills_no_log(worker: Callable[[str], str]) -> None:
    """The first lines are shown, the others are counted, and it never stands still for want of a reader."""
    text = """
os.write(2, b"".join(b"line %d\\n" % number for number in range(50000)))
os._exit(0)
"""

    async def scenario() -> None:
        log = Log()
        events, link = Events(), ProcessLink(log, interpreter=worker(text))
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        assert await events.next() == "the process ended with exit code 0"
        shown = left_out = 0
        async with asyncio.timeout(20):
            while shown + left_out < 50000:
                line = json.loads(await log.lines.get())
                shown += line["event"] == "worker_stderr"
                left_out += line.get("lines", 0)
        await link.kill()
        assert shown >= STDERR_BURST
        assert left_out > 0

    asyncio.run(scenario())


def test_after_a_kill_another_process_takes_its_place(worker: Callable[[str], str]) -> None:
    """Its loss is told, that of the one that was killed is not."""
    text = """
channel.send(Failed(str(os.getpid())))
if channel.receive().number == 1:
    os._exit(3)
channel.receive()
"""

    async def scenario() -> None:
        events, link = Events(), ProcessLink(Log(), interpreter=worker(text))
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        first = await events.next()
        await link.kill()
        await link.spawn(START, events.queue.put_nowait, events.queue.put_nowait)
        assert isinstance(first, Failed)
        assert await events.next() != first
        link.run(Run(1, Bucket(1, 16), {}))
        assert await events.next() == "the process ended with exit code 3"
        await link.kill()
        assert events.queue.empty()

    asyncio.run(scenario())


def test_no_interpreter_is_an_error_of_the_start() -> None:
    """OSError, for the supervisor to report."""

    async def scenario() -> None:
        with pytest.raises(OSError, match="absent"):
            await ProcessLink(Log(), interpreter="/absent/python").spawn(START, lambda event: None, lambda reason: None)

    asyncio.run(scenario())
