"""A data worker as a real process, played by the test as its control process, between raw clients and raw arms.

``Arm`` is an HTTP/1.1 server whose every byte the test decides; ``WorkerProcess`` starts ``python -m gateway.worker``
and keeps what it reports; ``Client`` writes requests by hand.
"""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from gateway.adapters.channel import Channel, open_channel
from gateway.core.snapshot import Ack, ArmSnapshot, Drain, Hello, Pair, Report, Snapshot, WorkerSetup
from gateway.core.types import Count, Lane, Role

ROOT = Path(__file__).parents[3]
PATIENCE_S = 20.0


def run(scenario: Coroutine[Any, Any, None]) -> None:
    """Play a scenario to its end, which must come."""

    async def bounded() -> None:
        await asyncio.wait_for(scenario, 120)

    asyncio.run(bounded())


@dataclass
class Seen:
    """A request as an arm got it."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


Behaviour = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]
"""Writes the answer. Closing the writer, or returning without having written a whole answer, is allowed."""


def answer(body: bytes = b'{"ok":true}', status: int = 200, *, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{headers}content-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def says(body: bytes = b'{"ok":true}', status: int = 200, *, headers: str = "") -> Behaviour:
    """Answers everything alike."""

    async def behave(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(body, status, headers=headers))

    return behave


def writes(raw: bytes, *, close: bool = False) -> Behaviour:
    """Answers with these bytes, whatever they are."""

    async def behave(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        if close:
            await writer.drain()
            writer.close()

    return behave


async def resets(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """Closes the connection without a byte."""
    writer.transport.abort()


async def hangs(seen: Seen, writer: asyncio.StreamWriter) -> None:
    """Never answers."""


class Arm:
    """One arm on a free port. ``behaviour`` may be replaced at any time."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.seen: list[Seen] = []
        self.lost: list[int] = []
        self.connections = 0
        self.news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        number = self.connections
        try:
            while (seen := await _read_request(reader, number)) is not None:
                self.seen.append(seen)
                self.news.set()
                await self.behaviour(seen, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.lost.append(number)
            self.news.set()
            writer.transport.abort()
            self._writers.discard(writer)
            self._tasks.discard(task)

    def drop_connections(self) -> None:
        """Close every connection, as a server does after its keep-alive time."""
        for writer in self._writers:
            writer.transport.abort()

    async def until(self, condition: Callable[[], bool]) -> None:
        await _until(self.news, condition)


async def _read_request(reader: asyncio.StreamReader, number: int) -> Seen | None:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = b""
    if headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            body += (await reader.readexactly(size + 2))[:-2]
        await reader.readuntil(b"\r\n")
    elif length := int(headers.get("content-length", "0")):
        body = await reader.readexactly(length)
    return Seen(method, target, headers, body, number)


async def _until(news: asyncio.Event, condition: Callable[[], bool]) -> None:
    async def wait() -> None:
        while not condition():
            news.clear()
            await news.wait()

    await asyncio.wait_for(wait(), PATIENCE_S)


def snapshot_of(one_place: Arm | int, other_place: Arm | int | None, /, **changes: Any) -> Snapshot:
    """A judging snapshot of epoch 1 with both arms ready; times are short, nothing is copied."""
    arm_changes: dict[str, Any] = changes.pop("arms", {})

    def arm(role: Role, place: Arm | int) -> ArmSnapshot:
        values: dict[str, Any] = {
            "name": "gpu" if role is Role.BASELINE else "tpu",
            "role": role,
            "host": "127.0.0.1",
            "port": place if isinstance(place, int) else place.port,
            "base_path": "",
            "profile": "ours",
            "ready": True,
            "max_in_flight": 64,
            "max_connections": 64,
            "connect_s": 5.0,
            "first_byte_s": 10.0,
            "idle_s": 10.0,
            "total_s": 20.0,
            "keepalive_s": 60.0,
        }
        return ArmSnapshot(**{**values, **arm_changes, **changes.pop(str(role), {})})

    one = arm(Role.BASELINE, one_place)
    other = None if other_place is None else arm(Role.CANDIDATE, other_place)
    values: dict[str, Any] = {
        "version": 1,
        "epoch": 1,
        "run_id": "r1",
        "secret": b"a secret of the run",
        "window_s": 10.0,
        "weight": 0,
        "copies": 0,
        "reverse_copies": 0,
        "lat_limits_ms": (None, 1000.0, None),
        "baseline": one,
        "candidate": other,
        "candidate_was_ready": True,
        "model": "m",
        "key_header": None,
        "judging": True,
    }
    return Snapshot(**{**values, **changes})


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class WorkerProcess:
    """The worker and everything it has said."""

    channel: Channel
    process: asyncio.subprocess.Process
    log: Path | None
    news: asyncio.Event
    port: int = 0
    acks: list[Ack] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    latest: Snapshot | None = None

    def take(self, message: Any) -> None:
        match message:
            case Hello():
                self.port = message.port
            case Ack():
                self.acks.append(message)
            case Report():
                self.reports.append(message)
            case Pair():
                self.pairs.append(message)
        self.news.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        await _until(self.news, condition)

    async def follow(self, snapshot: Snapshot) -> None:
        """Send a snapshot and wait for its acknowledgement."""
        self.latest = snapshot
        self.channel.send(snapshot)
        await self.until(lambda: any(ack.version == snapshot.version for ack in self.acks))

    async def change(self, **changes: Any) -> None:
        """The latest snapshot with changes and the next version."""
        assert self.latest is not None
        await self.follow(replace(self.latest, **{"version": self.latest.version + 1, **changes}))

    def count(self, role: Role, lane: Lane, *counts: Count, epoch: int | None = None) -> int:
        """What the reports so far add up to."""
        return sum(
            window.tally[count]
            for report in self.reports
            if epoch is None or report.epoch == epoch
            for window in report.windows
            if window.role is role and window.lane is lane
            for count in counts
        )

    def copies(self, key: str) -> int:
        return sum(report.copies.get(key, 0) for report in self.reports)

    async def settled(self) -> None:
        """Wait for a report that was made after now and says that nothing is open."""
        seen = len(self.reports)
        await self.until(lambda: any(r.open_since is None and r.in_flight == (0, 0) for r in self.reports[seen + 1 :]))

    def drain(self, *, delay_s: float, limit_s: float) -> None:
        self.channel.send(Drain(delay_s=delay_s, limit_s=limit_s))

    async def ask(
        self,
        body: bytes | dict[str, Any] | None = None,
        *,
        path: str = "/v1/embeddings",
        method: str = "POST",
        headers: dict[str, str] | None = None,
    ) -> Answered:
        """One request on a connection of its own."""
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        if body is None and method == "POST":
            body = b'{"model":"m","input":"a sentence"}'
        async with self.client() as client:
            await client.send(method, path, body or b"", headers or {})
            return await client.answer(method)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator["Client"]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Client(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


@dataclass
class Client:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        lines = {"host": "gateway", "content-length": str(len(body)), **headers}
        head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in lines.items()) + "\r\n"
        self.writer.write(head.encode() + body)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), PATIENCE_S)
        first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        return int(first.split(" ")[1]), {n.lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}

    async def answer(self, method: str = "POST") -> Answered:
        """A whole answer. IncompleteReadError when it is broken off."""
        status, headers = await self.head()
        if method == "HEAD" or status in (204, 304):
            return Answered(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while piece := await self.chunk():
                body += piece
            return Answered(status, headers, body)
        body = await asyncio.wait_for(self.reader.readexactly(int(headers["content-length"])), PATIENCE_S)
        return Answered(status, headers, body)

    async def chunk(self) -> bytes:
        size = int(await asyncio.wait_for(self.reader.readuntil(b"\r\n"), PATIENCE_S), 16)
        return (await asyncio.wait_for(self.reader.readexactly(size + 2), PATIENCE_S))[:-2]


@contextlib.asynccontextmanager
async def worker(log: Path | None = None, **changes: Any) -> AsyncIterator[WorkerProcess]:
    """A data worker that listens and has no routing yet."""
    values: dict[str, Any] = {
        "name": "w1",
        "host": "127.0.0.1",
        "port": 0,
        "expose_timings": False,
        "replay_buffer": 1024 * 1024,
        "replay_buffer_total": 8 * 1024 * 1024,
        "answer_hold": 256 * 1024,
        "max_body": 16 * 1024 * 1024,
        "report_every_s": 0.05,
        "access_log": None if log is None else str(log),
    }
    ours, theirs = socket.socketpair()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway.worker", str(theirs.fileno()), pass_fds=(theirs.fileno(),), cwd=ROOT
    )
    theirs.close()
    heard: list[WorkerProcess] = []
    early: list[Any] = []
    news = asyncio.Event()
    channel = await open_channel(ours, lambda m: (heard[0].take if heard else early.append)(m), news.set)
    under_test = WorkerProcess(channel, process, log, news)
    heard.append(under_test)
    channel.send(WorkerSetup(**{**values, **changes}))
    try:
        await under_test.until(lambda: under_test.port != 0)
        yield under_test
    finally:
        channel.close()
        try:
            await asyncio.wait_for(process.wait(), PATIENCE_S)
        except TimeoutError:
            process.kill()  # a worker that hangs must not outlive its test
            await process.wait()
            raise


@contextlib.asynccontextmanager
async def canary(
    one: Behaviour,
    other: Behaviour,
    /,
    *,
    log: Path | None = None,
    setup: dict[str, Any] | None = None,
    **routing: Any,
) -> AsyncIterator[tuple[WorkerProcess, Arm, Arm]]:
    """Both arms and a routed worker between them and the test."""
    async with Arm(one) as baseline, Arm(other) as candidate, worker(log, **(setup or {})) as under_test:
        await under_test.follow(snapshot_of(baseline, candidate, **routing))
        yield under_test, baseline, candidate


def free_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
