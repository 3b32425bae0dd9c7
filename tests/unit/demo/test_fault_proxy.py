"""The proxy on real sockets, before a small HTTP upstream."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from demo.fault_proxy import READY_PATH, FaultProxy
from demo.faults import Crash, Flap, Pass, Slow, Wrong
from demo.messages import HEAD_LIMIT, parse_answer, parse_request
from wire.admin import Ports
from wire.openai import PATH, Embedding, EmbeddingResponse, Usage

Body = Callable[["Stage"], Coroutine[Any, Any, None]]
THREE = [[0.6, 0.8], [1.0, 0.0], [0.0, 1.0]]


def embeddings(vectors: list[list[float]]) -> bytes:
    data = [Embedding(index=index, embedding=vector) for index, vector in enumerate(vectors)]
    return msgspec.json.encode(EmbeddingResponse(data=data, model="m", usage=Usage(3, 3)))


def answer(body: bytes, *, status: int = 200, kind: str = "application/json") -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (
        status,
        kind.encode(),
        len(body),
        body,
    )


class Client:
    """A kept-alive connection to the proxy."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, path: str, body: bytes | None = b"{}") -> None:
        """A POST, or a GET when there is no body."""
        if body is None:
            self.writer.write(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        else:
            self.writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)

    async def receive(self) -> tuple[int, bytes]:
        found = parse_answer(await self.reader.readuntil(b"\r\n\r\n"), "POST")
        assert isinstance(found.body, int)
        return found.status, await self.reader.readexactly(found.body)

    async def ask(self, path: str, body: bytes | None = b"{}") -> tuple[int, bytes]:
        self.send(path, body)
        return await self.receive()

    async def dropped(self) -> bool:
        """Whether the connection ended without another byte."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True


class Stage:
    """Proxy and upstream. The upstream sends ``first``, and the rest of ``reply`` once ``go`` is set.

    ``reached`` counts the requests that it got whole, ``left`` the connections that ended there; ``now`` is the proxy's
    clock; ``sleeps`` are the delays that the proxy asked for, which end with ``wake``.
    """

    def __init__(self) -> None:
        self.reply = answer(b'{"ok":1}')
        self.first = b""
        self.go = asyncio.Event()
        self.go.set()
        self.close_after = False
        self.reached = asyncio.Semaphore(0)
        self.left = asyncio.Semaphore(0)
        self.requests: list[str] = []
        self.received = b""
        self.now = 100.0
        self.sleeps: list[float] = []
        self.asleep = asyncio.Semaphore(0)
        self.wake = asyncio.Event()
        self._writers: list[asyncio.StreamWriter] = []

    async def upstream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = parse_request(await reader.readuntil(b"\r\n\r\n"))
                if request.body == "chunked":
                    self.received = await reader.readuntil(b"0\r\n\r\n")
                else:
                    assert isinstance(request.body, int)
                    self.received = await reader.readexactly(request.body)
                self.requests.append(f"{request.method} {request.path}")
                self.reached.release()
                writer.write(self.first)
                await self.go.wait()
                writer.write(self.reply)
                if self.close_after:
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.left.release()
            writer.close()

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.asleep.release()
        await self.wake.wait()

    async def connect(self) -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return Client(reader, writer)

    async def steer(self, line: str) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.control_port)
        self._writers.append(writer)
        writer.write(f"{line}\n".encode())
        return (await reader.readline()).decode().rstrip("\n")


def on_stage(body: Body) -> None:
    async def play() -> None:
        stage = Stage()
        upstream = await asyncio.start_server(stage.upstream, "127.0.0.1", 0)
        port = upstream.sockets[0].getsockname()[1]
        stage.proxy = FaultProxy("127.0.0.1", port, clock=lambda: stage.now, sleep=stage.sleep)
        front = await asyncio.start_server(stage.proxy.connected, "127.0.0.1", 0, limit=HEAD_LIMIT)
        stage.port = front.sockets[0].getsockname()[1]
        control = await asyncio.start_server(stage.proxy.steered, "127.0.0.1", 0)
        stage.control_port = control.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(20):
                await body(stage)
        finally:
            stage.go.set()
            stage.wake.set()
            for writer in stage._writers:
                writer.close()
            for server in (front, control):
                server.close()
            await stage.proxy.close()
            upstream.close()
            await asyncio.sleep(0)

    asyncio.run(play())


def test_messages_go_through() -> None:
    """In pass mode requests and answers of any size go through unchanged, several on a connection."""

    async def body(stage: Stage) -> None:
        client = await stage.connect()
        for text in (b"one", b"", b"x" * 300_000):
            stage.reply = answer(text)
            assert await client.ask("/any", text) == (200, text)
            assert stage.received == text
        assert await client.ask(READY_PATH, None) == (200, text)
        assert stage.requests == ["POST /any"] * 3 + [f"GET {READY_PATH}"]

    on_stage(body)


def test_chunked_messages_go_through() -> None:
    """Chunked requests and answers go through as they are, and the connection is kept."""

    async def body(stage: Stage) -> None:
        client = await stage.connect()
        for _ in range(2):
            head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
            stage.reply = head + b"3\r\nabc\r\n0\r\n\r\n"
            client.writer.write(b"POST /c HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n")
            assert await client.reader.readexactly(len(stage.reply)) == stage.reply
            assert stage.received == b"2\r\nhi\r\n0\r\n\r\n"
        assert stage.proxy.counts.broken == 0

    on_stage(body)


def test_answers_without_a_length_go_through_to_the_end() -> None:
    """An answer that ends with its connection goes through, and the client sees the end."""

    async def body(stage: Stage) -> None:
        stage.reply = b"HTTP/1.1 200 OK\r\n\r\n" + b"y" * 100_000
        stage.close_after = True
        client = await stage.connect()
        client.send("/x")
        assert await client.reader.read() == stage.reply

    on_stage(body)


def test_interim_answers_go_through() -> None:
    """A 100 before the answer is passed at once, and the answer belongs to the same request."""

    async def body(stage: Stage) -> None:
        stage.first = b"HTTP/1.1 100 Continue\r\n\r\n"
        stage.go.clear()
        client = await stage.connect()
        client.send("/x")
        assert await client.reader.readexactly(len(stage.first)) == stage.first
        stage.go.set()
        assert await client.receive() == (200, b'{"ok":1}')

    on_stage(body)


def test_crash_drops_kept_alive_connections_at_the_next_request() -> None:
    """An idle connection stays open until bytes of a request arrive; then it ends and the upstream sees nothing."""

    async def body(stage: Stage) -> None:
        client = await stage.connect()
        await client.ask("/x")
        stage.proxy.switch(Crash())
        client.writer.write(b"P")
        assert await client.dropped()
        assert stage.requests == ["POST /x"]
        assert (stage.proxy.counts.dropped, stage.proxy.counts.broken) == (1, 0)

    on_stage(body)


def test_crash_drops_new_connections() -> None:
    """A connection made during the crash ends before the first byte of an answer."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Crash())
        client = await stage.connect()
        client.send("/x")
        assert await client.dropped()
        assert stage.requests == []

    on_stage(body)


