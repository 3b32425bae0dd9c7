"""The two inference calls: a request as it came, to the answer."""

from typing import Final, NoReturn

import numpy as np

from server.adapters.asgi import oip, openai
from server.adapters.asgi.answers import Answer, Content
from server.adapters.asgi.incoming import Asked
from server.adapters.asgi.view import DataView
from server.core.tensors import Rows, TensorRows
from server.core.types import BadRequest, Internal, TokenRows
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
        question = oip.parse(body, asked.headers.get(framing.HEADER), facts.signature, view.predictor.dimensions)
        if question.timeout_ms is not None:
            visit.within(question.timeout_ms)
        prediction = await _predict(view, question.texts, question.rows, visit)
        return prediction, oip.render(prediction, view.model, view.model_version(), question)

    return await view.exchange.run(asked, INFER, work, binary=True)


async def _predict(view: DataView, texts: list[str] | None, rows: Rows | None, visit: Visit) -> Prediction:
    if isinstance(rows, TokenRows):
        prediction = await view.predictor.tokens(rows, visit)
    elif isinstance(rows, TensorRows):
        prediction = await view.predictor.tensors(rows, visit)
    else:
        prediction = await view.predictor.texts(texts or [], visit)
    # JSON has no NaN, and a client would take the null in its place for a number.
    for name, raw in prediction.outputs.items():
        if not np.isfinite(raw.array()).all():
            _blame(rows, name)
    return prediction


def _blame(rows: Rows | None, output: str) -> NoReturn:
    """Numbers that are not finite are an answer to such numbers, else an error of ours."""
    for name, raw in rows.tensors.items() if isinstance(rows, TensorRows) else ():
        if not np.isfinite(raw.array()).all():
            raise BadRequest(f"inputs.{name}: got NaN or infinity, and so is {output}; allowed are numbers", param=name)
    raise Internal(f"{output}: the device returned a value that is not finite")
