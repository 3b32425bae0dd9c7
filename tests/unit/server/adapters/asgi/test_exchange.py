"""The data port on a real listener, with a device that answers when the test says so."""

import asyncio
import json
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes.embeddings import embeddings

from server.adapters.asgi.data import DataApp
from server.adapters.asgi.exchange import MAX_EPOCH, Exchange
from server.adapters.asgi.listen import UvicornListener, bind
from server.adapters.asgi.view import DataView
from server.adapters.clock import SystemClock
from server.adapters.prom import PromTelemetry
from server.adapters.statistics import Statistics
from server.core.catalog import Catalogue
from server.core.lifecycle import Event, Life
from server.core.signature import embedding
from server.core.types import Bucket, BucketTiming, EngineFacts
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.batcher import Batcher
from server.runtime.predict import Predictor

FACTS = EngineFacts("rev", vocabulary=100, dim=2, max_length=8, compiled=False, emulated=False, torch="2.13.0",
                    signature=embedding(2))  # fmt: skip
LIFE = (
    Life(since=0.0, buckets=1)
    .after(Event.SPAWNED, 1.0)
    .after(Event.LOADED, 1.0)
    .finished(BucketTiming(Bucket(1, 8), 1.0, 0.1, 4, 1, "eager"))
    .after(Event.WARMED, 2.0)
)


