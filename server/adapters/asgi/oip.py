"""POST /v2/models/{model}/infer: bytes to a question, and outputs to bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from server.adapters.asgi import oip_arrays, oip_tensors
from server.adapters.asgi.answers import JSON, Content
from server.adapters.asgi.decoding import decode
from server.adapters.asgi.oip_tensors import FLOATS, INTEGERS, Tensor
from server.core.signature import VARIABLE, ModelSignature, TensorSpec
from server.core.tensors import Raw, Rows
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
    """A checked request; exactly one of ``texts`` and ``rows`` is set. ``id`` is repeated in the answer, ``forms`` are
    those of its outputs, in order.

    ``timeout_ms``: how long its caller waits, from arrival; None is for ever.
    """

    id: str | None
    texts: list[str] | None
    rows: Rows | None
    forms: tuple[Form, ...]
    timeout_ms: float | None = None


def inputs(signature: ModelSignature, *, texts: bool) -> list[TensorMetadata]:
    """What a request may carry; ``texts``: there is a tokenizer."""
    own = [TensorMetadata(spec.name, spec.datatype, [VARIABLE, *spec.shape[1:]]) for spec in signature.inputs]
    return [TensorMetadata("text", "BYTES", [-1]), *own] if signature.takes_tokens and texts else own


def parse(body: bytes, framed: str | None, signature: ModelSignature, dimensions: Sequence[str]) -> Question:
    """``framed``: the header that says how much of the body is JSON; ``dimensions`` are the catalogue's.

    Raises BadRequest, naming the field.
    """
    head, binary = _parts(body, framed)
    request = decode(_decoder, head)
    timeout_ms = _check_parameters(request.parameters)
    forms = _forms(request.parameters, request.outputs or [], signature)
    if signature.takes_tokens:
        texts, rows = _asked(oip_tensors.read(request.inputs, binary))
        return Question(request.id, texts, rows, forms, timeout_ms)
    return Question(request.id, None, oip_arrays.read(request.inputs, binary, signature, dimensions), forms, timeout_ms)


def render(prediction: Prediction, model: str, version: str, question: Question) -> Content:
    """The answer; its numbers are row-major."""
    outputs, raws = [], []
    for form in question.forms:
        output, raw = _rendered(prediction.outputs[form.output], form)
        outputs.append(output)
        raws.append(raw)
    answer: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": outputs}
    if question.id is not None:
        answer["id"] = question.id
    head = orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
    if not any(form.binary for form in question.forms):
        return Content(head, JSON)
    return Content(head + b"".join(raws), framing.OCTETS, {framing.HEADER: str(len(head))})


def _rendered(found: Raw, form: Form) -> tuple[dict[str, Any], bytes]:
    """An output in the JSON, and the bytes that it has behind it."""
    output: dict[str, Any] = {"name": form.output, "shape": found.shape, "datatype": form.datatype}
    values = found.array().ravel()
    if form.datatype != found.datatype:
        values = narrowed(form.datatype, values.astype(np.float32, copy=False))
        if not np.isfinite(values).all():
            raise BadRequest(
                f"output_datatype: a number of {form.output} is beyond {form.datatype}", param="output_datatype"
            )
    if not form.binary:
        return {**output, "data": values}, b""
    raw = found.data if form.datatype == found.datatype else to_raw(form.datatype, values)
    return {**output, "parameters": {framing.SIZE: len(raw)}}, raw


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


def _forms(parameters: Parameters, outputs: list[RequestedOutput], signature: ModelSignature) -> tuple[Form, ...]:
    """Of the outputs that are asked for, or of all."""
    binary = _flag(parameters, "binary_data_output", False)
    wanted = parameters.get("output_datatype")
    if wanted is not None and wanted not in OUTPUT_DATATYPES:
        raise BadRequest(
            f"parameters.output_datatype: got {wanted!r}, allowed are {', '.join(OUTPUT_DATATYPES)}",
            param="output_datatype",
        )
    specs = {spec.name: spec for spec in signature.outputs}
    names = [output.name for output in outputs]
    if not set(names) <= set(specs) or len(set(names)) < len(names):
        raise BadRequest(
            f"outputs: got {names[:4]}, allowed are {', '.join(map(repr, specs))}, each once", param="outputs"
        )
    for output in outputs:
        for unsupported in ("classification", "shared_memory_region"):
            if output.parameters.get(unsupported):
                raise BadRequest(
                    f"outputs.{output.name}.parameters.{unsupported}: is not supported, leave it out", param="outputs"
                )
    asked = outputs or [RequestedOutput(name) for name in specs]
    return tuple(
        Form(each.name, _flag(each.parameters, "binary_data", binary), _datatype(specs[each.name], wanted))
        for each in asked
    )


def _datatype(spec: TensorSpec, wanted: object) -> str:
    """Whole numbers and booleans stay what they are."""
    return spec.datatype if wanted is None or spec.datatype not in FLOATS else str(wanted)


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
