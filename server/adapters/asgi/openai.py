"""POST /v1/embeddings: bytes to a question, and vectors to bytes."""

from dataclasses import dataclass

import msgspec
import numpy as np
import orjson

from server.adapters.asgi.answers import Content
from server.adapters.asgi.decoding import decode
from server.core.signature import ModelSignature
from server.core.types import BadRequest, TokenRows
from server.runtime.predict import Prediction
from wire.openai import MAX_ITEMS, EmbeddingRequest, encode_base64

_decoder = msgspec.json.Decoder(EmbeddingRequest)


@dataclass(frozen=True, slots=True)
class Question:
    """A checked request; exactly one of ``texts`` and ``tokens`` is set."""

    model: str
    texts: list[str] | None
    tokens: TokenRows | None
    base64: bool
    dimensions: int | None


def parse(body: bytes) -> Question:
    """Raises BadRequest, naming the field."""
    request = decode(_decoder, body)
    texts, tokens = _input(request.input)
    return Question(request.model, texts, tokens, request.encoding_format == "base64", request.dimensions)


def _input(given: object) -> tuple[list[str] | None, TokenRows | None]:
    if isinstance(given, str):
        return [given], None
    assert isinstance(given, list), "the decoder allows a text or a list"
    if not given or len(given) > MAX_ITEMS:
        raise BadRequest(f"input: got {len(given)} items, allowed are 1 to {MAX_ITEMS}", param="input")
    if all(isinstance(item, str) for item in given):
        return given, None
    if all(type(item) is int for item in given):
        return None, TokenRows([given])
    if all(isinstance(item, list) and all(type(token) is int for token in item) for item in given):
        return None, TokenRows(given)
    raise BadRequest(
        "input: got a list of mixed kinds, allowed are a text, texts, token ids, or lists of token ids", param="input"
    )


def render(prediction: Prediction, question: Question) -> Content:
    """The answer. ``check_dimensions`` has passed by then."""
    (output,) = prediction.outputs.values()
    rows = output.array().astype(np.float32, copy=False)
    if question.dimensions is not None:
        rows = shorten(rows, question.dimensions)
    data = [
        {
            "object": "embedding",
            "index": index,
            "embedding": encode_base64(row.tobytes()) if question.base64 else row,
        }
        for index, row in enumerate(rows)
    ]
    usage = {"prompt_tokens": prediction.tokens, "total_tokens": prediction.tokens}
    answer = {"object": "list", "data": data, "model": question.model, "usage": usage}
    return Content(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY))


def check_task(signature: ModelSignature) -> None:
    """Raises BadRequest for a model that gives no embedding of texts. A classifier's scores have the form of one."""
    if not (signature.takes_tokens and signature.rows_of_floats):
        raise BadRequest(
            f"model: takes {', '.join(spec.name for spec in signature.inputs)} and gives "
            f"{', '.join(signature.output_names)}, allowed is the Open Inference path /v2/models/{{model}}/infer",
            param="model",
        )
    if signature.task == "classification":
        raise BadRequest(
            f"model: gives {signature.outputs[0].name} of {len(signature.labels)} labels and no embedding, allowed is "
            "the Open Inference path /v2/models/{model}/infer",
            param="model",
        )


def check_dimensions(wanted: int | None, dim: int, *, may_shorten: bool) -> None:
    """Raises BadRequest; called before the device is bothered. A model that was not trained for it loses its meaning
    when its vectors are cut, and nothing in the answer would show it.
    """
    if wanted is None or wanted == dim:
        return
    if not may_shorten:
        raise BadRequest(
            f"dimensions: got {wanted}, allowed is {dim}: vectors of this model are not cut", param="dimensions"
        )
    if not 1 <= wanted <= dim:
        raise BadRequest(f"dimensions: got {wanted}, allowed are 1 to {dim}", param="dimensions")


def shorten(
    rows: "np.ndarray[tuple[int, int], np.dtype[np.float32]]", dimensions: int
) -> "np.ndarray[tuple[int, int], np.dtype[np.float32]]":
    """The first ``dimensions`` numbers of each row, brought back to length 1."""
    cut = rows[:, :dimensions]
    norms = np.maximum(np.linalg.norm(cut, axis=1, keepdims=True), np.float32(1e-12))
    return np.ascontiguousarray(cut / norms, dtype=np.float32)
