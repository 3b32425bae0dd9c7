"""Named tensors on their way between front and worker, and a request that is made of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from server.core.signature import BYTES_EACH, Datatype
from server.core.types import TokenRows

Array = NDArray[Any]
_LAYOUTS: Final[Mapping[Datatype, str]] = {
    "BOOL": "?", "INT8": "<i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "UINT8": "<u1", "UINT16": "<u2",
    "UINT32": "<u4", "UINT64": "<u8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
LAYOUTS: Final[Mapping[Datatype, "np.dtype[Any]"]] = {name: np.dtype(layout) for name, layout in _LAYOUTS.items()}
"""What travels. BF16 does as FP32, which holds each of its numbers: numpy has no such type."""


def travels_as(datatype: Datatype) -> Datatype:
    """The datatype in which elements of ``datatype`` go over the line."""
    return "FP32" if datatype == "BF16" else datatype


@dataclass(frozen=True, slots=True)
class Raw:
    """Elements as bytes, little-endian and row-major. The first dimension counts rows."""

    datatype: Datatype
    shape: tuple[int, ...]
    data: bytes

    def __post_init__(self) -> None:
        size = prod(self.shape) * BYTES_EACH[self.datatype]
        if not self.shape or self.shape[0] < 1 or len(self.data) != size:
            raise ValueError(f"tensor: got {len(self.data)} bytes for {self.datatype} of shape {list(self.shape)}")

    @classmethod
    def of(cls, datatype: Datatype, array: Array) -> "Raw":
        """From numbers; ``datatype`` is one that travels."""
        return cls(datatype, tuple(array.shape), array.astype(LAYOUTS[datatype], copy=False).tobytes())

    @property
    def row_bytes(self) -> int:
        return len(self.data) // self.shape[0]

    def array(self) -> Array:
        """Read-only, in place."""
        return np.frombuffer(self.data, LAYOUTS[self.datatype]).reshape(self.shape)

    def divided(self, counts: Sequence[int]) -> Iterator["Raw"]:
        """So many rows each, from the first one on."""
        datatype, data, each, rest = self.datatype, self.data, self.row_bytes, self.shape[1:]
        start = 0
        for count in counts:
            end = start + count * each
            yield Raw(datatype, (count, *rest), data[start:end])
            start = end

    def rows(self, start: int, end: int) -> "Raw":
        each = self.row_bytes
        return Raw(self.datatype, (end - start, *self.shape[1:]), self.data[start * each : end * each])


Tensors = Mapping[str, Raw]


@dataclass(frozen=True, slots=True)
class TensorRows:
    """One request: every input of the signature, all with as many rows.

    ``sizes`` are those of the catalogue's dimensions, in its order.
    """

    tensors: Tensors
    sizes: tuple[int, ...]

    @property
    def count(self) -> int:
        return next(iter(self.tensors.values())).shape[0]

    @property
    def tokens(self) -> int:
        """There are none to count."""
        return 0

    @property
    def cells(self) -> int:
        """Positions before padding."""
        return prod(self.sizes, start=self.count)

    def rows(self, start: int, end: int) -> "TensorRows":
        return TensorRows({name: raw.rows(start, end) for name, raw in self.tensors.items()}, self.sizes)


Rows = TokenRows | TensorRows


def joined(pieces: Sequence[Raw]) -> Raw:
    """Their rows one after the other; all are of one datatype, and of one shape but for the rows."""
    first = pieces[0]
    count = sum(piece.shape[0] for piece in pieces)
    return Raw(first.datatype, (count, *first.shape[1:]), b"".join(piece.data for piece in pieces))
