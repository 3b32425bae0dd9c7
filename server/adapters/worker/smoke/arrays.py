"""The inputs of each bucket, what the CPU answers in float32, and how far another answer lies from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

from server.adapters.worker.dtypes import NUMPY
from server.adapters.worker.engine import EngineFailed, Model
from server.adapters.worker.placed import Arrays
from server.core.signature import FLOATS, MASK, VARIABLE, TensorSpec
from server.core.smoke import Difference
from server.core.tolerance import Tolerance
from server.core.types import Bucket

SEED: Final = 20261
_TOKENS: Final = "token ids drawn with seed {}; rows of the whole length and of half of it take turns"
_TENSORS: Final = "floats from the normal distribution and integers from 0 up, drawn with seed {}"


def inputs_in_words(model: Model) -> str:
    return (_TOKENS if model.signature.takes_tokens else _TENSORS).format(SEED)


def inputs_for(model: Model, bucket: Bucket) -> Arrays:
    """A full bucket. Token models: rows of the whole length and of half of it take turns, so that padding shows."""
    draw = np.random.default_rng(SEED)
    kept = [bucket.length if row % 2 == 0 else max(1, bucket.length // 2) for row in range(bucket.batch)]
    arrays: Arrays = {}
    for spec in model.signature.inputs:
        shape = _shape(spec, bucket)
        if model.signature.takes_tokens:
            mask = np.arange(bucket.length)[None, :] < np.array(kept)[:, None]
            values = mask if spec.name == MASK else draw.integers(0, model.vocabulary, shape) * mask
            arrays[spec.name] = np.ascontiguousarray(values, dtype=np.int32)
        elif spec.datatype in FLOATS:
            arrays[spec.name] = draw.standard_normal(shape).astype(NUMPY.get(spec.datatype, np.float32))
        elif spec.datatype in NUMPY:
            arrays[spec.name] = draw.integers(0, model.vocabulary or 2, shape).astype(NUMPY[spec.datatype])
        else:
            raise EngineFailed(f"{spec.name}: the smoke has no values of datatype {spec.datatype}")
    return arrays


def reference_for(model: Model, inputs: Arrays) -> tuple[Arrays, bool]:
    """The CPU's outputs, and whether each row was computed alone and without padding, as an answer should be."""
    if not model.signature.unserved:
        try:
            rows = [_alone(model, inputs, row) for row in range(len(inputs[MASK]))]
        except Exception:  # a graph of a fixed batch takes no single row; the whole batch is the next best
            return call_on_cpu(model, inputs), False
        return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}, True
    return call_on_cpu(model, inputs), False


def call_on_cpu(model: Model, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    with torch.inference_mode():
        found = model.module(*(torch.from_numpy(inputs[spec.name]) for spec in model.signature.inputs))
    tensors = found if isinstance(found, tuple | list) else (found,)
    return {
        spec.name: np.ascontiguousarray((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())
        for spec, tensor in zip(model.signature.outputs, tensors, strict=True)
    }


def write(path: Path, given: Mapping[Bucket, tuple[Arrays, Arrays]]) -> None:
    flat: Arrays = {}
    for bucket, (inputs, outputs) in given.items():
        flat |= {f"{bucket}/in/{name}": array for name, array in inputs.items()}
        flat |= {f"{bucket}/out/{name}": array for name, array in outputs.items()}
    save_file(flat, path)


def read(path: Path, bucket: Bucket) -> tuple[Arrays, Arrays]:
    found = load_file(path)
    sides = []
    for side in ("in", "out"):
        head = f"{bucket}/{side}/"
        sides.append({name.removeprefix(head): array for name, array in found.items() if name.startswith(head)})
    return sides[0], sides[1]


def difference(wanted: Arrays, found: Arrays, tolerance: Tolerance) -> Difference:
    """Over all outputs. Whole numbers must be equal; of floats the rows of the last axis are compared."""
    cosine, length, largest, used, beyond, elements, finite = 1.0, 0.0, 0.0, 0.0, 0, 0, True
    for name, left in wanted.items():
        right = found[name]
        if left.shape != right.shape:
            raise EngineFailed(f"{name}: the CPU gives shape {list(left.shape)}, the device {list(right.shape)}")
        elements += left.size
        if not np.issubdtype(left.dtype, np.floating):
            beyond += int(np.count_nonzero(left != right))
            continue
        wide, other = left.astype(np.float64), right.astype(np.float64)
        if not np.isfinite(other).all():
            finite = False
            continue
        gap = np.abs(wide - other)
        largest = max(largest, float(gap.max(initial=0.0)))
        shares = gap / (tolerance.absolute + tolerance.relative * np.abs(wide))
        used = max(used, float(shares.max(initial=0.0)))
        beyond += int(np.count_nonzero(shares > 1.0))
        norms, others = np.linalg.norm(wide, axis=-1), np.linalg.norm(other, axis=-1)
        both = np.where(norms * others > 0, norms * others, 1.0)
        cosines = np.where(norms * others > 0, (wide * other).sum(axis=-1) / both, np.where(norms == others, 1.0, -1.0))
        cosine = min(cosine, float(cosines.min(initial=1.0)))
        length = max(length, float((np.abs(norms - others) / np.where(norms > 0, norms, 1.0)).max(initial=0.0)))
    return Difference(cosine, length, largest, used, beyond, elements, finite)


def _alone(model: Model, inputs: Arrays, row: int) -> Arrays:
    kept = int(inputs[MASK][row].sum())
    return call_on_cpu(model, {name: array[row : row + 1, :kept].copy() for name, array in inputs.items()})


def _shape(spec: TensorSpec, bucket: Bucket) -> tuple[int, ...]:
    """The batch first; the other free dimensions take the catalogue's sizes in their order, or all its only one."""
    first, *rest = spec.shape
    if first not in (VARIABLE, bucket.batch):
        raise EngineFailed(f"catalogue.batch: got {bucket.batch}, {spec.name} takes {first} rows and nothing else")
    free = rest.count(VARIABLE)
    sizes = iter(bucket.sizes if len(bucket.sizes) > 1 else bucket.sizes * free)
    if len(bucket.sizes) > 1 and free != len(bucket.sizes):
        raise EngineFailed(f"catalogue: {bucket} names {len(bucket.sizes)} sizes, {spec.name} has {free} free ones")
    return (bucket.batch, *(next(sizes) if size == VARIABLE else size for size in rest))
