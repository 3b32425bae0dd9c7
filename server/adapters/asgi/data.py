"""The data port: both inference protocols, and what about.py answers."""

from collections.abc import Callable
from typing import Final

import numpy as np
from litestar import Litestar, Response, post
from litestar.datastructures import MutableScopeHeaders
from litestar.params import FromPath
from litestar.types import Message, Scope

from server.adapters.asgi import oip, openai
from server.adapters.asgi.about import about_routes
from server.adapters.asgi.answers import Content, answer_error
from server.adapters.asgi.exchange import MAX_REQUEST_ID, AnyRequest
from server.adapters.asgi.view import DataView
from server.core.lifecycle import Life, State
from server.core.types import Internal, TokenRows
from server.core.visit import Visit
from server.runtime.predict import Prediction
from wire import framing, headers
from wire.openai import PATH as EMBEDDINGS

INFER: Final = "/v2/models/{model}/infer"


def data_app(view: DataView) -> Litestar:
    """The application of the data port."""

    @post(EMBEDDINGS, status_code=200)
    async def embeddings(request: AnyRequest) -> Response[bytes]:
        return await view.exchange.run(request, EMBEDDINGS, lambda *given: _embed(view, *given))

    @post("/v2/models/{model:str}/infer", status_code=200)
    async def infer(request: AnyRequest, model: FromPath[str]) -> Response[bytes]:
        return await _inferred(view, request, model, None)

    @post("/v2/models/{model:str}/versions/{version:str}/infer", status_code=200)
    async def infer_version(request: AnyRequest, model: FromPath[str], version: FromPath[str]) -> Response[bytes]:
        return await _inferred(view, request, model, version)

    return Litestar(
        [embeddings, infer, infer_version, *about_routes(view)],
        before_send=[_Farewell(view.life)],
        exception_handlers={Exception: answer_error},
        logging_config=None,
        openapi_config=None,
    )


async def _embed(view: DataView, body: bytes, visit: Visit) -> tuple[Prediction, Content]:
    facts = view.predictor.check_serving()
    question = openai.parse(body)
    view.predictor.check_model(question.model)
    openai.check_task(facts.signature)
    openai.check_dimensions(question.dimensions, facts.dim, may_shorten=view.may_shorten)
    prediction = await _predict(view, question.texts, question.tokens, visit)
    return prediction, openai.render(prediction, question)


async def _inferred(view: DataView, request: AnyRequest, model: str, version: str | None) -> Response[bytes]:
    async def work(body: bytes, visit: Visit) -> tuple[Prediction, Content]:
        view.check_model(model, version)
        facts = view.predictor.check_serving()
        question = oip.parse(body, request.headers.get(framing.HEADER), facts.signature.outputs[0].name)
        if question.timeout_ms is not None:
            visit.within(question.timeout_ms)
        prediction = await _predict(view, question.texts, question.tokens, visit)
        return prediction, oip.render(prediction, view.model, view.model_version(), question)

    return await view.exchange.run(request, INFER, work, binary=True)


async def _predict(view: DataView, texts: list[str] | None, tokens: TokenRows | None, visit: Visit) -> Prediction:
    if tokens is not None:
        prediction = await view.predictor.tokens(tokens, visit)
    else:
        prediction = await view.predictor.texts(texts or [], visit)
    # JSON has no NaN, and a client would take the null in its place for a number.
    if not np.isfinite(np.frombuffer(prediction.data, dtype=np.float32)).all():
        raise Internal("output: the device returned a value that is not finite")
    return prediction


class _Farewell:
    """On every answer of the port: the request's id comes back, and of a server that leaves the connection is closed.

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
        if self._life().leaving or self._life().state is State.FAILED:
            answer["connection"] = "close"
