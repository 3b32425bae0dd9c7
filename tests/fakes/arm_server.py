"""An arm of profile ``ours`` inside the test process: real HTTP on port 0, answers steered by the test.

``answers`` decides the status of an inference request from its text; ``garbage`` replaces the body of a success;
``headers`` are added to every answer; ``turned`` answers with the vector of another text, ``noisy`` with that of
another one each time; ``seen`` keeps what arrived, in order. Inference by the Open Inference Protocol answers with the
vector as scores, each higher by ``nudge``, and behind the JSON where ``binary`` is set. ``ready_at`` decides by its
number whether a readiness poll finds the arm ready; ``down`` is a death without a word. A request that says
``"stream": true`` gets the events of ``stream``.
"""

import asyncio
import base64
import hashlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httptools
import msgspec

IDENTITY = {"revision": "r1", "tokenizer": "t1", "truncation": "none", "output": "embedding"}
DIMENSION = 8
_EVENTS_HEAD = b"HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_EVENT = b"a\r\ndata: {}\n\n\r\n"


@dataclass(frozen=True)
class Seen:
    """One inference request as it arrived."""

    request_id: str
    epoch: int
    shadow: bool
    text: str


@dataclass(frozen=True)
class Script:
    """One stream of events: so many, the first one after ``first_s``, the others ``gap_s`` apart.

    breaks: in its last event the connection is cut.
    """

    first_s: float = 0.005
    gap_s: float = 0.005
    events: int = 6
    breaks: bool = False


