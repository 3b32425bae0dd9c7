"""One inference request from arrival to answer: timed, counted and logged, whatever comes of it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from litestar import Request, Response

from server.adapters.asgi.answers import Content, content_response, reason_of, refusal_response, retry_after
from server.adapters.asgi.incoming import BODY_S, BodyTooSlow, CallerGone, check_head, read_body, unless_gone
from server.core.admission import deadline_at
from server.core.types import Bucket, DeadlinePassed
from server.core.visit import Visit
from server.ports.clock import Clock
from server.ports.telemetry import AccessLog, Log, Telemetry
from server.runtime.last_call import LastCall
from server.runtime.predict import Prediction
from wire import headers
from wire.errors import Reason
from wire.health import Identity

MAX_REQUEST_ID: Final = 200
MAX_EPOCH: Final = 32
# nginx's number for a client that closed its connection; nobody reads it but the metrics and the access log.
CALLER_GONE: Final = 499
AnyRequest = Request[Any, Any, Any]
Work = Callable[[bytes, Visit], Coroutine[Any, Any, tuple[Prediction, Content]]]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Runs requests. ``body_s`` is the time that a caller has for its body, ``last_call`` may end it before."""

    identity: Callable[[], Identity | None]
    clock: Clock
    telemetry: Telemetry
    access_log: AccessLog
    log: Log
    body_s: float = BODY_S
    last_call: LastCall = field(default_factory=LastCall)

    async def run(self, request: AnyRequest, route: str, work: Work, *, binary: bool = False) -> Response[bytes]:
        """The answer to ``request``; ``work`` gets the body and the visit, on which it notes what the request met.

        ``binary``: bytes may follow the JSON of the body.
        """
        visit = self._visit(request)
        prediction: Prediction | None = None
        try:
            prediction, content = await self._answer(request, visit, work, binary=binary)
            timings = _timings(prediction, self.identity(), visit, self.clock.monotonic() - visit.arrived)
            response, reason = await content_response(request, content, timings), ""
        except CallerGone:
            response, reason = Response(b"", status_code=CALLER_GONE), "caller_gone"
        except Exception as error:  # every failure becomes an answer in the protocol's shape
            response, reason = self._refusal(request.url.path, route, error, visit)
        self._note(request, route, response.status_code or 200, reason, prediction, visit)
        return response

    def _visit(self, request: AnyRequest) -> Visit:
        arrived = self.clock.monotonic()
        deadline = request.headers.get(headers.DEADLINE_MS)
        deadline_ms = None if deadline is None else headers.parse_deadline_ms(deadline)
        shadow = request.headers.get(headers.SHADOW) == "1"
        return Visit(arrived, deadline_at(arrived, deadline_ms), shadow=shadow)

    async def _answer(
        self, request: AnyRequest, visit: Visit, work: Work, *, binary: bool
    ) -> tuple[Prediction, Content]:
        coding = check_head(request, binary=binary)
        async with self.last_call.heeded():
            body = await read_body(request.receive, self.body_s, coding)
        return await unless_gone(request.receive, work(body, visit))

    def _refusal(self, path: str, route: str, error: Exception, visit: Visit) -> tuple[Response[bytes], str]:
        code, message, param = reason_of(error)
        if code is Reason.INTERNAL:
            self.log.error("request_failed", route=route, error=f"{type(error).__name__}: {error}")
        # The rest of a body that is given up must not be read as the next request.
        close = isinstance(error, BodyTooSlow)
        return refusal_response(path, code, message, param, close=close, more=_told(error, visit)), str(code)

    def _note(
        self,
        request: AnyRequest,
        route: str,
        status: int,
        reason: str,
        answered: Prediction | None,
        visit: Visit,
    ) -> None:
        seconds = self.clock.monotonic() - visit.arrived
        queue_s = None if answered is None else answered.queue_s
        self.telemetry.request_done(route, status, reason, seconds, queue_s)
        self.access_log.write(
            {
                "at": round(self.clock.wall(), 6),
                "request_id": request.headers.get(headers.REQUEST_ID, "")[:MAX_REQUEST_ID],
                "epoch": request.headers.get(headers.EPOCH, "")[:MAX_EPOCH],
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


def _timings(prediction: Prediction, identity: Identity | None, visit: Visit, total_s: float) -> dict[str, str]:
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
        headers.IDENTITY: "" if identity is None else identity.digest(),
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
