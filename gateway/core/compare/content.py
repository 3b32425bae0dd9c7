"""What an answer holds once it is decoded: JSON values, and tensors with a declared type and shape.

An answer is a tree of dict, list, str, int, float, bool, None and bytes, with ``Tensor`` leaves where a protocol
declares them and ``Unreadable`` leaves where what it sent is not what it declared. Foreign data never raises here.

Datatypes are those of the Open Inference Protocol v2 (kserve/open-inference-protocol, inference_rest.md), BF16 of its
gRPC form, and ``number`` for lists of JSON numbers, which declare none.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from gateway.core.compare.result import PairKind

Array = NDArray[Any]

MAX_AXES: Final = 16
EXACT: Final = 1 << 53
"""Integers up to here are exact in a float64 (IEEE 754); beyond, they are compared as integers."""
_MAX_BITS: Final = 1000

FLOATS: Final = frozenset({"FP16", "BF16", "FP32", "FP64"})
NUMBER: Final = "number"
_INTEGERS: Final = {f"{sign}INT{bits}": (bits, sign == "") for bits in (8, 16, 32, 64) for sign in ("", "U")}
INTEGERS: Final = frozenset(_INTEGERS)
DATATYPES: Final = FLOATS | INTEGERS | {"BOOL", "BYTES", NUMBER}


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """``values`` has the shape ``shape``: float64, bool, integers, or objects (integers beyond 64 bits, bytes)."""

    datatype: str
    values: Array

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def is_number(self) -> bool:
        """Its elements can be subtracted: neither booleans nor text."""
        return self.datatype in FLOATS or self.datatype in INTEGERS or self.datatype == NUMBER


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What an arm sent here is not what its answer declares. ``text`` says why, without any of it."""

    kind: PairKind
    text: str


def tensor(datatype: str, shape: Sequence[int], data: object) -> Tensor | Unreadable:
    """A tensor of a JSON answer: ``data`` flat or nested, row-major, as many elements as ``shape`` says."""
    if (problem := _declaration_problem(datatype, shape)) is not None:
        return problem
    if not isinstance(data, list):
        return Unreadable(PairKind.UNDECODABLE, "data is no list")
    flat: list[Any] | None = data
    for _ in range(MAX_AXES):
        if flat is None or list not in set(map(type, flat)):
            break
        flat = list(chain.from_iterable(flat)) if all(isinstance(part, list) for part in flat) else None
    if flat is None or list in set(map(type, flat)):
        return Unreadable(PairKind.SHAPE, f"data is neither flat nor nested evenly, at most {MAX_AXES} levels")
    if len(flat) != math.prod(shape):
        return Unreadable(PairKind.SHAPE, f"{len(flat)} elements, shape {list(shape)} has {math.prod(shape)}")
    values = _elements(datatype, flat)
    return values if isinstance(values, Unreadable) else Tensor(datatype, values.reshape(shape))


def numbers_of(value: object) -> Tensor | Unreadable:
    """A tensor out of what JSON holds: a number, or a list of numbers, booleans or texts, nested evenly."""
    if isinstance(value, Tensor | Unreadable):
        return value
    if not isinstance(value, list):
        found = _elements(_json_type([value]), [value])
        return found if isinstance(found, Unreadable) else Tensor(_json_type([value]), found.reshape(()))
    shape, flat = [len(value)], value
    while flat and isinstance(flat[0], list):
        widths = {len(part) if isinstance(part, list) else -1 for part in flat}
        if len(widths) > 1 or len(shape) == MAX_AXES:
            return Unreadable(PairKind.SHAPE, f"lists of different lengths, or more than {MAX_AXES} levels of them")
        shape.append(widths.pop())
        flat = list(chain.from_iterable(flat))
    datatype = _json_type(flat)
    found = _elements(datatype, flat)
    return found if isinstance(found, Unreadable) else Tensor(datatype, found.reshape(shape))


def type_name(value: object) -> str:
    """The type of a place in words. JSON knows one type of number; a boolean is none."""
    match value:
        case Tensor():
            return value.datatype
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str():
            return "text"
        case bytes():
            return "bytes"
        case list():
            return "list"
        case dict():
            return "object"
        case _:
            return "nothing that JSON knows"


def _declaration_problem(datatype: object, shape: object) -> Unreadable | None:
    if not isinstance(datatype, str) or datatype not in DATATYPES or datatype == NUMBER:
        return Unreadable(PairKind.DTYPE, "the declared datatype is none of the Open Inference Protocol's")
    fine = isinstance(shape, list | tuple) and len(shape) <= MAX_AXES and all(type(n) is int and n >= 0 for n in shape)
    if not fine:
        return Unreadable(PairKind.SHAPE, f"the declared shape is no list of at most {MAX_AXES} whole numbers from 0")
    return None


def _json_type(flat: list[Any]) -> str:
    types = set(map(type, flat))
    if types == {bool}:
        return "BOOL"
    return "BYTES" if types and types <= {str, bytes} else NUMBER


def _elements(datatype: str, flat: list[Any]) -> Array | Unreadable:
    """The elements as an array of one axis. Booleans are no numbers, and numbers no booleans."""
    types = set(map(type, flat))
    if datatype == "BOOL":
        return np.array(flat, dtype=np.bool_) if types <= {bool} else _mixed(datatype)
    if datatype == "BYTES":
        # Text in JSON and bytes in the binary form are the same element.
        as_bytes = [x.encode("utf-8", "surrogatepass") if isinstance(x, str) else x for x in flat]
        return _objects(as_bytes) if types <= {str, bytes} else _mixed(datatype)
    if datatype in INTEGERS or (datatype == NUMBER and types == {int}):
        return _integers(datatype, flat) if types <= {int} else _mixed(datatype)
    # JSON has no NaN (RFC 8259, section 6); encoders such as orjson and msgspec write null for it and for infinities.
    if not types <= {int, float, type(None)}:
        return _mixed(datatype)
    try:
        values = np.array([math.nan if x is None else x for x in flat] if None in flat else flat, dtype=np.float64)
    except OverflowError:
        return Unreadable(PairKind.INFINITY, f"an element is beyond {datatype}")
    # Both arms' numbers take the precision that they declare, whatever digits they were written with.
    narrow = {"FP32": np.float32, "BF16": np.float32, "FP16": np.float16}.get(datatype)
    with np.errstate(over="ignore"):
        return values if narrow is None else values.astype(narrow).astype(np.float64)


def _integers(datatype: str, flat: list[int]) -> Array | Unreadable:
    low, high = (min(flat), max(flat)) if flat else (0, 0)
    bits, signed = _INTEGERS.get(datatype, (_MAX_BITS, True))
    floor, ceiling = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if low < floor or high > ceiling:
        return Unreadable(PairKind.UNDECODABLE, f"an element is outside of what {datatype} holds")
    return np.array(flat, dtype=np.int64) if low >= -(1 << 63) and high < 1 << 63 else _objects(flat)


def _objects(flat: Sequence[object]) -> Array:
    values = np.empty(len(flat), dtype=object)
    values[:] = flat
    return values


def _mixed(datatype: str) -> Unreadable:
    wanted = "a number" if datatype == NUMBER else f"one of {datatype}"
    return Unreadable(PairKind.DTYPE, f"an element is not {wanted}")