def test_crash_takes_requests_that_wait_for_an_answer() -> None:
    """A request that is with the upstream when the crash begins loses its connection, too."""

    async def body(stage: Stage) -> None:
        stage.go.clear()
        client = await stage.connect()
        client.send("/x")
        await stage.reached.acquire()
        stage.proxy.switch(Crash())
        assert await client.dropped()
        assert (stage.proxy.counts.dropped, stage.proxy.counts.broken) == (1, 0)

    on_stage(body)


def test_crash_lets_begun_answers_finish() -> None:
    """An answer whose first byte was sent is completed: the fault is before the first byte only."""

    async def body(stage: Stage) -> None:
        stage.go.clear()
        whole = answer(b"begun and ended")
        stage.first, stage.reply = whole[:-9], whole[-9:]
        client = await stage.connect()
        client.send("/x")
        assert await client.reader.readexactly(len(stage.first)) == stage.first
        stage.proxy.switch(Crash())
        stage.go.set()
        assert await client.reader.readexactly(9) == b"and ended"
        client.send("/x")
        assert await client.dropped()

    on_stage(body)


def test_connections_work_again_after_a_crash() -> None:
    """A connection that was idle all through the crash is served after it."""

    async def body(stage: Stage) -> None:
        client = await stage.connect()
        await client.ask("/x")
        stage.proxy.switch(Crash())
        stage.proxy.switch(Pass())
        assert (await client.ask("/x"))[0] == 200

    on_stage(body)


