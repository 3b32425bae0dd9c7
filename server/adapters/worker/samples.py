"""Rows of any signature for acceptance, warm-up and smoke, and what the CPU answers to each of them alone."""

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np

from server.adapters.worker.engine import Model
from server.adapters.worker.placed import Arrays, on_cpu
from server.core.layout import shape_in
from server.core.padding import pad_rows
from server.core.signature import FLOATS, VARIABLE
from server.core.tensors import LAYOUTS, Array, Raw, Rows, TensorRows, Tensors, travels_as
from server.core.types import Bucket, TokenRows

SEED: Final = 20261


def sample(model: Model, sizes: tuple[int, ...], dimensions: Sequence[str], number: int) -> Rows:
    """A request of one row of these sizes; another ``number`` is another row."""
    draw = np.random.default_rng((SEED, number, prod(sizes)))
    if model.signature.takes_tokens:
        return TokenRows([draw.integers(0, model.vocabulary, sizes[0]).tolist()])
    tensors: dict[str, Raw] = {}
    for spec in model.signature.inputs:
        shape = shape_in(spec, Bucket.of((1, *sizes)), dimensions)
        values: Array
        if spec.datatype in FLOATS:
            values = draw.standard_normal(shape)
        else:
            values = draw.integers(0, 2 if spec.datatype == "BOOL" else model.vocabulary or 2, shape)
        travels = travels_as(spec.datatype)
        tensors[spec.name] = Raw.of(travels, values.astype(LAYOUTS[travels]))
    return TensorRows(tensors, sizes)


def half(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """What shows the padding that makes ``sizes`` of it."""
    return tuple(max(1, size // 2) for size in sizes)


def arrays_of(tensors: Tensors) -> Arrays:
    """Copies: what comes over the line is read-only, and a view would have an offset."""
    return {name: raw.array().copy() for name, raw in tensors.items()}


def alone(model: Model, row: Rows) -> Arrays:
    """The CPU's answer to one row without padding, but for the rows of a graph that takes so many and no fewer."""
    first = model.signature.inputs[0].shape[0]
    bucket = Bucket.of((1 if first == VARIABLE else first, *row.sizes))
    found = on_cpu(model, arrays_of(pad_rows([row], bucket)))
    return {name: array[:1] for name, array in found.items()}
