"""One inference request from arrival to answer: timed, counted and logged, whatever comes of it."""

import traceback
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from server.adapters.asgi.answers import (
    JSON,
    MAX_BODY,
    Answer,
    Content,
    content_answer,
    reason_of,
    refusal_answer,
    retry_after,
)
from server.adapters.asgi.incoming import BODY_S, Asked, BodyTooSlow, check_head, read_body
from server.adapters.asgi.leaving import CallerGone
from server.core.admission import deadline_at
from server.core.journey import Journey
from server.core.types import Bucket, DeadlinePassed, Refused
from server.core.visit import Visit
from server.ports.clock import Clock
from server.ports.telemetry import AccessLog, Log, Telemetry
from server.ports.tracer import Opened, Told, Trace, Tracer
from server.runtime.last_call import LastCall
from server.runtime.predict import Prediction
from wire import headers
from wire.errors import Reason

MAX_REQUEST_ID: Final = 200
MAX_EPOCH: Final = 32
# nginx's number for a client that closed its connection; nobody reads it but the metrics and the access log.
CALLER_GONE: Final = 499
Work = Callable[[bytes, Visit], Coroutine[Any, Any, tuple[Prediction, Content]]]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Runs requests. ``identity`` gives its digest, empty before the model is loaded. ``body_s`` is the time that a
    caller has for its body of at most ``max_body`` bytes, ``last_call`` may end it before. ``tracer`` None: no request
    is recorded.
    """

    identity: Callable[[], str]
    clock: Clock
    telemetry: Telemetry
    access_log: AccessLog
    log: Log
    body_s: float = BODY_S
    max_body: int = MAX_BODY
    last_call: LastCall = field(default_factory=LastCall)
    tracer: Tracer | None = None

    async def run(self, asked: Asked, route: str, work: Work, *, binary: bool = False) -> Answer:
        """The answer to ``asked``; ``work`` gets the body and the visit, on which it notes what the request met.

        ``binary``: bytes may follow the JSON of the body.
        """
        visit = self._visit(asked)
        trace = None if self.tracer is None else self.tracer.begin(_opened(asked, route, visit.arrived))
        if trace is not None:
            visit.journey = Journey()
        prediction: Prediction | None = None
        try:
            prediction, content = await self._answer(asked, visit, work, binary=binary)
            timings = _timings(prediction, self.identity(), visit, self.clock.monotonic() - visit.arrived)
            answer, reason = await content_answer(asked.headers, content, timings), ""
        except CallerGone:
            answer, reason = Answer(CALLER_GONE, b"", JSON, {}), "caller_gone"
        except Exception as error:  # every failure becomes an answer in the protocol's shape
            answer, reason = self._refusal(asked.path, route, error, visit, trace)
        self._note(asked, route, answer.status, reason, prediction, visit, trace)
        return answer

    def _visit(self, asked: Asked) -> Visit:
        arrived = self.clock.monotonic()
        deadline = asked.headers.get(headers.DEADLINE_MS)
        deadline_ms = None if deadline is None else headers.parse_deadline_ms(deadline)
        shadow = asked.headers.get(headers.SHADOW) == "1"
        return Visit(arrived, deadline_at(arrived, deadline_ms), shadow=shadow)

    async def _answer(self, asked: Asked, visit: Visit, work: Work, *, binary: bool) -> tuple[Prediction, Content]:
        coding = check_head(asked.headers, binary=binary, limit=self.max_body)
        body = await read_body(asked.receive, self.body_s, coding, self.last_call, limit=self.max_body)
        return await asked.leaving.unless_gone(work(body, visit))

    def _refusal(
        self, path: str, route: str, error: Exception, visit: Visit, trace: Trace | None
    ) -> tuple[Answer, str]:
        code, message, param = reason_of(error)
        if code is Reason.INTERNAL:
            self.log.error("request_failed", route=route, error=_where(error), trace_id=_trace_id(trace))
        # The rest of a body that is given up must not be read as the next request.
        close = isinstance(error, BodyTooSlow)
        return refusal_answer(path, code, message, param, close=close, more=_told(error, visit)), str(code)

    def _note(
        self,
        asked: Asked,
        route: str,
        status: int,
        reason: str,
        answered: Prediction | None,
        visit: Visit,
        trace: Trace | None,
    ) -> None:
        now = self.clock.monotonic()
        seconds = now - visit.arrived
        request_id = asked.headers.get(headers.REQUEST_ID, "")[:MAX_REQUEST_ID]
        if trace is not None and visit.journey is not None:
            visit.journey.ends(now, reason)
            trace.end(_told_to_trace(now, status, reason, request_id, answered, visit, visit.journey))
        queue_s = None if answered is None else answered.queue_s
        self.telemetry.request_done(route, status, reason, seconds, queue_s)
        if not self.access_log.kept:
            return
        self.access_log.write(
            {
                "at": round(self.clock.wall(), 6),
                "request_id": request_id,
                "trace_id": _trace_id(trace),
                "epoch": asked.headers.get(headers.EPOCH, "")[:MAX_EPOCH],
                "shadow": visit.shadow,
                "route": route,
                "status": status,
                "reason": reason,
                "bucket": "" if answered is None else str(answered.bucket),
                "rows": 0 if answered is None else answered.rows,
                "compiles": visit.compiles.count,
                "ms": round(seconds * 1000, 3),
            }
        )


def _timings(prediction: Prediction, identity: str, visit: Visit, total_s: float) -> dict[str, str]:
    """What the gateway reads of each answer. Milliseconds."""
    queue, batch, device = (
        f"{seconds * 1000:.3f}" for seconds in (prediction.queue_s, prediction.batch_s, prediction.device_s)
    )
    return {
        headers.BUCKET: str(prediction.bucket),
        headers.ROWS: str(prediction.rows),
        headers.QUEUE_MS: queue,
        headers.BATCH_MS: batch,
        headers.DEVICE_MS: device,
        headers.SERVER_TIMING: (
            f"queue;dur={queue}, batch;dur={batch}, device;dur={device}, total;dur={total_s * 1000:.3f}"
        ),
        headers.IDENTITY: identity,
        **_compiles(visit, prediction.bucket),
    }


def _told(error: Exception, visit: Visit) -> dict[str, str]:
    """Headers of a refusal: when to come again, how far the request came, and what it met."""
    told = retry_after(error) | (_compiles(visit, None) if visit.compiles.count else {})
    if isinstance(error, DeadlinePassed):
        told[headers.PHASE] = error.phase
    return told


def _compiles(visit: Visit, own: Bucket | None) -> dict[str, str]:
    """How many, and their shapes: ``own`` first, since that of the culprit must not be missing."""
    count = {headers.COMPILES: str(visit.compiles.count)}
    if not visit.compiles.count:
        return count
    return {**count, headers.COMPILED: ",".join(map(str, visit.compiles.named(own, headers.MAX_COMPILED)))}


def _opened(asked: Asked, route: str, arrived: float) -> Opened:
    return Opened(
        arrived,
        "POST",
        route,
        asked.path,
        asked.http_version,
        asked.headers.get(headers.TRACE_PARENT, ""),
        asked.headers.get(headers.TRACE_STATE, ""),
    )


def _told_to_trace(
    now: float,
    status: int,
    reason: str,
    request_id: str,
    answered: Prediction | None,
    visit: Visit,
    journey: Journey,
) -> Told:
    told = Told(now, status, reason, journey, request_id, visit.shadow, visit.compiles.count)
    if answered is None:
        return told
    return replace(told, bucket=str(answered.bucket), rows=answered.rows, tokens=answered.tokens)


def _trace_id(trace: Trace | None) -> str:
    return "" if trace is None else trace.id


def _where(error: Exception) -> str:
    """Of an error of ours. The text of a library's may repeat what the client sent, so it stays out of the log."""
    if isinstance(error, Refused):
        return f"{type(error).__name__}: {error.message}"
    frames = traceback.extract_tb(error.__traceback__)
    return " > ".join(
        [*(f"{Path(each.filename).name}:{each.lineno} {each.name}" for each in frames[-8:]), type(error).__name__]
    )
