"""Input tensors of an Open Inference request for a model that takes its own tensors, as the rows of a batch."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from server.adapters.asgi import oip_tensors
from server.adapters.asgi.oip_tensors import FLOATS
from server.core.layout import holds, sizes_of
from server.core.signature import Datatype, ModelSignature, TensorSpec
from server.core.tensors import Raw, TensorRows, travels_as
from server.core.types import BadRequest
from wire.oip import InputTensor
from wire.tensors import LAYOUTS

Array = NDArray[Any]
_BF16_FITS: Final = ("BF16", "FP32", "FP64")


def read(
    inputs: Sequence[InputTensor], binary: bytes, signature: ModelSignature, dimensions: Sequence[str]
) -> TensorRows:
    """Raises BadRequest, naming the tensor, what it has and what is allowed."""
    specs = {spec.name: spec for spec in signature.inputs}
    given = {each.name: each for each in inputs}
    if len(given) != len(inputs) or given.keys() != specs.keys():
        names = [each.name[:100] for each in inputs[:8]]
        raise BadRequest(
            f"inputs: got {names}, allowed are {', '.join(map(str, signature.inputs))}, each once", param="inputs"
        )
    for name, spec in specs.items():
        _check(given[name], spec)
    counts = {name: each.shape[0] for name, each in given.items()}
    if len(set(counts.values())) > 1:
        raise BadRequest(f"inputs: got rows {counts}, allowed is one number of them", param="inputs")
    sizes = _sizes(signature, {name: each.shape for name, each in given.items()})
    arrays = oip_tensors.arrays(inputs, binary)
    tensors = {name: Raw.of(travels_as(spec.datatype), arrays[name]) for name, spec in specs.items()}
    return TensorRows(tensors, tuple(sizes[name] for name in dimensions) or (1,))


def fits(given: str, declared: Datatype) -> bool:
    """Whether ``declared`` holds every number of ``given``."""
    if given == declared:
        return True
    if given == "BF16":
        return declared in _BF16_FITS
    if "BF16" in (given, declared) or "BOOL" in (given, declared) or given not in LAYOUTS:
        return False
    # Floats take no whole numbers: that these are meant as such is more often a mistake.
    return (given in FLOATS) == (declared in FLOATS) and np.can_cast(LAYOUTS[given], LAYOUTS[declared], "safe")


def _check(given: InputTensor, spec: TensorSpec) -> None:
    where = f"inputs.{spec.name}"
    if not fits(given.datatype, spec.datatype):
        allowed = [each for each in (*LAYOUTS,) if fits(each, spec.datatype)]
        raise BadRequest(
            f"{where}.datatype: got {given.datatype[:20]!r}, allowed is {' or '.join(allowed)}", param=spec.name
        )
    if not holds(spec, given.shape) or min(given.shape) < 1:
        raise BadRequest(f"{where}.shape: got {given.shape[:16]}, allowed is {spec.spelt}", param=spec.name)


def _sizes(signature: ModelSignature, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for name, found in sizes_of(signature.inputs, shapes).items():
        if len(found) > 1:
            raise BadRequest(f"inputs: got {sorted(found)} for {name}, allowed is one size of it", param="inputs")
        (sizes[name],) = found
    return sizes