def test_slow_delays_each_post_by_itself() -> None:
    """Answers to POSTs wait for the delay, on each connection alone; a GET does not wait."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Slow(250))
        clients = [await stage.connect() for _ in range(3)]
        for client in clients:
            client.send("/x")
            await stage.asleep.acquire()
        assert stage.sleeps == [0.25] * 3
        assert (await (await stage.connect()).ask(READY_PATH, None))[0] == 200
        assert stage.proxy.counts.delayed == 3
        reads = [asyncio.create_task(client.receive()) for client in clients]
        await asyncio.sleep(0)
        assert not any(read.done() for read in reads)
        stage.wake.set()
        assert await asyncio.gather(*reads) == [(200, b'{"ok":1}')] * 3
        stage.proxy.switch(Pass())
        assert (await clients[0].ask("/x"))[0] == 200
        assert len(stage.sleeps) == 3

    on_stage(body)


def test_slow_leaves_begun_answers_alone() -> None:
    """An answer that has begun when the mode is switched is finished without a delay."""

    async def body(stage: Stage) -> None:
        stage.go.clear()
        whole = answer(b"begun and ended")
        stage.first, stage.reply = whole[:-9], whole[-9:]
        client = await stage.connect()
        client.send("/x")
        await client.reader.readexactly(len(stage.first))
        stage.proxy.switch(Slow(1000))
        stage.go.set()
        assert await client.reader.readexactly(9) == b"and ended"
        assert stage.sleeps == []

    on_stage(body)


def test_crash_takes_answers_that_are_being_delayed() -> None:
    """A delayed answer has not begun, so a crash drops its connection."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Slow(250))
        client = await stage.connect()
        client.send("/x")
        await stage.asleep.acquire()
        stage.proxy.switch(Crash())
        assert await client.dropped()
        assert stage.proxy.counts.dropped == 1

    on_stage(body)


def test_a_client_that_leaves_ends_the_delay() -> None:
    """When the client of a delayed answer is gone, so is its connection to the upstream."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Slow(250))
        client = await stage.connect()
        client.send("/x")
        await stage.asleep.acquire()
        client.writer.close()
        await stage.left.acquire()

    on_stage(body)


def test_wrong_rotates_the_rows_of_embeddings() -> None:
    """An answer of several rows carries each vector at its neighbour's place; lengths fit, and so does the next one."""

    async def body(stage: Stage) -> None:
        client = await stage.connect()
        stage.reply = answer(embeddings(THREE), kind="application/json; charset=utf-8")
        assert (await client.ask(PATH))[1] == embeddings(THREE)
        stage.proxy.switch(Wrong())
        for _ in range(2):
            assert await client.ask(f"{PATH}?x=1") == (200, embeddings([*THREE[1:], THREE[0]]))
        stage.proxy.switch(Pass())
        assert (await client.ask(PATH))[1] == embeddings(THREE)
        assert stage.proxy.counts.rotated == 2

    on_stage(body)


def test_wrong_fits_the_length() -> None:
    """The length of the answer is that of what is sent, even where rotating rewrites spaces."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Wrong())
        stage.reply = answer(b'{"data" : [ {"embedding": [1]}, {"embedding": [22]} ] }')
        client = await stage.connect()
        for _ in range(2):
            assert await client.ask(PATH) == (200, b'{"data":[{"embedding":[22]},{"embedding":[1]}]}')

    on_stage(body)


@pytest.mark.parametrize(
    ("path", "reply"),
    [
        (PATH, answer(embeddings(THREE[:1]))),
        (PATH, answer(b"not json")),
        (PATH, answer(embeddings(THREE), status=400)),
        (PATH, answer(embeddings(THREE), kind="text/plain")),
        ("/v2/models/m/infer", answer(embeddings(THREE))),
    ],
)
def test_wrong_leaves_all_else_alone(path: str, reply: bytes) -> None:
    """Single rows, other routes, other statuses and other kinds of body go through as they are."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Wrong())
        stage.reply = reply
        client = await stage.connect()
        client.send(path)
        assert await client.reader.readexactly(len(reply)) == reply
        assert stage.proxy.counts.rotated == 0
        stage.reply = answer(b"next")
        assert await client.ask("/x") == (200, b"next")

    on_stage(body)


