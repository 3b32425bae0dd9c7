"""An OTLP/HTTP receiver on port zero: decodes what real exporters send, and keeps the bytes."""

import gzip
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

WAIT_S = 60.0


@dataclass(frozen=True)
class Got:
    """One span. Ids are hex, times nanoseconds since 1970."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    status: int
    start: int
    end: int
    attributes: dict[str, Any]
    resource: dict[str, Any]


class OtlpReceiver:
    """``with OtlpReceiver() as receiver``; ``status`` is what it answers."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.spans: list[Got] = []
        self.status = 200
        self._came = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                receiver._take(self.path, body)
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *given: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "OtlpReceiver":
        self._thread.start()
        return self

    def __exit__(self, *given: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until what came is enough."""
        end = time.monotonic() + WAIT_S
        with self._came:
            while not condition():
                assert self._came.wait(max(0.0, end - time.monotonic())), f"no {what}: {self.spans}"

    def of(self, trace: str) -> dict[str, Got]:
        """The spans of a trace by name."""
        return {span.name: span for span in self.spans if span.trace == trace}

    def _take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        found = []
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(part.resource.attributes)
            found += [_got(span, resource) for scope in part.scope_spans for span in scope.spans]
        with self._came:
            self.bodies.append(body)
            if self.status == 200:
                self.spans += found
            self._came.notify_all()


def _got(span: Any, resource: dict[str, Any]) -> Got:
    return Got(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        status=span.status.code,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        attributes=_values(span.attributes),
        resource=resource,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
