"""POST /v2/models/{model}/infer: bytes to a question, and vectors to bytes."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from server.adapters.asgi import oip_tensors
from server.adapters.asgi.answers import JSON, Content
from server.adapters.asgi.decoding import decode
from server.adapters.asgi.oip_tensors import FLOATS, INTEGERS, Tensor
from server.core.types import BadRequest, TokenRows
from server.runtime.predict import Prediction
from wire import framing
from wire.oip import InferRequest, Parameters, RequestedOutput, TensorMetadata
from wire.tensors import narrowed, to_raw

_decoder = msgspec.json.Decoder(InferRequest)
OUTPUT_DATATYPES: Final = ("FP32", "FP16", "BF16")
ALLOWED: Final = "text (BYTES [rows]), or input_ids with optional attention_mask (INT64 [rows, tokens])"
# For models with a memory of their callers, which this server has none of.
SEQUENCE: Final = ("sequence_id", "sequence_start", "sequence_end")


@dataclass(frozen=True, slots=True)
class Form:
    """How ``output`` comes back: in the JSON or behind it, and as which numbers."""

    output: str
    binary: bool = False
    datatype: str = "FP32"


@dataclass(frozen=True, slots=True)
class Question:
    """A checked request; exactly one of ``texts`` and ``tokens`` is set. ``id`` is repeated in the answer.

    ``timeout_ms``: how long its caller waits, from arrival; None is for ever.
    """

    id: str | None
    texts: list[str] | None
    tokens: TokenRows | None
    form: Form
    timeout_ms: float | None = None


def inputs() -> list[TensorMetadata]:
    """What a request may carry."""
    return [
        TensorMetadata("text", "BYTES", [-1]),
        TensorMetadata("input_ids", "INT64", [-1, -1]),
        TensorMetadata("attention_mask", "INT64", [-1, -1]),
    ]


def parse(body: bytes, framed: str | None, output: str) -> Question:
    """``framed``: the header that says how much of the body is JSON; ``output``: the one that the model has.

    Raises BadRequest, naming the field.
    """
    head, binary = _parts(body, framed)
    request = decode(_decoder, head)
    timeout_ms = _check_parameters(request.parameters)
    form = _form(request.parameters, request.outputs or [], output)
    texts, tokens = _asked(oip_tensors.read(request.inputs, binary))
    return Question(request.id, texts, tokens, form, timeout_ms)


def render(prediction: Prediction, model: str, version: str, question: Question) -> Content:
    """The answer; its numbers are row-major."""
    form = question.form
    rows = np.frombuffer(prediction.data, dtype=np.float32)
    values = narrowed(form.datatype, rows)
    if not np.isfinite(values).all():
        raise BadRequest(f"output_datatype: a number of the answer is beyond {form.datatype}", param="output_datatype")
    output: dict[str, Any] = {
        "name": form.output,
        "shape": [prediction.rows, prediction.dim],
        "datatype": form.datatype,
    }
    raw = b""
    if form.binary:
        raw = to_raw(form.datatype, values)
        output["parameters"] = {framing.SIZE: len(raw)}
    else:
        output["data"] = values
    answer: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": [output]}
    if question.id is not None:
        answer["id"] = question.id
    head = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    if not form.binary:
        return Content(head, JSON)
    return Content(head + raw, framing.OCTETS, {framing.HEADER: str(len(head))})


def _parts(body: bytes, framed: str | None) -> tuple[bytes, bytes]:
    if framed is None:
        return body, b""
    try:
        head, binary = framing.cut(framed, body)
    except framing.BadFrame as error:
        raise BadRequest(str(error), param=framing.HEADER) from error
    if not head:
        raise BadRequest(
            f"{framing.HEADER}: got 0, which is raw mode; this model takes it not, allowed is a JSON part",
            param=framing.HEADER,
        )
    return head, binary


def _check_parameters(parameters: Parameters) -> float | None:
    """The milliseconds that the caller waits. ``priority`` is read and has no effect; other names are let pass."""
    for name in SEQUENCE:
        if parameters.get(name):
            raise BadRequest(f"parameters.{name}: this model keeps no sequences, leave it out", param=name)
    _whole(parameters, "priority")
    timeout_us = _whole(parameters, "timeout")
    return timeout_us / 1000 if timeout_us else None


def _whole(parameters: Parameters, name: str) -> int:
    """0 where it is absent, which is what 0 means."""
    value = parameters.get(name, 0)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise BadRequest(f"parameters.{name}: got {value!r}, allowed is a whole number from 0", param=name)
    return value


def _form(parameters: Parameters, outputs: list[RequestedOutput], name: str) -> Form:
    binary = _flag(parameters, "binary_data_output", False)
    datatype = parameters.get("output_datatype", "FP32")
    if datatype not in OUTPUT_DATATYPES:
        raise BadRequest(
            f"parameters.output_datatype: got {datatype!r}, allowed are {', '.join(OUTPUT_DATATYPES)}",
            param="output_datatype",
        )
    for output in outputs:
        if output.name != name or len(outputs) > 1:
            names = [each.name for each in outputs[:4]]
            raise BadRequest(f"outputs: got {names}, allowed is {name!r}, once", param="outputs")
        for unsupported in ("classification", "shared_memory_region"):
            if output.parameters.get(unsupported):
                raise BadRequest(
                    f"outputs.{name}.parameters.{unsupported}: is not supported, leave it out", param="outputs"
                )
        binary = _flag(output.parameters, "binary_data", binary)
    return Form(name, binary, str(datatype))


def _flag(parameters: Parameters, name: str, default: bool) -> bool:
    value = parameters.get(name, default)
    if type(value) is not bool:
        raise BadRequest(f"parameters.{name}: got {value!r}, allowed are true and false", param=name)
    return value


def _asked(tensors: dict[str, Tensor]) -> tuple[list[str] | None, TokenRows | None]:
    if set(tensors) == {"text"}:
        return _texts(tensors["text"]), None
    if "input_ids" in tensors and set(tensors) <= {"input_ids", "attention_mask"}:
        ids = _matrix(tensors["input_ids"])
        mask = _matrix(_as_bits(tensors["attention_mask"])) if "attention_mask" in tensors else None
        return None, TokenRows(ids, mask, field="input_ids")
    raise BadRequest(f"inputs: got {sorted(tensors)}, allowed are {ALLOWED}", param="inputs")


def _texts(tensor: Tensor) -> list[str]:
    if tensor.datatype != "BYTES":
        raise BadRequest(f"inputs.text.datatype: got {tensor.datatype!r}, allowed is BYTES", param="text")
    rows = tensor.shape[0] if tensor.shape else 0
    if tensor.shape not in ([rows], [rows, 1]) or rows < 1:
        raise BadRequest(f"inputs.text.shape: got {tensor.shape}, allowed is [rows] or [rows, 1]", param="text")
    try:
        return [value if isinstance(value, str) else value.decode("utf-8") for value in tensor.flat]
    except UnicodeDecodeError:
        raise BadRequest("inputs.text.data: got a text that is not UTF-8", param="text") from None


def _as_bits(tensor: Tensor) -> Tensor:
    """A mask is 0 and 1 in whatever numbers it comes."""
    if tensor.datatype not in FLOATS and tensor.datatype != "BOOL":
        return tensor
    if any(value not in (0, 1) for value in tensor.flat):
        raise BadRequest(f"{tensor.name}: got a value other than 0 and 1", param=tensor.name)
    return Tensor(tensor.name, "UINT8", tensor.shape, [int(value) for value in tensor.flat])


def _matrix(tensor: Tensor) -> list[list[int]]:
    name = tensor.name
    if tensor.datatype not in INTEGERS:
        raise BadRequest(
            f"inputs.{name}.datatype: got {tensor.datatype!r}, allowed are {', '.join(sorted(INTEGERS))}", param=name
        )
    if len(tensor.shape) != 2 or min(tensor.shape) < 1:
        raise BadRequest(f"inputs.{name}.shape: got {tensor.shape}, allowed is [rows, tokens]", param=name)
    width = tensor.shape[1]
    return [tensor.flat[at : at + width] for at in range(0, len(tensor.flat), width)]