def test_wrong_holds_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer above the limit goes through as it is instead of being held."""

    async def body(stage: Stage) -> None:
        monkeypatch.setattr("demo.fault_proxy.HELD_LIMIT", len(embeddings(THREE)) - 1)
        stage.proxy.switch(Wrong())
        stage.reply = answer(embeddings(THREE))
        assert await (await stage.connect()).ask(PATH) == (200, embeddings(THREE))

    on_stage(body)


def test_flap_denies_readiness_for_part_of_each_period() -> None:
    """Polls are denied by the proxy itself while the cycle is down, on a connection that lives on; the rest passes."""

    async def body(stage: Stage) -> None:
        client = await stage.connect()
        stage.now = 103.0
        stage.proxy.switch(Flap(200, 1000))
        seen = []
        for stage.now in (103.0, 103.125, 103.25, 103.875, 104.125, 104.5):
            status, body = await client.ask(READY_PATH, None)
            seen.append((status, msgspec.json.decode(body)))
        assert seen == [(503, {"ready": False})] * 2 + [(200, {"ok": 1})] * 2 + [
            (503, {"ready": False}),
            (200, {"ok": 1}),
        ]
        assert stage.requests == [f"GET {READY_PATH}"] * 3
        stage.now = 105.0
        assert (await client.ask(PATH))[0] == 200
        assert (await client.ask("/v2/health/live", None))[0] == 200
        assert (await client.ask(READY_PATH, None))[0] == 503
        stage.proxy.switch(Pass())
        assert (await client.ask(READY_PATH, None))[0] == 200
        assert stage.proxy.counts.denied == 4

    on_stage(body)


def test_a_request_sent_early_waits_its_turn() -> None:
    """Two requests sent at once are answered one after the other, a denied poll included."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Flap(1000, 1000))
        stage.go.clear()
        client = await stage.connect()
        client.send("/x")
        client.send(READY_PATH, None)
        await stage.reached.acquire()
        stage.go.set()
        assert [(await client.receive())[0] for _ in range(2)] == [200, 503]

    on_stage(body)


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: " + b"y" * (2 * HEAD_LIMIT),
    ],
)
def test_broken_requests_drop_the_connection(raw: bytes) -> None:
    """A head that cannot be read, or is too long, ends the connection before the upstream sees any of it."""

    async def body(stage: Stage) -> None:
        client = await stage.connect()
        client.writer.write(raw)
        assert await client.dropped()
        assert stage.requests == []
        assert (stage.proxy.counts.dropped, stage.proxy.counts.broken) == (1, 1)

    on_stage(body)


@pytest.mark.parametrize(
    "reply",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * (2 * HEAD_LIMIT),
    ],
)
def test_broken_answers_drop_the_connection(reply: bytes) -> None:
    """An answer whose head cannot be read ends the connection without a byte of it."""

    async def body(stage: Stage) -> None:
        stage.reply, stage.close_after = reply, True
        client = await stage.connect()
        client.send("/x")
        assert await client.dropped()
        assert stage.proxy.counts.broken == 1

    on_stage(body)


def test_held_answer_that_breaks_off_drops_the_connection() -> None:
    """When the upstream ends within an answer that is held to be rotated, the client gets nothing of it."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch(Wrong())
        stage.reply, stage.close_after = answer(embeddings(THREE))[:-1], True
        client = await stage.connect()
        client.send(PATH)
        assert await client.dropped()

    on_stage(body)


def test_control_port_switches_and_refuses() -> None:
    """The control port obeys every mode, and names what is allowed for any other line without changing the mode."""

    async def body(stage: Stage) -> None:
        for line, mode in (
            ("crash", Crash()),
            ("slow 250", Slow(250)),
            ("wrong", Wrong()),
            ("pass", Pass()),
            ("flap 200 1000", Flap(200, 1000)),
        ):
            assert await stage.steer(line) == f"ok {line}"
            assert stage.proxy.mode == mode
        assert "one of pass, crash" in await stage.steer("explode")
        assert (await stage.steer("slow never")).startswith("slow MS: 'never' is not allowed")
        assert stage.proxy.mode == Flap(200, 1000)

    on_stage(body)


def test_control_line_without_an_end_is_no_harm() -> None:
    """A control connection that sends more than a line is closed."""

    async def body(stage: Stage) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", stage.control_port)
        writer.write(b"x" * (3 * 64 * 1024))
        assert await Client(reader, writer).dropped()
        writer.close()
        assert await stage.steer("crash") == "ok crash"

    on_stage(body)


def test_absent_upstream_ends_the_connection() -> None:
    """With nothing behind it the proxy closes what it accepts."""

    async def body(stage: Stage) -> None:
        stage.proxy._port = 1
        assert await (await stage.connect()).dropped()

    on_stage(body)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_process_writes_its_ports_and_ends_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """As a process it tells its ports, obeys, and at the signal exits 0 with its counts, a connection still open."""

    file = tmp_path / "ports.json"
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        words = ["--upstream", f"127.0.0.1:{upstream.getsockname()[1]}", "--ports-file", str(file)]
        proxy = subprocess.Popen([sys.executable, "-m", "demo.fault_proxy", *words], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        ports = msgspec.json.decode(file.read_bytes(), type=Ports)
        assert ports.pid == proxy.pid
        with socket.create_connection(("127.0.0.1", ports.admin), timeout=10) as control:
            control.sendall(b"flap 1000 1000\n")
            assert control.recv(100) == b"ok flap 1000 1000\n"
        with socket.create_connection(("127.0.0.1", ports.data), timeout=10) as client:
            client.sendall(f"GET {READY_PATH} HTTP/1.1\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 503 ")
            proxy.send_signal(number)
            _, errors = proxy.communicate(timeout=20)
    assert proxy.returncode == 0
    assert errors == (
        "dropped 0 connections (0 of them broken), delayed 0 answers, rotated 0 answers, denied 1 readiness polls\n"
    )
