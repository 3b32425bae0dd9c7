"""Elements of the Open Inference Protocol's tensors as raw bytes, and back: the binary tensor extension.

Little-endian, row-major, no gaps. BF16 is the upper half of a float32; BOOL is a byte; each element of BYTES stands
behind its length, 4 bytes. Datatypes are those of inference_rest.md, and BF16 of the gRPC form.
"""

import math
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MAX_AXES: Final = 16
LAYOUTS: Final[dict[str, "np.dtype[Any]"]] = {
    name: np.dtype(layout)
    for name, layout in {
        "BOOL": "<u1", "UINT8": "<u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "<i1",
        "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "BF16": "<u2", "FP32": "<f4", "FP64": "<f8",
    }.items()
}  # fmt: skip
"""How an element of a fixed size lies in the bytes."""
DATATYPES: Final = frozenset({*LAYOUTS, "BYTES"})
_LENGTH: Final = 4
_MOST_ELEMENTS: Final = 1 << 56


class Wrong(StrEnum):
    """What of a tensor is wrong."""

    DATATYPE = "datatype"
    SHAPE = "shape"
    SIZE = "size"
    ELEMENT = "element"


class BadTensor(ValueError):
    """Declaration and bytes do not fit. The sentence holds nothing of the bytes."""

    def __init__(self, wrong: Wrong, message: str) -> None:
        super().__init__(message)
        self.wrong = wrong


def count_of(datatype: object, shape: object) -> int:
    """Elements of a tensor that is declared so. Raises BadTensor."""
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        shown = datatype[:20] if isinstance(datatype, str) else datatype
        raise BadTensor(Wrong.DATATYPE, f"datatype: got {shown!r}, allowed are {', '.join(sorted(DATATYPES))}")
    if isinstance(shape, list | tuple) and len(shape) <= MAX_AXES and all(type(n) is int and n >= 0 for n in shape):
        # An empty tensor may have another axis of any length, but no array of that shape can be made.
        if math.prod(n or 1 for n in shape) <= _MOST_ELEMENTS:
            return int(math.prod(shape))
        raise BadTensor(Wrong.SHAPE, "shape: has more elements than any body holds")
    raise BadTensor(Wrong.SHAPE, f"shape: allowed is a list of at most {MAX_AXES} whole numbers from 0")


def from_raw(datatype: str, shape: Sequence[int], raw: bytes | memoryview) -> Array:
    """The elements in ``shape``: BOOL as bool, BF16 as float32, BYTES as objects. No copy where the layout is numpy's.

    Raises BadTensor. Takes memory in proportion to ``raw``, whatever ``shape`` says.
    """
    count = count_of(datatype, shape)
    if datatype == "BYTES":
        return _byte_elements(count, bytes(raw)).reshape(shape)
    layout = LAYOUTS[datatype]
    if len(raw) != count * layout.itemsize:
        raise BadTensor(
            Wrong.SIZE, f"got {len(raw)} bytes, {datatype} of shape {list(shape)} has {count * layout.itemsize}"
        )
    values: Array = np.frombuffer(raw, layout)
    if datatype == "BOOL":
        values = values != 0
    elif datatype == "BF16":
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return values.reshape(shape)


def to_raw(datatype: str, values: Array) -> bytes:
    """The bytes of ``values``, numbers rounded to the nearest that ``datatype`` holds (ties to even)."""
    if datatype == "BYTES":
        return b"".join(len(each).to_bytes(_LENGTH, "little") + each for each in values.ravel())
    if datatype == "BF16":
        return _upper_halves(values).tobytes()
    with np.errstate(over="ignore"):
        return values.astype(LAYOUTS[datatype], copy=False).tobytes()


def narrowed(datatype: str, values: Array) -> Array:
    """Float32 ``values`` as they are after a trip as ``datatype`` (FP16, BF16, FP32), in float32."""
    if datatype == "FP32":
        return values
    return from_raw(datatype, values.shape, to_raw(datatype, values)).astype(np.float32, copy=False)


def _upper_halves(values: Array) -> NDArray[np.uint16]:
    single = np.ascontiguousarray(values, dtype=np.float32)
    bits = single.view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    # Rounding would carry a NaN with a full mantissa over into something else.
    return np.where(np.isnan(single), np.uint32(0x7FC0), rounded).astype("<u2")


def _byte_elements(count: int, raw: bytes) -> NDArray[np.object_]:
    parts: list[bytes] = []
    at = 0
    while at < len(raw):
        end = at + _LENGTH + int.from_bytes(raw[at : at + _LENGTH], "little")
        if at + _LENGTH > len(raw) or end > len(raw):
            raise BadTensor(Wrong.ELEMENT, "an element of BYTES runs past the end of its tensor")
        parts.append(raw[at + _LENGTH : end])
        at = end
    if len(parts) != count:
        raise BadTensor(Wrong.SIZE, f"got {len(parts)} elements of BYTES, the shape has {count}")
    values = np.empty(count, dtype=object)
    values[:] = parts
    return values