@dataclass
class ArmServer:
    """Runs in a thread of its own; use as a context manager."""

    dtype: str = "float32"
    ready: bool = True
    delay_s: float = 0.0
    answers: Callable[[str], int] = lambda text: 200
    garbage: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    turned: bool = False
    noisy: bool = False
    nudge: float = 0.0
    binary: bool = False
    seen: list[Seen] = field(default_factory=list)
    port: int = 0
    open: set[asyncio.Transport] = field(default_factory=set)
    ready_at: Callable[[int], bool] = lambda poll: True
    polls: int = 0
    stream: Callable[[str], Script] = lambda text: Script()

    def __enter__(self) -> "ArmServer":
        self._loop = asyncio.new_event_loop()
        started = threading.Event()

        def run() -> None:
            asyncio.set_event_loop(self._loop)
            self._server = self._loop.run_until_complete(
                self._loop.create_server(lambda: _Connection(self), "127.0.0.1", self.port)
            )
            self.port = self._server.sockets[0].getsockname()[1]
            started.set()
            self._loop.run_forever()
            self._loop.run_until_complete(self._die())
            self._loop.run_until_complete(asyncio.sleep(0))
            self._loop.close()

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        assert started.wait(10), "the fake arm does not listen"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _die(self) -> None:
        self._server.close()
        for transport in list(self.open):
            transport.abort()

    def down(self) -> None:
        """Refuses connections and cuts off those that are open; returns when it is done."""
        asyncio.run_coroutine_threadsafe(self._die(), self._loop).result(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def respond(self, path: str, headers: dict[str, str], body: bytes) -> tuple[int, Any]:
        if path == "/v2/health/ready":
            self.polls += 1
            return (
                (200, {"state": "ready", "elapsed_s": 1.0})
                if self.ready and self.ready_at(self.polls)
                else (503, {"state": "warming", "elapsed_s": 1.0})
            )
        is_infer = path.endswith("/infer")
        if path.startswith("/v2/models/") and not is_infer:
            identity = {**IDENTITY, "dtype": self.dtype, "identity_digest": self.dtype}
            return 200, {
                "name": "m", "versions": ["1"], "platform": "fake", "inputs": [], "outputs": [], "parameters": identity
            }  # fmt: skip
        document = msgspec.json.decode(body)
        given = document["inputs"][0]["data"] if is_infer else document["input"]
        text = given if isinstance(given, str) else given[0]
        self.seen.append(
            Seen(
                request_id=headers.get("x-request-id", ""),
                epoch=int(headers.get("x-canary-epoch", "-1")),
                shadow=headers.get("x-canary-shadow") == "1",
                text=text,
            )
        )
        status = self.answers(text)
        if status == 200 and self.garbage is not None:
            return 200, msgspec.Raw(self.garbage)
        if status != 200:
            return status, {"error": {"message": "no", "type": "t", "code": "shape_not_served", "param": None}}
        if is_infer:
            return 200, self._scores(text)
        return 200, {
            "object": "list",
            "data": [{"object": "embedding", "index": 0, "embedding": vector(self._said(text))}],
            "model": "m",
            "usage": {"prompt_tokens": 1, "total_tokens": 1},
        }

    def _said(self, text: str) -> str:
        if self.noisy:
            return f"{text} {len(self.seen)}"
        return f"{text}?" if self.turned else text

    def _scores(self, text: str) -> Any:
        import numpy as np

        raw = base64.b64decode(vector(text + "?" if self.turned else text))
        scores = np.frombuffer(raw, "<f4") + np.float32(self.nudge)
        output = {"name": "scores", "datatype": "FP32", "shape": [1, DIMENSION]}
        if not self.binary:
            return {"model_name": "m", "outputs": [{**output, "data": scores.tolist()}]}
        raw = scores.astype("<f4").tobytes()
        return Framed({"model_name": "m", "outputs": [{**output, "parameters": {"binary_data_size": len(raw)}}]}, raw)


@dataclass(frozen=True)
class Framed:
    """An answer whose tensors follow its JSON."""

    head: Any
    raw: bytes


def vector(text: str) -> str:
    """A fixed pseudo-embedding of a text, base64 of little-endian float32."""
    import numpy as np

    seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
    row = np.random.default_rng(seed).standard_normal(DIMENSION).astype("<f4")
    return base64.b64encode((row / np.linalg.norm(row)).astype("<f4").tobytes()).decode()


class _Connection(asyncio.Protocol):
    def __init__(self, arm: ArmServer) -> None:
        self._arm = arm
        self._parser = httptools.HttpRequestParser(self)
        self._headers: dict[str, str] = {}
        self._body, self._path = b"", ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._arm.open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._arm.open.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._headers, self._body, self._path = {}, b"", ""

    def on_url(self, url: bytes) -> None:
        self._path += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, data: bytes) -> None:
        self._body += data

    def on_message_complete(self) -> None:
        status, document = self._arm.respond(self._path, self._headers, self._body)
        if b'"stream":true' in self._body.replace(b" ", b"") and status == 200:
            self._write(_EVENTS_HEAD)
            script = self._arm.stream(self._arm.seen[-1].text)
            asyncio.get_running_loop().call_later(script.first_s, self._event, script, 1)
            return
        content_type = "application/json"
        if isinstance(document, Framed):
            json_part = msgspec.json.encode(document.head)
            body = json_part + document.raw
            content_type = f"application/octet-stream\r\ninference-header-content-length: {len(json_part)}"
        else:
            body = msgspec.json.encode(document)
        more = "".join(f"{name}: {value}\r\n" for name, value in self._arm.headers.items())
        head = (
            f"HTTP/1.1 {status} X\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n{more}\r\n"
        ).encode()
        if self._arm.delay_s and self._path.startswith("/v1/"):
            asyncio.get_running_loop().call_later(self._arm.delay_s, self._write, head + body)
        else:
            self._write(head + body)

    def _event(self, script: Script, number: int) -> None:
        if number == script.events and script.breaks:
            self._transport.abort()
            return
        self._write(_EVENT)
        if number == script.events:
            self._write(b"0\r\n\r\n")
        elif not self._transport.is_closing():
            asyncio.get_running_loop().call_later(script.gap_s, self._event, script, number + 1)

    def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)
