"""The two inference calls: a request as it came, to the answer."""

from typing import Final

import numpy as np

from server.adapters.asgi import oip, openai
from server.adapters.asgi.answers import Answer, Content
from server.adapters.asgi.incoming import Asked
from server.adapters.asgi.view import DataView
from server.core.types import Internal, TokenRows
from server.core.visit import Visit
from server.runtime.predict import Prediction
from wire import framing
from wire.openai import PATH as EMBEDDINGS

INFER: Final = "/v2/models/{model}/infer"


async def embed(view: DataView, asked: Asked) -> Answer:
    async def work(body: bytes, visit: Visit) -> tuple[Prediction, Content]:
        facts = view.predictor.check_serving()
        question = openai.parse(body)
        view.predictor.check_model(question.model)
        openai.check_task(facts.signature)
        openai.check_dimensions(question.dimensions, facts.dim, may_shorten=view.may_shorten)
        prediction = await _predict(view, question.texts, question.tokens, visit)
        return prediction, openai.render(prediction, question)

    return await view.exchange.run(asked, EMBEDDINGS, work)


async def infer(view: DataView, asked: Asked, model: str, version: str | None) -> Answer:
    async def work(body: bytes, visit: Visit) -> tuple[Prediction, Content]:
        view.check_model(model, version)
        facts = view.predictor.check_serving()
        question = oip.parse(body, asked.headers.get(framing.HEADER), facts.signature.outputs[0].name)
        if question.timeout_ms is not None:
            visit.within(question.timeout_ms)
        prediction = await _predict(view, question.texts, question.tokens, visit)
        return prediction, oip.render(prediction, view.model, view.model_version(), question)

    return await view.exchange.run(asked, INFER, work, binary=True)


async def _predict(view: DataView, texts: list[str] | None, tokens: TokenRows | None, visit: Visit) -> Prediction:
    if tokens is not None:
        prediction = await view.predictor.tokens(tokens, visit)
    else:
        prediction = await view.predictor.texts(texts or [], visit)
    # JSON has no NaN, and a client would take the null in its place for a number.
    if not np.isfinite(np.frombuffer(prediction.data, dtype=np.float32)).all():
        raise Internal("output: the device returned a value that is not finite")
    return prediction
