"""What exports and factories share: a module that is held to what ``canary-model.json`` declares."""

from typing import Any

import torch
from torch import nn

from server.adapters.worker.dtypes import TORCH
from server.adapters.worker.engine import EngineFailed
from server.core.signature import FLOATS, Datatype, ModelSignature


class Held(nn.Module):  # type: ignore[misc]  # mypy does not follow torch, so its classes are Any
    """Inputs by position, whole numbers widened to what the model was made for; outputs as a tuple, no dict.

    Weights in another dtype take floating inputs in theirs; outputs are what was declared.
    """

    def __init__(self, inner: nn.Module, signature: ModelSignature, computes: torch.dtype | None = None) -> None:
        super().__init__()
        self.inner = inner
        self._takes = tuple(_dtype(spec.datatype) for spec in signature.inputs)
        self._gives = tuple(_dtype(spec.datatype) for spec in signature.outputs)
        self._names = tuple(spec.name for spec in signature.outputs)
        self._computes = computes

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        cast = [
            tensor.to(self._computes if self._computes is not None and dtype.is_floating_point else dtype)
            for tensor, dtype in zip(given, self._takes, strict=True)
        ]
        found = self.inner(*cast)
        if isinstance(found, dict):
            found = tuple(found[name] for name in self._names)
        elif isinstance(found, torch.Tensor):
            found = (found,)
        return tuple(tensor.to(dtype) for tensor, dtype in zip(found, self._gives, strict=True))


def _dtype(datatype: Datatype) -> torch.dtype:
    found = {name: dtype for dtype, name in TORCH.items()}.get(datatype)
    if found is None:
        raise EngineFailed(f"canary-model.json: datatype {datatype} is none that the engine computes with")
    return found


def row_size(signature: ModelSignature) -> int:
    """``dim`` of a Model: the numbers of a row, or 0 where the output is no such row."""
    return signature.outputs[0].row if signature.rows_of_floats else 0


def check_floats(signature: ModelSignature) -> None:
    """Raises EngineFailed where an output could not be compared at all."""
    for spec in signature.outputs:
        if spec.datatype == "BYTES":
            raise EngineFailed(f"canary-model.json: {spec.name} is BYTES, allowed are numbers")


def kinds_agree(declared: Datatype, found: Any) -> bool:
    """Whether a tensor's dtype is what was declared, or one that converts to it: whole to whole, float to float."""
    name = TORCH.get(found)
    return name == declared or (name is not None and (name in FLOATS) == (declared in FLOATS) and name != "BOOL")
