"""How the tensors of a signature lie in the shapes of a catalogue, and whether the two fit together."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Final

from server.core.signature import BYTES_EACH, VARIABLE, ModelSignature, TensorSpec
from server.core.tensors import travels_as
from server.core.types import Bucket

# A batch must fit into a frame between front and worker (64 MiB), with what describes it.
MAX_BATCH_BYTES: Final = 60 * 1024 * 1024


def shape_in(spec: TensorSpec, bucket: Bucket, dimensions: Sequence[str]) -> tuple[int, ...]:
    """Of a tensor, all of whose dimensions are known, in a batch. ``dimensions`` are the catalogue's, in its order."""
    sizes = dict(zip(dimensions, bucket.sizes, strict=False))
    named = iter(spec.named)
    return (bucket.batch, *(sizes[next(named)] if size == VARIABLE else size for size in spec.shape[1:]))


def holds(spec: TensorSpec, shape: Sequence[int]) -> bool:
    """Whether rows of this shape are rows of ``spec``, however many."""
    return len(shape) == len(spec.shape) and all(
        want in (VARIABLE, got) for want, got in zip(spec.shape[1:], shape[1:], strict=True)
    )


def sizes_of(specs: Sequence[TensorSpec], shapes: Mapping[str, Sequence[int]]) -> dict[str, set[int]]:
    """The sizes that tensors of these shapes have in each named dimension; more than one contradict each other."""
    found: dict[str, set[int]] = {}
    for spec in specs:
        free = [got for want, got in zip(spec.shape[1:], shapes[spec.name][1:], strict=True) if want == VARIABLE]
        for name, size in zip(spec.named, free, strict=True):
            found.setdefault(name, set()).add(size)
    return found


def problems(signature: ModelSignature, dimensions: Sequence[str], buckets: Sequence[Bucket]) -> list[str]:
    """Why batches of this catalogue cannot carry the model; every reason at once."""
    found = [*_spec_problems(signature, dimensions, buckets), *_padding_problems(signature)]
    used = {name for spec in signature.inputs for name in spec.named}
    found += [
        f"catalogue.{name}: no input of the model has this dimension, allowed are {_listed(used)}"
        for name in dimensions
        if name not in used
    ]
    if found:
        return found
    return [*_size_problems(signature, dimensions, buckets)]


def _spec_problems(signature: ModelSignature, dimensions: Sequence[str], buckets: Sequence[Bucket]) -> Iterator[str]:
    for side, specs in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        for spec in specs:
            where = f"model: {side}.{spec.name}"
            if spec.datatype == "BYTES":
                yield f"{where}.datatype: got BYTES, allowed are numbers"
            batches = {bucket.batch for bucket in buckets}
            if spec.shape[0] != VARIABLE and batches != {spec.shape[0]}:
                yield (
                    f"{where}.shape: got {spec.spelt}, allowed for the first dimension, which is the batch, is -1, or "
                    f"the one size of catalogue.batch, which has {sorted(batches)}"
                )
            if signature.takes_tokens and side == "outputs" and spec.variable:
                yield f"{where}.shape: got {spec.spelt}, allowed for a model of tokens are rows of one fixed size"
            if side == "inputs" and spec.variable and not spec.named:
                yield (
                    f"{where}.shape: got {spec.spelt}, allowed after the batch are sizes and dimensions of the "
                    f"catalogue: {_listed(dimensions)}"
                )
            for name in spec.named:
                if name not in dimensions:
                    yield f"{where}.shape: got {name!r}, the catalogue has {_listed(dimensions)}"


def _padding_problems(signature: ModelSignature) -> Iterator[str]:
    """What grew with its inputs must be cut again, so its dimensions need names."""
    if signature.padding == "none":
        return
    for spec in signature.outputs:
        if spec.variable and not spec.named:
            yield (
                f"model: outputs.{spec.name}.shape: got {spec.spelt}, allowed with padding are sizes and dimensions "
                "of the catalogue: what was padded is cut"
            )


def _size_problems(signature: ModelSignature, dimensions: Sequence[str], buckets: Sequence[Bucket]) -> Iterator[str]:
    for bucket in buckets:
        size = sum(
            BYTES_EACH[travels_as(spec.datatype)] * prod(shape_in(spec, bucket, dimensions))
            for spec in signature.inputs
        )
        if size > MAX_BATCH_BYTES:
            yield f"catalogue: got {bucket}, whose inputs are {size} bytes, allowed are {MAX_BATCH_BYTES}"


def _listed(names: Sequence[str] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none but batch"
