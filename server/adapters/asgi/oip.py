"""POST /v2/models/{model}/infer, JSON form: bytes to a question, and vectors to bytes."""

from dataclasses import dataclass
from math import prod
from typing import Any

import msgspec
import numpy as np
import orjson

from server.adapters.asgi.decoding import decode
from server.core.types import BadRequest, TokenRows
from server.runtime.predict import Prediction
from wire.oip import InferRequest, InputTensor, TensorMetadata

_decoder = msgspec.json.Decoder(InferRequest)
OUTPUT = "embedding"
MAX_TIMEOUT_US = 24 * 3600 * 1_000_000
INTEGERS = frozenset({"INT64", "INT32"})
ALLOWED = "text (BYTES [rows]), or input_ids with optional attention_mask (INT64 [rows, tokens])"


@dataclass(frozen=True, slots=True)
class Question:
    """A checked request; exactly one of ``texts`` and ``tokens`` is set. ``id`` is repeated in the answer.

    ``timeout_s``: how long its caller waits, from arrival; None is for ever.
    """

    id: str | None
    texts: list[str] | None
    tokens: TokenRows | None
    timeout_s: float | None = None


def inputs() -> list[TensorMetadata]:
    """What a request may carry."""
    return [
        TensorMetadata("text", "BYTES", [-1]),
        TensorMetadata("input_ids", "INT64", [-1, -1]),
        TensorMetadata("attention_mask", "INT64", [-1, -1]),
    ]


def parse(body: bytes) -> Question:
    """Raises BadRequest, naming the field."""
    request = decode(_decoder, body)
    for output in request.outputs or []:
        if output.name != OUTPUT:
            raise BadRequest(f"outputs: got {output.name!r}, allowed is {OUTPUT!r}", param="outputs")
    timeout_s = _timeout(request.parameters.get("timeout"))
    tensors = {tensor.name: tensor for tensor in request.inputs}
    if len(tensors) != len(request.inputs):
        raise BadRequest("inputs: a name is given twice", param="inputs")
    if set(tensors) == {"text"}:
        return Question(request.id, _texts(tensors["text"]), None, timeout_s)
    if "input_ids" in tensors and set(tensors) <= {"input_ids", "attention_mask"}:
        ids = _matrix(tensors["input_ids"])
        mask = _matrix(tensors["attention_mask"]) if "attention_mask" in tensors else None
        return Question(request.id, None, TokenRows(ids, mask, field="input_ids"), timeout_s)
    raise BadRequest(f"inputs: got {sorted(tensors)}, allowed are {ALLOWED}", param="inputs")


def _timeout(microseconds: object) -> float | None:
    """Of the parameter that Triton's clients send; 0 is none, as there."""
    if microseconds is None:
        return None
    if type(microseconds) is not int or not 0 <= microseconds <= MAX_TIMEOUT_US:
        raise BadRequest(
            f"parameters.timeout: got {microseconds!r}, allowed are microseconds, 0 (none) to {MAX_TIMEOUT_US}",
            param="timeout",
        )
    return microseconds / 1e6 if microseconds else None


def render(prediction: Prediction, model: str, request_id: str | None) -> bytes:
    """The response body; ``data`` is flat, row by row."""
    answer: dict[str, Any] = {
        "model_name": model,
        "outputs": [
            {
                "name": OUTPUT,
                "shape": [prediction.rows, prediction.dim],
                "datatype": "FP32",
                "data": np.frombuffer(prediction.data, dtype=np.float32),
            }
        ],
    }
    if request_id is not None:
        answer["id"] = request_id
    return orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)


def _texts(tensor: InputTensor) -> list[str]:
    if tensor.datatype != "BYTES":
        raise BadRequest(f"inputs.text.datatype: got {tensor.datatype!r}, allowed is BYTES", param="text")
    rows = tensor.shape[0] if tensor.shape else 0
    if tensor.shape not in ([rows], [rows, 1]) or rows < 1:
        raise BadRequest(f"inputs.text.shape: got {tensor.shape}, allowed is [rows] or [rows, 1]", param="text")
    flat = _flat(tensor)
    if not all(isinstance(value, str) for value in flat):
        raise BadRequest("inputs.text.data: got something other than texts", param="text")
    return flat


def _matrix(tensor: InputTensor) -> list[list[int]]:
    name = tensor.name
    if tensor.datatype not in INTEGERS:
        raise BadRequest(f"inputs.{name}.datatype: got {tensor.datatype!r}, allowed are INT64 and INT32", param=name)
    if len(tensor.shape) != 2 or min(tensor.shape) < 1:
        raise BadRequest(f"inputs.{name}.shape: got {tensor.shape}, allowed is [rows, tokens]", param=name)
    flat = _flat(tensor)
    if not all(type(value) is int for value in flat):
        raise BadRequest(f"inputs.{name}.data: got something other than integers", param=name)
    width = tensor.shape[1]
    return [flat[at : at + width] for at in range(0, len(flat), width)]


def _flat(tensor: InputTensor) -> list[Any]:
    """Row-major values of flat or nested data, as many as the shape says."""
    flat: list[Any] = []
    _flatten(tensor.data, flat, depth=len(tensor.shape))
    if len(flat) != prod(tensor.shape):
        raise BadRequest(
            f"inputs.{tensor.name}.data: got {len(flat)} values for shape {tensor.shape}", param=tensor.name
        )
    return flat


def _flatten(data: list[Any], into: list[Any], depth: int) -> None:
    for value in data:
        if isinstance(value, list):
            if depth <= 1:
                raise BadRequest("inputs: data is nested deeper than its shape", param="inputs")
            _flatten(value, into, depth - 1)
        else:
            into.append(value)
