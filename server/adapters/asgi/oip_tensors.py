"""Input tensors of an Open Inference request as flat values, whether they stand in the JSON or behind it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from server.core.types import BadRequest
from wire import framing
from wire.oip import InputTensor
from wire.tensors import LAYOUTS, Array, BadTensor, count_of, from_raw, narrowed

FLOATS: Final = frozenset({"FP16", "BF16", "FP32", "FP64"})
INTEGERS: Final = frozenset(name for name in LAYOUTS if "INT" in name)
# Of a JSON value. A boolean is no number here.
_KINDS: Final[dict[str, frozenset[type]]] = {
    "BOOL": frozenset({bool}),
    "BYTES": frozenset({str}),
    **dict.fromkeys(INTEGERS, frozenset({int})),
    **dict.fromkeys(FLOATS, frozenset({int, float})),
}
_WORDS: Final = {bool: "booleans", str: "texts", int: "integers", float: "numbers"}


@dataclass(frozen=True, slots=True)
class Tensor:
    """``flat``: row-major, as many as ``shape`` says. Texts are str where they came in JSON, bytes behind it."""

    name: str
    datatype: str
    shape: list[int]
    flat: list[Any]


def read(inputs: Sequence[InputTensor], binary: bytes) -> dict[str, Tensor]:
    """By name. ``binary`` is what follows the JSON. Raises BadRequest, naming the tensor."""
    tensors = {each.name: _tensor(each, piece) for each, piece in _pieces(inputs, binary)}
    if len(tensors) != len(inputs):
        raise BadRequest("inputs: a name is given twice", param="inputs")
    return tensors


def arrays(inputs: Sequence[InputTensor], binary: bytes) -> dict[str, Array]:
    """As ``read``, in one array each: BF16 as float32. Numbers of the JSON must be within their datatype."""
    return {each.name: _array(each, piece) for each, piece in _pieces(inputs, binary)}


def _pieces(inputs: Sequence[InputTensor], binary: bytes) -> list[tuple[InputTensor, memoryview | None]]:
    try:
        raw = framing.pieces((each.parameters.get(framing.SIZE) for each in inputs), binary)
    except framing.BadFrame as error:
        raise BadRequest(f"inputs: {error}", param="inputs") from error
    return list(zip(inputs, raw, strict=True))


def _tensor(given: InputTensor, raw: memoryview | None) -> Tensor:
    if raw is not None:
        return Tensor(given.name, given.datatype, given.shape, _decoded(given, raw).ravel().tolist())
    return Tensor(given.name, given.datatype, given.shape, _flat(given))


def _array(given: InputTensor, raw: memoryview | None) -> Array:
    if raw is not None:
        return _decoded(given, raw)
    flat = _flat(given)
    layout = np.dtype(np.float32) if given.datatype == "BF16" else LAYOUTS[given.datatype]
    try:
        with np.errstate(over="ignore"):
            values: Array = np.array(flat, dtype=layout).reshape(given.shape)
    except OverflowError:  # a whole number that no float holds
        raise _beyond(given) from None
    values = narrowed(given.datatype, values) if given.datatype == "BF16" else values
    if given.datatype in FLOATS and not np.isfinite(values).all():
        raise _beyond(given)
    return values


def _beyond(given: InputTensor) -> BadRequest:
    return BadRequest(
        f"inputs.{given.name}.data: got a number beyond {given.datatype}, allowed are what it holds", param=given.name
    )


def _decoded(given: InputTensor, raw: memoryview) -> Array:
    where = _where(given, raw)
    try:
        return from_raw(given.datatype, given.shape, raw)
    except BadTensor as error:
        raise BadRequest(f"{where}: {error}", param=given.name) from error


def _flat(given: InputTensor) -> list[Any]:
    where = _where(given, None)
    try:
        count = count_of(given.datatype, given.shape)
    except BadTensor as error:
        raise BadRequest(f"{where}: {error}", param=given.name) from error
    flat: list[Any] = []
    _flatten(given.data or [], flat, max(1, len(given.shape)), where, given.name)
    if len(flat) != count:
        raise BadRequest(f"{where}.data: got {len(flat)} values for shape {given.shape}", param=given.name)
    _check_kind(given, flat, where)
    return flat


def _where(given: InputTensor, raw: memoryview | None) -> str:
    where = f"inputs.{given.name[:100]}"
    if "shared_memory_region" in given.parameters:
        raise BadRequest(f"{where}: shared memory is not supported, send the data", param=given.name)
    if (given.data is None) == (raw is None):
        got = "neither" if raw is None else "both"
        raise BadRequest(f"{where}: got {got}, allowed is data or the parameter {framing.SIZE}", param=given.name)
    return where


def _flatten(data: list[Any], into: list[Any], depth: int, where: str, name: str) -> None:
    for value in data:
        if isinstance(value, list):
            if depth <= 1:
                raise BadRequest(f"{where}.data: is nested deeper than its shape", param=name)
            _flatten(value, into, depth - 1, where, name)
        else:
            into.append(value)


def _check_kind(given: InputTensor, flat: list[Any], where: str) -> None:
    kinds = _KINDS[given.datatype]
    if not set(map(type, flat)) <= kinds:
        words = _WORDS[float if float in kinds else next(iter(kinds))]
        raise BadRequest(f"{where}.data: got something other than {words} for {given.datatype}", param=given.name)
    if given.datatype in INTEGERS and flat:
        held = np.iinfo(LAYOUTS[given.datatype])
        if min(flat) < held.min or max(flat) > held.max:
            raise BadRequest(
                f"{where}.data: got a value outside of {given.datatype}, allowed are {held.min} to {held.max}",
                param=given.name,
            )
