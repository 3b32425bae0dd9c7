"""Spans at a real receiver; what does not get there is counted and stops nobody."""

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from fakes.otlp_receiver import OtlpReceiver
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from server.adapters import otel
from server.adapters.otel import MAX_PATH, OtelTracer, _Outbox
from server.core.journey import Journey, Shared
from server.core.types import Bucket
from server.ports.tracer import Opened, Told

NONE = "0" * 16


class Clock:
    def monotonic(self) -> float:
        return 100.0

    def wall(self) -> float:
        return 1000.0


class Log:
    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **fields: object) -> None:
        self.events.append(event)

    warning = error = info


class Lost:
    def __init__(self) -> None:
        self.spans: dict[str, int] = {}

    def __call__(self, why: str, spans: int) -> None:
        self.spans[why] = self.spans.get(why, 0) + spans


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as each:
        yield each


def tracer_of(receiver: OtlpReceiver, ratio: float, log: Log | None = None, lost: Lost | None = None) -> OtelTracer:
    service = {"service.name": "s"}
    return OtelTracer(receiver.endpoint, ratio, service, ("h", 1), Clock(), log or Log(), lost or Lost())


def asked(parent: str = "", path: str = "/p") -> Opened:
    return Opened(100.0, "POST", "/r", path, "1.1", parent, "")


def told(journey: Journey, **changes: Any) -> Told:
    return Told(**{"at": 103.0, "status": 200, "reason": "", "journey": journey, "request_id": "", "shadow": False,
                   "compiles": 0, **changes})  # fmt: skip


def test_without_a_parent_the_ratio_decides(receiver: OtlpReceiver) -> None:
    """All, or none; what is no traceparent is none."""
    none, every = tracer_of(receiver, 0.0), tracer_of(receiver, 1.0)
    for parent in ("", "nonsense", "00-" + "0" * 32 + "-00f067aa0ba902b7-01"):
        assert none.begin(asked(parent)) is None
        recorded = every.begin(asked(parent))
        assert recorded is not None
        assert recorded.id != "0" * 32
    none.close(10)
    every.close(10)


def test_members_of_one_batch_tell_its_number_each_in_its_own_trace(receiver: OtlpReceiver) -> None:
    """Times are the server's own, on the wall clock of the moment."""
    tracer = tracer_of(receiver, 1.0)
    shared = Shared(7, Bucket(2, 4), requests=2, rows=2, padding=0.25)
    for _ in range(2):
        journey = Journey()
        journey.enters("queue", 100.5)
        journey.enters("batch", 101.0, shared)
        journey.ran(102.0, 101.25, 0.5, compiles=3)
        recorded = tracer.begin(asked())
        assert recorded is not None
        recorded.end(told(journey))
    tracer.close(10)
    batches = [span for span in receiver.spans if span.name == "batch"]
    assert len({span.trace for span in batches}) == 2
    assert [span.attributes["canary.batch.number"] for span in batches] == [7, 7]
    device = next(span for span in receiver.spans if span.name == "device")
    assert (device.start, device.end) == (1_001_250_000_000, 1_001_750_000_000)


def test_a_request_that_failed_says_where_and_why(receiver: OtlpReceiver) -> None:
    """5xx is an error of the span, and so is the phase that it ended in. What a client chose is cut."""
    tracer = tracer_of(receiver, 1.0)
    journey = Journey()
    journey.enters("queue", 100.5)
    journey.ends(103.0, "deadline")
    recorded = tracer.begin(asked(path="/" + "x" * 5000))
    assert recorded is not None
    recorded.end(told(journey, status=504, reason="deadline"))
    tracer.close(10)
    spans = receiver.of(recorded.id)
    request, queue = spans["POST /r"], spans["queue"]
    assert (request.parent, request.status, request.attributes["error.type"]) == ("", 2, "deadline")
    assert (queue.status, queue.attributes["error.type"]) == (2, "deadline")
    assert len(request.attributes["url.path"]) == MAX_PATH


def test_failures_are_counted_each_and_logged_once(receiver: OtlpReceiver) -> None:
    """Until it works again."""
    log, lost = Log(), Lost()
    tracer = tracer_of(receiver, 1.0, log, lost)

    def one(status: int) -> None:
        receiver.status = status
        bodies = len(receiver.bodies)
        recorded = tracer.begin(asked())
        assert recorded is not None
        recorded.end(told(Journey()))
        receiver.wait(lambda: len(receiver.bodies) > bodies, "post")

    for status in (400, 400, 200):
        one(status)
    tracer.close(10)
    assert lost.spans == {"export": 2}
    assert log.events == ["tracing_lost", "tracing_recovered"]


def test_a_fault_of_the_library_is_no_fault_of_the_request(receiver: OtlpReceiver) -> None:
    """It is counted, and the request is not recorded."""
    lost = Lost()
    tracer = tracer_of(receiver, 1.0, lost=lost)
    recorded = tracer.begin(asked())
    assert recorded is not None
    recorded.end(told(None))  # type: ignore[arg-type]  # any error inside will do
    tracer._parents = None  # type: ignore[assignment]  # the same
    assert tracer.begin(asked()) is None
    assert lost.spans == {"error": 2}
    tracer.close(10)


def test_what_no_longer_fits_is_turned_away_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a collector hangs, no request waits and memory does not grow."""
    released, begun = threading.Event(), threading.Event()

    class Hangs(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            begun.set()
            released.wait()
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None: ...

    monkeypatch.setattr(otel, "MAX_SPANS", 4)
    monkeypatch.setattr(otel, "SPANS_A_POST", 2)
    lost = Lost()
    outbox = _Outbox(Hangs(), Log(), lost)
    from opentelemetry.sdk.trace import TracerProvider

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(outbox)
    tracer = provider.get_tracer("t")
    for _ in range(7):
        tracer.start_span("s").end()
    assert begun.wait(60)
    assert lost.spans == {"queue_full": 3}
    released.set()
    provider.shutdown()
