"""The engine: a model on its device, with named arrays of the host in and out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from server.adapters.worker.engine import Ahead, Device, Model
from server.core.signature import ModelSignature
from server.core.types import DtypeName, MatmulPrecision

Arrays = dict[str, NDArray[Any]]


class Engine:
    """``open`` places the model; precision is fixed then, since a compiled program keeps the one it was built with."""

    def __init__(self, model: Model, device: Device) -> None:
        self.model = model
        self.device = device
        self.module: Any = None
        self._torch_name = ""

    def open(self, dtype: DtypeName, precision: MatmulPrecision) -> None:
        """Raises EngineFailed."""
        self.device.open()
        self._torch_name = self.device.torch_name()
        torch.set_float32_matmul_precision(precision)
        self.module = self.model.place(self._torch_name, dtype)

    def compile(self, *, side_by_side: bool = False) -> Ahead | None:
        """From here on each new shape is a program of its own. None: they compile one after the other."""
        ahead = self.device.ahead(self.module) if side_by_side else None
        self.module = self.device.compile(self.module) if ahead is None else ahead.module
        return ahead

    def call(self, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
        """Fresh contiguous arrays go over whole, one transfer each; one call under one grad mode; one copy back each.

        Each of these would otherwise be a program of its own: a view with an offset, a slice on the device, another
        grad mode.
        """
        return called(self.module, self.model.signature, inputs, self._torch_name)


def on_cpu(model: Model, inputs: Arrays) -> Arrays:
    """What the model gives before it is placed."""
    return called(model.module, model.signature, inputs, "cpu")


def called(module: Any, signature: ModelSignature, inputs: Mapping[str, NDArray[Any]], torch_name: str) -> Arrays:
    with torch.inference_mode():
        given = [torch.from_numpy(inputs[spec.name]).to(torch_name) for spec in signature.inputs]
        found = module(*given)
        tensors = found if isinstance(found, tuple | list) else (found,)
        return {spec.name: _host(tensor) for spec, tensor in zip(signature.outputs, tensors, strict=True)}


def _host(tensor: torch.Tensor) -> NDArray[Any]:
    tensor = tensor.cpu()
    # numpy has no bfloat16, and a float32 holds every one of them.
    array: NDArray[Any] = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy()
    return np.ascontiguousarray(array)
