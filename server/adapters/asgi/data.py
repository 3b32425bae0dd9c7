"""The data port: both inference protocols, metadata and OIP health."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from litestar import Litestar, Response, get, post
from litestar.datastructures import MutableScopeHeaders
from litestar.params import FromPath
from litestar.types import Message, Scope

from server.adapters.asgi import oip, openai
from server.adapters.asgi.answers import answer_error, json_response
from server.adapters.asgi.exchange import MAX_REQUEST_ID, AnyRequest, Exchange
from server.core.lifecycle import Life, State
from server.core.types import EngineFacts, Internal, ModelNotFound, NotReady, TokenRows
from server.core.visit import Visit
from server.runtime.predict import Prediction, Predictor
from wire import headers
from wire.health import Identity
from wire.oip import ModelMetadata, ServerMetadata, TensorMetadata
from wire.openai import PATH as EMBEDDINGS

INFER: Final = "/v2/models/{model}/infer"


@dataclass(frozen=True, slots=True)
class DataView:
    """What the data port works with."""

    model: str
    version: str
    life: Callable[[], Life]
    facts: Callable[[], EngineFacts | None]
    identity: Callable[[], Identity | None]
    predictor: Predictor
    exchange: Exchange


def data_app(view: DataView) -> Litestar:
    """The application of the data port."""
    exchange = view.exchange

    @post(EMBEDDINGS, status_code=200)
    async def embeddings(request: AnyRequest) -> Response[bytes]:
        return await exchange.run(request, EMBEDDINGS, lambda *given: _embed(view, *given))

    @post("/v2/models/{model:str}/infer", status_code=200)
    async def infer(request: AnyRequest, model: FromPath[str]) -> Response[bytes]:
        return await exchange.run(request, INFER, lambda *given: _infer(view, model, *given))

    @get("/v2")
    async def server_metadata() -> Response[bytes]:
        return json_response(msgspec.json.encode(ServerMetadata("tpu-canary", view.version, [])))

    @get("/v2/models/{model:str}")
    async def model_metadata(model: FromPath[str]) -> Response[bytes]:
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
    async def model_ready(model: FromPath[str]) -> Response[bytes]:
        _check_model(view, model)
        _check_ready(view)
        return json_response(msgspec.json.encode({"name": model, "ready": True}))

    return Litestar(
        [embeddings, infer, server_metadata, model_metadata, live, ready, model_ready],
        before_send=[_Farewell(view.life)],
        exception_handlers={Exception: answer_error},
        logging_config=None,
        openapi_config=None,
    )


async def _embed(view: DataView, body: bytes, visit: Visit) -> tuple[Prediction, bytes]:
    facts = view.predictor.check_serving()
    question = openai.parse(body)
    view.predictor.check_model(question.model)
    openai.check_dimensions(question.dimensions, facts.dim)
    prediction = await _predict(view, question.texts, question.tokens, visit)
    return prediction, openai.render(prediction, question)


async def _infer(view: DataView, model: str, body: bytes, visit: Visit) -> tuple[Prediction, bytes]:
    _check_model(view, model)
    view.predictor.check_serving()
    question = oip.parse(body)
    if question.timeout_s is not None:
        visit.shorten(visit.arrived + question.timeout_s)
    prediction = await _predict(view, question.texts, question.tokens, visit)
    return prediction, oip.render(prediction, view.model, question.id)


async def _predict(view: DataView, texts: list[str] | None, tokens: TokenRows | None, visit: Visit) -> Prediction:
    if tokens is not None:
        prediction = await view.predictor.tokens(tokens, visit)
    else:
        prediction = await view.predictor.texts(texts or [], visit)
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
        outputs=[TensorMetadata(each.name, each.datatype, list(each.shape)) for each in facts.signature.outputs],
        parameters={**msgspec.structs.asdict(identity), "identity_digest": identity.digest()},
    )


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
