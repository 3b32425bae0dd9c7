"""The data port: both inference protocols, metadata and OIP health."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from litestar import Litestar, Request, Response, get, post
from litestar.datastructures import MutableScopeHeaders
from litestar.types import Message, Scope

from server.adapters.asgi import oip, openai
from server.adapters.asgi.answers import JSON, MAX_BODY, answer_error, json_response, reason_of, refusal_response
from server.core.lifecycle import Life, State
from server.core.types import EngineFacts, Internal, ModelNotFound, NotReady, Refused, TokenRows
from server.ports.clock import Clock
from server.ports.telemetry import AccessLog, Log, Telemetry
from server.runtime.predict import Prediction, Predictor
from wire import headers
from wire.errors import Reason
from wire.health import Identity
from wire.oip import ModelMetadata, ServerMetadata, TensorMetadata
from wire.openai import PATH as EMBEDDINGS

INFER: Final = "/v2/models/{model}/infer"
MAX_REQUEST_ID: Final = 200
AnyRequest = Request[Any, Any, Any]
Work = Callable[[bytes, float, int | None], Awaitable[tuple[Prediction, bytes]]]


@dataclass(frozen=True, slots=True)
class DataView:
    """What the data port works with."""

    model: str
    version: str
    life: Callable[[], Life]
    facts: Callable[[], EngineFacts | None]
    identity: Callable[[], Identity | None]
    predictor: Predictor
    clock: Clock
    telemetry: Telemetry
    access_log: AccessLog
    log: Log


def data_app(view: DataView) -> Litestar:
    """The application of the data port."""
    exchange = _Exchange(view)

    @post(EMBEDDINGS, status_code=200)
    async def embeddings(request: AnyRequest) -> Response[bytes]:
        return await exchange.run(request, EMBEDDINGS, lambda *given: _embed(view, *given))

    @post("/v2/models/{model:str}/infer", status_code=200)
    async def infer(request: AnyRequest, model: str) -> Response[bytes]:
        return await exchange.run(request, INFER, lambda *given: _infer(view, model, *given))

    @get("/v2")
    async def server_metadata() -> Response[bytes]:
        return json_response(msgspec.json.encode(ServerMetadata("tpu-canary", view.version, [])))

    @get("/v2/models/{model:str}")
    async def model_metadata(model: str) -> Response[bytes]:
        _check_model(view, model)
        return json_response(msgspec.json.encode(_metadata(view)))

    @get("/v2/health/live")
    async def live() -> Response[bytes]:
        if not view.life().live:
            raise NotReady(f"server: {view.life().detail}")
        return json_response(b'{"live":true}')

    @get("/v2/health/ready")
    async def ready() -> Response[bytes]:
        _check_ready(view)
        return json_response(b'{"ready":true}')

    @get("/v2/models/{model:str}/ready")
    async def model_ready(model: str) -> Response[bytes]:
        _check_model(view, model)
        _check_ready(view)
        return json_response(msgspec.json.encode({"name": model, "ready": True}))

    return Litestar(
        [embeddings, infer, server_metadata, model_metadata, live, ready, model_ready],
        before_send=[_Farewell(view.life)],
        exception_handlers={Exception: answer_error},
        logging_config=None,
        openapi_config=None,
        request_max_body_size=MAX_BODY,
    )


async def _embed(view: DataView, body: bytes, arrived: float, deadline_ms: int | None) -> tuple[Prediction, bytes]:
    facts = view.predictor.check_serving()
    question = openai.parse(body)
    view.predictor.check_model(question.model)
    openai.check_dimensions(question.dimensions, facts.dim)
    prediction = await _predict(view, question.texts, question.tokens, arrived, deadline_ms)
    return prediction, openai.render(prediction, question)


async def _infer(
    view: DataView, model: str, body: bytes, arrived: float, deadline_ms: int | None
) -> tuple[Prediction, bytes]:
    _check_model(view, model)
    view.predictor.check_serving()
    question = oip.parse(body)
    prediction = await _predict(view, question.texts, question.tokens, arrived, deadline_ms)
    return prediction, oip.render(prediction, view.model, question.id)


async def _predict(
    view: DataView, texts: list[str] | None, tokens: TokenRows | None, arrived: float, deadline_ms: int | None
) -> Prediction:
    if tokens is not None:
        prediction = await view.predictor.tokens(tokens, arrived, deadline_ms)
    else:
        prediction = await view.predictor.texts(texts or [], arrived, deadline_ms)
    # JSON has no NaN, and a client would take the null in its place for a number.
    if not np.isfinite(np.frombuffer(prediction.data, dtype=np.float32)).all():
        raise Internal("output: the device returned a value that is not finite")
    return prediction


def _check_model(view: DataView, name: str) -> None:
    if name != view.model:
        raise ModelNotFound(f"model: got {name!r}, this server serves {view.model!r}", param="model")


def _check_ready(view: DataView) -> None:
    if not view.life().ready:
        raise NotReady(f"server: {view.life().state}: {view.life().detail}")


def _metadata(view: DataView) -> ModelMetadata:
    """Raises NotReady before the model is loaded."""
    identity, facts = view.identity(), view.facts()
    if identity is None or facts is None:
        raise NotReady(f"server: {view.life().state}: {view.life().detail}")
    return ModelMetadata(
        name=view.model,
        versions=[facts.revision[:12]],
        platform="pytorch",
        inputs=oip.inputs(),
        outputs=[TensorMetadata(oip.OUTPUT, "FP32", [-1, facts.dim])],
        parameters={**msgspec.structs.asdict(identity), "identity_digest": identity.digest()},
    )


class _Exchange:
    """One inference request from arrival to answer: timed, counted and logged, whatever comes of it."""

    def __init__(self, view: DataView) -> None:
        self._view = view

    async def run(self, request: AnyRequest, route: str, work: Work) -> Response[bytes]:
        view = self._view
        arrived = view.clock.monotonic()
        prediction: Prediction | None = None
        try:
            prediction, content = await self._answer(request, arrived, work)
            response, reason = json_response(content, _timings(prediction, view.identity())), ""
        except Exception as error:  # every failure becomes an answer in the protocol's shape
            code, message, param = reason_of(error)
            if code is Reason.INTERNAL:
                view.log.error("request_failed", route=route, error=f"{type(error).__name__}: {error}")
            response, reason = refusal_response(request.url.path, code, message, param), str(code)
        self._note(request, route, response.status_code or 200, reason, prediction, view.clock.monotonic() - arrived)
        return response

    async def _answer(self, request: AnyRequest, arrived: float, work: Work) -> tuple[Prediction, bytes]:
        refused = _unsupported(request)
        if refused is not None:
            raise refused
        deadline = request.headers.get(headers.DEADLINE_MS)
        return await work(
            await request.body(), arrived, None if deadline is None else headers.parse_deadline_ms(deadline)
        )

    def _note(
        self, request: AnyRequest, route: str, status: int, reason: str, answered: Prediction | None, seconds: float
    ) -> None:
        queue_s = None if answered is None else answered.queue_s
        self._view.telemetry.request_done(route, status, reason, seconds, queue_s)
        self._view.access_log.write(
            {
                "at": round(self._view.clock.wall(), 6),
                "request_id": request.headers.get(headers.REQUEST_ID, "")[:MAX_REQUEST_ID],
                "epoch": request.headers.get(headers.EPOCH, ""),
                "shadow": request.headers.get(headers.SHADOW) == "1",
                "route": route,
                "status": status,
                "reason": reason,
                "bucket": "" if answered is None else str(answered.bucket),
                "rows": 0 if answered is None else answered.rows,
                "ms": round(seconds * 1000, 3),
            }
        )


class _UnsupportedMediaType(Refused):
    reason = "unsupported_media_type"


def _unsupported(request: AnyRequest) -> Refused | None:
    """JSON without encoding is what this version reads; no content type at all counts as JSON."""
    if "inference-header-content-length" in request.headers:
        return _UnsupportedMediaType("body: binary tensors are not in this version; send JSON data")
    encoding = request.headers.get("content-encoding", "identity").lower()
    if encoding != "identity":
        return _UnsupportedMediaType(f"content-encoding: got {encoding!r}, allowed is identity")
    kind = request.headers.get("content-type", JSON).partition(";")[0].strip().lower()
    if kind != JSON:
        return _UnsupportedMediaType(f"content-type: got {kind!r}, allowed is {JSON}")
    return None


def _timings(prediction: Prediction, identity: Identity | None) -> dict[str, str]:
    """What the gateway reads of each answer. Milliseconds."""
    return {
        headers.BUCKET: str(prediction.bucket),
        headers.ROWS: str(prediction.rows),
        headers.QUEUE_MS: f"{prediction.queue_s * 1000:.3f}",
        headers.BATCH_MS: f"{prediction.batch_s * 1000:.3f}",
        headers.DEVICE_MS: f"{prediction.device_s * 1000:.3f}",
        headers.COMPILES: str(prediction.compiles),
        headers.IDENTITY: "" if identity is None else identity.digest(),
    }


class _Farewell:
    """On every answer of the port: the request's id comes back, and while draining the connection is closed.

    A client that keeps its connection would otherwise send its next request at the moment it is cut.
    """

    def __init__(self, life: Callable[[], Life]) -> None:
        self._life = life

    async def __call__(self, message: Message, scope: Scope) -> None:
        if message["type"] != "http.response.start":
            return
        answer = MutableScopeHeaders.from_message(message)
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                answer[headers.REQUEST_ID] = value.decode("latin-1")[:MAX_REQUEST_ID]
        if self._life().state is State.DRAINING:
            answer["connection"] = "close"
