"""A small endpoint that speaks the embeddings API, for the load process to be pointed at."""

import array
import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from wire.openai import Embedding, EmbeddingRequest, EmbeddingResponse, Usage, encode_base64


def vector(text: str, dimension: int = 384) -> bytes:
    """A vector of unit length that depends on the text alone."""
    draw = random.Random(hashlib.sha256(text.encode()).digest())
    numbers = [draw.gauss(0.0, 1.0) for _ in range(dimension)]
    norm = sum(x * x for x in numbers) ** 0.5
    return array.array("f", [x / norm for x in numbers]).tobytes()


def answer(texts: list[str], vectors: Callable[[str], bytes] = vector) -> bytes:
    data = [Embedding(index=i, embedding=encode_base64(vectors(text))) for i, text in enumerate(texts)]
    return msgspec.json.encode(EmbeddingResponse(data=data, model="m", usage=Usage(1, 1)))


class FakeEndpoint:
    """Answers embeddings calls. Steer it by ``reply``: gets the number of the call and its texts, gives status and
    body, or None to close the connection without an answer. ``hold`` keeps every answer back until it is set."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []
        self.reply: Callable[[int, list[str]], tuple[int, bytes] | None] = lambda _, texts: (200, answer(texts))
        self.hold = threading.Event()
        self.hold.set()
        self.reached = threading.Semaphore(0)
        self._lock = threading.Lock()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                request = msgspec.json.decode(raw, type=EmbeddingRequest)
                assert isinstance(request.input, list)
                texts = [str(text) for text in request.input]
                with endpoint._lock:
                    number = len(endpoint.texts)
                    endpoint.texts.append(texts)
                endpoint.reached.release()
                endpoint.hold.wait(20)
                reply = endpoint.reply(number, texts)
                if reply is None:
                    self.close_connection = True
                    return
                self.send_response(reply[0])
                for name, value in (
                    ("content-length", str(len(reply[1]))),
                    ("x-canary-arm", "cpu" if number % 2 else "tpu"),
                    ("x-canary-bucket", "1x16"),
                ):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(reply[1])

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    fake = FakeEndpoint()
    yield fake
    fake.close()
