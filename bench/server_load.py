"""The load generator: a few bytes a request, so that one core is enough for it."""

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Below what our data port accepts, so that nobody is refused for the generator's connections.
CONNECTIONS: Final = 700
TICKS: Final = 100
PAUSE_S: Final = 0.05


@dataclass(slots=True)
class Seen:
    """Answers: seconds into the phase at which each was due, its status (0: none), and how long it took."""

    answers: list[tuple[float, int, float]] = field(default_factory=list)
    seconds: float = 0.0

    def good(self, limit_s: float = float("inf")) -> int:
        """Answers that came within the phase, each within ``limit_s``."""
        return sum(
            1 for at, status, took in self.answers if status == 200 and took <= limit_s and at + took <= self.seconds
        )

    def percentile(self, share: float, *statuses: int) -> float:
        """Seconds, infinite when nothing was answered so."""
        took = sorted(took for _, status, took in self.answers if status in (statuses or (200,)))
        return took[min(len(took) - 1, int(share * len(took)))] if took else float("inf")

    def between(self, begin: float, end: float) -> "Seen":
        """Of what was due then, as a phase of its own."""
        answers = [(at - begin, status, took) for at, status, took in self.answers if begin <= at < end]
        return Seen(answers, end - begin)


class Line:
    """One connection, one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body; 0 when there was no whole answer."""
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            if b"connection: close" in head:
                await self.close()
            return int(head[9:12]), body
        except (OSError, ValueError, asyncio.IncompleteReadError):
            await self.close()
            return 0, b""

    async def close(self) -> None:
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            try:
                await streams[1].wait_closed()
            except OSError:
                pass


async def closed_loop(port: int, requests: Sequence[bytes], *, lines: int, seconds: float) -> Seen:
    """``lines`` connections kept busy; one that is refused pauses before it asks again."""
    seen, began = Seen(), time.perf_counter()
    following = iter(range(1 << 60))

    async def busy() -> None:
        line = Line(port)
        while (sent := time.perf_counter()) - began < seconds:
            status, _ = await line.ask(requests[next(following) % len(requests)])
            seen.answers.append((sent - began, status, time.perf_counter() - sent))
            if status != 200:
                await asyncio.sleep(PAUSE_S)
        await line.close()

    await asyncio.gather(*(busy() for _ in range(lines)))
    seen.seconds = time.perf_counter() - began
    return seen


async def open_loop(port: int, requests: Sequence[bytes], *, rates: Sequence[tuple[float, float]], seed: int) -> Seen:
    """Poisson arrivals, whatever comes of them: of each rate for so many seconds, one after the other without a pause.

    Time counts from when a request was due.
    """
    seen, draw, began = Seen(seconds=sum(seconds for _, seconds in rates)), random.Random(seed), time.perf_counter()
    idle: list[Line] = []
    running: set[asyncio.Task[None]] = set()

    async def one(at: float, request: bytes) -> None:
        line = idle.pop() if idle else Line(port)
        status, _ = await line.ask(request)
        seen.answers.append((at, status, time.perf_counter() - began - at))
        idle.append(line)

    for number, due in enumerate(_arrivals(rates, draw)):
        await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
        if len(running) < CONNECTIONS:
            task = asyncio.create_task(one(due, requests[number % len(requests)]))
            running.add(task)
            task.add_done_callback(running.discard)
        else:
            seen.answers.append((due, 0, 0.0))
    await asyncio.gather(*running)
    for line in idle:
        await line.close()
    return seen


def _arrivals(rates: Sequence[tuple[float, float]], draw: random.Random) -> list[float]:
    found: list[float] = []
    begin = 0.0
    for rate, seconds in rates:
        due = begin + draw.expovariate(rate)
        while due < begin + seconds:
            found.append(due)
            due += draw.expovariate(rate)
        begin += seconds
    return found


def post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def cpu_s(group: int) -> float:
    """User and system time of the processes of a process group, as far as they live."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS
