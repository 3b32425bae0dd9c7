"""The inputs of each bucket, what the CPU answers in float32, and how far another answer lies from it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from safetensors.numpy import load_file, save_file

from server.adapters.worker.engine import EngineFailed, Model
from server.adapters.worker.placed import Arrays, on_cpu
from server.adapters.worker.samples import SEED, alone, arrays_of, half, sample
from server.core.padding import pad_rows
from server.core.smoke import Difference
from server.core.tensors import Rows
from server.core.tolerance import Tolerance
from server.core.types import Bucket

_TOKENS: Final = "token ids drawn with seed {}; rows of the whole length and of half of it take turns"
_TENSORS: Final = "floats from the normal distribution and integers from 0 up, drawn with seed {}"


def inputs_in_words(model: Model) -> str:
    return (_TOKENS if model.signature.takes_tokens else _TENSORS).format(SEED)


def rows_for(model: Model, bucket: Bucket, dimensions: Sequence[str]) -> list[Rows]:
    """Of a full bucket, all different. Tokens: every second row has half the length, so that padding shows."""
    halved = half(bucket.sizes) if model.signature.takes_tokens else bucket.sizes
    return [sample(model, bucket.sizes if row % 2 == 0 else halved, dimensions, row) for row in range(bucket.batch)]


def reference_for(model: Model, rows: list[Rows], bucket: Bucket) -> tuple[Arrays, bool]:
    """The CPU's outputs, and whether each row was computed alone and without padding, as an answer should be."""
    try:
        each = [alone(model, row) for row in rows]
        return {name: np.concatenate([one[name] for one in each]) for name in each[0]}, True
    except Exception:  # a graph may take no such sizes, or give others for them; the whole batch is the next best
        return on_cpu(model, arrays_of(pad_rows(rows, bucket))), False


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
