"""Traces by OpenTelemetry: W3C parents in, OTLP over HTTP out. Imported only where tracing is configured.

A batch serves several requests, and each of those that are recorded gets spans of its own for it. Linked spans in a
trace of the batch's would be fewer, but then the trace of a slow request, which is what somebody looks at, would end at
the queue. ``canary.batch.number`` is the same in all of them, so whoever shared a batch can be found.
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from server.core.journey import Step
from server.ports.clock import Clock
from server.ports.telemetry import Log
from server.ports.tracer import Opened, Told

# A recorded request has five spans of about 1 kB.
MAX_SPANS: Final = 8192
SPANS_A_POST: Final = 512
EVERY_MS: Final = 1000
POST_S: Final = 5.0
MAX_PATH: Final = 200
Lost = Callable[[str, int], None]
Attributes = Mapping[str, str | int | float | bool]


class OtelTracer:
    """A Tracer (see ports). ``ratio`` of the requests without a parent are recorded; a parent has decided for its own.

    ``service`` describes this process, ``host`` and ``port`` where it listens. ``lost`` is told why spans did not
    arrive, and how many; it and ``log`` are called from the exporter's thread, too.
    """

    def __init__(
        self,
        endpoint: str,
        ratio: float,
        service: Mapping[str, str],
        address: tuple[str, int],
        clock: Clock,
        log: Log,
        lost: Lost,
    ) -> None:
        self._clock = clock
        self._lost = lost
        self._always: Attributes = {"server.address": address[0], "server.port": address[1], "url.scheme": "http"}
        self._parents = TraceContextTextMapPropagator()
        # Sampling, names and processor are ours; the environment may still add headers and resource attributes.
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)), resource=Resource.create(service), shutdown_on_exit=False
        )
        self._provider.add_span_processor(_Outbox(OTLPSpanExporter(endpoint=endpoint, timeout=POST_S), log, lost))
        self._tracer = self._provider.get_tracer("tpu-canary.server")

    def begin(self, opened: Opened) -> "_Recorded | None":
        try:
            return self._begin(opened)
        except Exception:  # a fault of the library's must not become one of the request's
            self._lost("error", 1)
            return None

    def close(self, limit_s: float) -> None:
        ending = threading.Thread(target=self._provider.shutdown, name="tracing-ends", daemon=True)
        ending.start()
        ending.join(limit_s)

    def _begin(self, opened: Opened) -> "_Recorded | None":
        # Taken anew each time, since the wall clock may be set.
        offset = self._clock.wall() - self._clock.monotonic()
        span = self._tracer.start_span(
            f"{opened.method} {opened.route}",
            context=self._parents.extract({"traceparent": opened.parent, "tracestate": opened.state}),
            kind=SpanKind.SERVER,
            start_time=_ns(opened.at, offset),
        )
        if not span.is_recording():
            return None
        span.set_attributes(
            {
                **self._always,
                "http.request.method": opened.method,
                "http.route": opened.route,
                "url.path": opened.path[:MAX_PATH],
                "network.protocol.version": opened.http_version,
            }
        )
        return _Recorded(self._tracer, span, offset, self._lost)


class _Recorded:
    """A Trace (see ports)."""

    def __init__(self, tracer: Tracer, span: Span, offset: float, lost: Lost) -> None:
        self._tracer = tracer
        self._span = span
        self._offset = offset
        self._lost = lost

    @property
    def id(self) -> str:
        return f"{self._span.get_span_context().trace_id:032x}"

    def end(self, told: Told) -> None:
        try:
            self._end(told)
        except Exception:  # as in begin
            self._lost("error", 1)

    def _end(self, told: Told) -> None:
        for step in told.journey.steps:
            self._step(step, told.at)
        self._span.set_attributes(
            {
                "http.response.status_code": told.status,
                "canary.request_id": told.request_id,
                "canary.shadow": told.shadow,
                "canary.compiles": told.compiles,
                **_without_empty(
                    {"canary.bucket": told.bucket, "canary.rows": told.rows, "canary.tokens": told.tokens}
                ),
                **_without_empty({"canary.reason": told.reason}),
            }
        )
        if told.status >= 500:
            self._span.set_attribute("error.type", told.reason or str(told.status))
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end(_ns(told.at, self._offset))

    def _step(self, step: Step, at: float) -> None:
        ended = at if step.ended is None else step.ended
        attributes: dict[str, str | int | float | bool] = {}
        if step.batch is not None:
            attributes = {
                "canary.batch.number": step.batch.number,
                "canary.batch.requests": step.batch.requests,
                "canary.batch.rows": step.batch.rows,
                "canary.bucket": str(step.batch.bucket),
                "canary.padding": round(step.batch.padding, 4),
                "canary.compiles": step.compiles,
            }
        span = self._child(self._span, step.leg, step.began, attributes)
        if step.device is not None:
            self._child(span, "device", step.device[0], {}).end(_ns(step.device[1], self._offset))
        if step.why:
            span.set_attribute("error.type", step.why)
            span.set_status(Status(StatusCode.ERROR))
        span.end(_ns(ended, self._offset))

    def _child(self, parent: Span, name: str, began: float, attributes: Attributes) -> Span:
        return self._tracer.start_span(
            name, set_span_in_context(parent), start_time=_ns(began, self._offset), attributes=attributes
        )


class _Outbox(SpanProcessor):
    """The SDK's batch processor behind a bound that counts what it turns away. ``on_end`` never waits."""

    def __init__(self, exporter: SpanExporter, log: Log, lost: Lost) -> None:
        self._lost = lost
        self._lock = threading.Lock()
        self._held = 0
        self._inner = BatchSpanProcessor(
            _Watched(exporter, log, lost, self._gone),
            max_queue_size=MAX_SPANS,
            schedule_delay_millis=EVERY_MS,
            max_export_batch_size=SPANS_A_POST,
        )

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            full = self._held >= MAX_SPANS
            self._held += not full
        if full:
            self._lost("queue_full", 1)
        else:
            self._inner.on_end(span)

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]  # the SDK's has no annotation

    def _gone(self, spans: int) -> None:
        with self._lock:
            self._held -= spans


class _Watched(SpanExporter):
    """Counts what was not taken, and logs the first failure and the first success after it, not each."""

    def __init__(self, exporter: SpanExporter, log: Log, lost: Lost, gone: Callable[[int], None]) -> None:
        self._exporter = exporter
        self._log = log
        self._lost = lost
        self._gone = gone
        self._failing = False
        self._words = _LastWords()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            result = self._exporter.export(spans)
        finally:
            self._gone(len(spans))
        failed = result is not SpanExportResult.SUCCESS
        if failed:
            self._lost("export", len(spans))
        if failed and not self._failing:
            self._log.warning("tracing_lost", error=self._words.last, spans=len(spans))
        if self._failing and not failed:
            self._log.info("tracing_recovered")
        self._failing = failed
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


class _LastWords(logging.Handler):
    """What the exporter says last: it logs each try, which the log of a server has no use for."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""
        logger = logging.getLogger("opentelemetry")
        logger.handlers = [self]
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()[:500]


def _without_empty(attributes: Attributes) -> Attributes:
    return {name: value for name, value in attributes.items() if value}


def _ns(at: float, offset: float) -> int:
    return round((at + offset) * 1e9)