class Lines:
    """An access log and a log that are lists; ``written`` tells each line of the access log."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []
        self.errors: list[str] = []
        self.written = asyncio.Semaphore(0)
        self.kept = True

    def write(self, fields: dict[str, object]) -> None:
        self.lines.append(fields)
        self.written.release()

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None: ...

    def error(self, event: str, **fields: object) -> None:
        self.errors.append(event)


class Telemetry(PromTelemetry):
    """Tells each length of the queue."""

    def __init__(self) -> None:
        super().__init__(8)
        self.rows: asyncio.Queue[int] = asyncio.Queue()

    def queue_changed(self, rows: int) -> None:
        self.rows.put_nowait(rows)


class OneToken:
    loaded = True

    async def encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [[1] for _ in texts]

    def at_least(self, text: str, enough: int) -> int:
        return 0


@dataclass
class Port:
    """A data port and what lies behind it."""

    batcher: Batcher
    listener: UvicornListener
    sent: "asyncio.Queue[Run]"
    noted: Lines
    rows: "asyncio.Queue[int]"
    clients: list[asyncio.StreamWriter] = field(default_factory=list)

    async def post(
        self,
        body: bytes,
        *headers: bytes,
        length: int | None = None,
        line: bytes = b"POST /v1/embeddings HTTP/1.1",
    ) -> asyncio.StreamReader:
        """Sends a request on a connection of its own, and returns where its answer comes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        self.clients.append(writer)
        lines = [
            line,
            b"host: x",
            b"content-type: application/json",
            b"content-length: %d" % (len(body) if length is None else length),
            *headers,
        ]
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        return reader

    async def embed(self, *headers: bytes) -> asyncio.StreamReader:
        return await self.tokens(1, *headers)

    async def tokens(self, count: int, *headers: bytes) -> asyncio.StreamReader:
        return await self.post(json.dumps({"model": "m", "input": [[1] * count]}).encode(), *headers)

    async def queue_of(self, rows: int) -> None:
        """Returns when so many rows wait."""
        while await self.rows.get() != rows:
            pass

    async def device_answers(self, *, compiles: int = 0, value: float = 0.8) -> Run:
        """The next batch arrives at the device, and is answered."""
        run = await self.sent.get()
        self.batcher.finished(Finished(run.number, embeddings(array("f", [0.6, value]).tobytes()), 0.1, compiles))
        return run

    async def answer(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
        """Status and headers."""
        code = await status(reader)
        fields = [line.decode().partition(":") async for line in _head(reader)]
        return code, {name.lower(): value.strip() for name, _, value in fields}


async def _head(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while line := (await reader.readline()).strip():
        yield line


LENIENT = Catalogue((1,), (4,), largest=Bucket(1, 8))


def with_port(
    scenario: Callable[[Port], Awaitable[None]], *, body_s: float = 20.0, catalogue: Catalogue = LENIENT
) -> None:
    async def run() -> None:
        clock, telemetry, noted = SystemClock(), Telemetry(), Lines()
        sent: asyncio.Queue[Run] = asyncio.Queue()
        batcher = Batcher(catalogue, 8, sent.put_nowait, clock, telemetry)
        batcher.open(compiled=True)
        exchange = Exchange(lambda: "", clock, telemetry, noted, noted, body_s=body_s)
        predictor = Predictor("m", lambda: LIFE, lambda: FACTS, catalogue, OneToken(), batcher, clock)
        view = DataView(
            "m", "1", lambda: LIFE, lambda: FACTS, lambda: None, predictor, exchange, Statistics(telemetry, clock).of
        )
        listener = UvicornListener(DataApp(view), bind("127.0.0.1", 0), max_connections=8)
        await listener.start()
        port = Port(batcher, listener, sent, noted, telemetry.rows)
        try:
            async with asyncio.timeout(20):
                await scenario(port)
        finally:
            for writer in port.clients:
                writer.close()
            listener.hurry()
            await listener.close(1)

    asyncio.run(run())


async def status(reader: asyncio.StreamReader) -> int:
    return int((await reader.readline()).split()[1])


def test_no_batch_is_run_for_callers_that_left() -> None:
    """Those who wait in the queue leave it with their connection; the next batch is of one who stayed."""

    async def scenario(port: Port) -> None:
        first = await port.embed()
        running = await port.sent.get()
        for _ in range(3):
            await port.embed()
        staying = await port.embed()
        await port.queue_of(4)
        for writer in port.clients[1:4]:
            writer.transport.abort()
        for _ in range(3):
            await port.noted.written.acquire()
        assert [(line["status"], line["reason"]) for line in port.noted.lines] == [(499, "caller_gone")] * 3
        port.batcher.finished(Finished(running.number, embeddings(array("f", [0.6, 0.8]).tobytes()), 0.1, 0))
        assert await status(first) == 200
        await port.device_answers()
        assert await status(staying) == 200
        assert port.sent.empty()
        assert port.noted.errors == []

    with_port(scenario)


def test_a_caller_that_leaves_in_its_body_is_no_error_of_ours() -> None:
    """It is noted and nothing more."""

    async def scenario(port: Port) -> None:
        await port.post(b"{", length=100)
        await port.clients[0].drain()
        port.clients[0].close()
        await port.noted.written.acquire()
        assert port.noted.lines[0]["reason"] == "caller_gone"
        assert port.noted.errors == []

    with_port(scenario)


def test_a_body_that_does_not_come_ends_its_connection() -> None:
    """What may still come must not be read as a request."""

    async def scenario(port: Port) -> None:
        reader = await port.post(b"{", length=100)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 400")
        assert b"not complete within 0.01 s" in answer

    with_port(scenario, body_s=0.01)


def test_a_body_that_is_announced_too_large_is_refused_unread() -> None:
    """By its length alone."""

    async def scenario(port: Port) -> None:
        reader = await port.post(b"{", length=2_000_000)
        answer: Any = await reader.read()
        assert answer.startswith(b"HTTP/1.1 413")
        assert b"body_too_large" in answer

    with_port(scenario)


def test_of_two_request_ids_the_answer_and_the_access_log_have_the_same() -> None:
    """The first one, as of every header."""

    async def scenario(port: Port) -> None:
        reader = await port.post(b"{", b"x-request-id: one", b"x-request-id: two")
        _, headers = await port.answer(reader)
        assert [headers["x-request-id"], port.noted.lines[0]["request_id"]] == ["one", "one"]

    with_port(scenario)


def test_a_long_epoch_is_cut_in_the_access_log() -> None:
    """A header decides neither how much is written nor what breaks a line."""

    async def scenario(port: Port) -> None:
        reader = await port.embed(b"x-canary-epoch: " + b"7" * 5000)
        await port.device_answers()
        assert await status(reader) == 200
        assert port.noted.lines[0]["epoch"] == "7" * MAX_EPOCH

    with_port(scenario)


def test_a_compile_is_named_to_who_caused_it_and_who_waited_behind_it() -> None:
    """Count and shape in the headers, the count in the access log; who met none names none."""

    async def scenario(port: Port) -> None:
        readers = [await port.tokens(5), await port.tokens(1)]
        await port.queue_of(1)
        await port.device_answers(compiles=2)
        await port.device_answers()
        readers.append(await port.tokens(5))
        await port.device_answers()
        answers = [await port.answer(reader) for reader in readers]
        assert [code for code, _ in answers] == [200] * 3
        assert [headers["x-canary-compiles"] for _, headers in answers] == ["2", "2", "0"]
        assert [headers.get("x-canary-compiled") for _, headers in answers] == ["1x8", "1x8", None]
        assert [headers["x-canary-bucket"] for _, headers in answers] == ["1x8", "1x4", "1x8"]
        assert [line["compiles"] for line in port.noted.lines] == [2, 2, 0]

    with_port(scenario)


def test_of_many_compiled_shapes_a_requests_own_is_named() -> None:
    """First, and then the newest, at most four: to the culprit, to who waited, and to who found its own compiled."""

    async def scenario(port: Port) -> None:
        readers = []
        for waiting, count in enumerate((2, 4, 8, 16, 32, 64, 1, 2)):
            readers.append(await port.tokens(count))
            await port.queue_of(waiting)
        for compiles in (1, 1, 1, 1, 1, 1, 0, 0):
            await port.device_answers(compiles=compiles)
        answers = [(await port.answer(reader))[1] for reader in readers]
        assert [headers["x-canary-compiles"] for headers in answers] == ["1", "2", "3", "4", "5", "6", "6", "6"]
        assert [headers["x-canary-compiled"] for headers in answers] == [
            "1x2",
            "1x4,1x2",
            "1x8,1x4,1x2",
            "1x16,1x8,1x4,1x2",
            "1x32,1x16,1x8,1x4",
            "1x64,1x32,1x16,1x8",
            "1x64,1x32,1x16,1x8",
            "1x2,1x64,1x32,1x16",
        ]

    with_port(scenario, catalogue=Catalogue((1,), (1,), largest=Bucket(1, 64)))


def test_who_leaves_behind_a_compile_says_so_in_its_line() -> None:
    """A deadline with its headers, a closed connection in the access log alone."""

    async def scenario(port: Port) -> None:
        culprit = await port.tokens(5)
        running = await port.sent.get()
        late = await port.tokens(1, b"x-canary-deadline-ms: 20")
        await port.queue_of(1)
        code, headers = await port.answer(late)
        assert (code, headers["x-canary-compiles"], headers["x-canary-compiled"]) == (504, "1", "1x8")
        await port.queue_of(0)
        await port.tokens(1)
        await port.queue_of(1)
        port.clients[-1].transport.abort()
        await port.noted.written.acquire()
        await port.noted.written.acquire()
        port.batcher.finished(Finished(running.number, embeddings(array("f", [0.6, 0.8]).tobytes()), 0.1, 1))
        assert (await port.answer(culprit))[0] == 200
        noted = [(line["status"], line["reason"], line["compiles"]) for line in port.noted.lines]
        assert noted == [(504, "deadline", 1), (499, "caller_gone", 1), (200, "", 1)]

    with_port(scenario)


def test_a_refusal_names_the_compiles_that_it_met() -> None:
    """Its shape's first run gave no numbers, or the batch failed after compiling; who met none has no such header."""

    async def scenario(port: Port) -> None:
        wrong = await port.tokens(5)
        await port.device_answers(compiles=1, value=float("nan"))
        code, headers = await port.answer(wrong)
        assert (code, headers["x-canary-compiles"], headers["x-canary-compiled"]) == (500, "1", "1x8")
        failed = await port.tokens(6)
        run = await port.sent.get()
        port.batcher.run_failed(RunFailed(run.number, "out of memory", 1))
        code, headers = await port.answer(failed)
        assert (code, headers["x-canary-compiles"], headers["x-canary-compiled"]) == (500, "1", "1x8")
        code, headers = await port.answer(await port.tokens(9))
        assert code == 400
        assert "x-canary-compiles" not in headers
        assert [line["compiles"] for line in port.noted.lines] == [1, 1, 0]

    with_port(scenario)


def test_deep_nesting_is_the_callers_fault() -> None:
    """400, whatever the decoder's stack says."""

    async def scenario(port: Port) -> None:
        reader = await port.post(b'{"model":"m","input":' + b"[" * 100_000)
        assert await status(reader) == 400
        assert port.noted.errors == []

    with_port(scenario)


@pytest.mark.parametrize("path", [b"/v1/embeddings", b"/v1/embeddings/", b"/v1/%65mbeddings"])
def test_every_spelling_of_a_path_is_answered_alike(path: bytes) -> None:
    """With Litestar between or without: the vector, the phases, and the request's id."""

    async def scenario(port: Port) -> None:
        body = json.dumps({"model": "m", "input": [[1]]}).encode()
        reader = await port.post(body, b"x-request-id: 7", line=b"POST " + path + b" HTTP/1.1")
        await port.device_answers()
        code, headers = await port.answer(reader)
        assert (code, headers["content-type"], headers["x-request-id"]) == (200, "application/json", "7")
        assert headers["x-canary-bucket"] == "1x4"

    with_port(scenario)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"GET /v1/embeddings HTTP/1.1", 405),
        (b"OPTIONS /v1/embeddings HTTP/1.1", 204),
        (b"POST /v2/models//infer HTTP/1.1", 405),
        (b"POST /v2/models/m/versions/v/w/infer HTTP/1.1", 404),
        (b"POST /v2/models/other/infer HTTP/1.1", 404),
    ],
)
def test_what_is_no_inference_call_is_answered_by_the_rules_of_routes(line: bytes, code: int) -> None:
    """Another method, and paths that have no route."""

    async def scenario(port: Port) -> None:
        assert await status(await port.post(b"{}", line=line)) == code

    with_port(scenario)
