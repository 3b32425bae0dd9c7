"""Builds a model with the operator's own function and gives it weights from safetensors.

``module:function`` names code that is installed in the server's environment, as much the operator's as the server
itself. The model's folder is no place for code: it is not put on the import path.
"""

import importlib
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn

from server.adapters.worker.declared import Held, check_floats, row_size
from server.adapters.worker.dtypes import WEIGHTS
from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.folder import ModelFolder
from server.core.types import DtypeName


class FactoryModel:
    """A Model (see engine.py). Raises EngineFailed."""

    def __init__(self, folder: ModelFolder, factory: str) -> None:
        declared = folder.declared
        check_floats(declared.signature)
        self._inner = _build(factory).float()
        _load(self._inner, folder)
        self.module: nn.Module = Held(self._inner, declared.signature, torch.float32).eval()
        self.signature = declared.signature
        self.revision = folder.revision
        self.vocabulary = declared.vocabulary
        self.max_length = declared.max_length
        self.dim = row_size(declared.signature)

    def place(self, torch_name: str, dtype: DtypeName) -> nn.Module:
        """See Model."""
        self._inner.to(torch_name, WEIGHTS[dtype])
        return Held(self._inner, self.signature, WEIGHTS[dtype]).eval()


def _build(factory: str) -> nn.Module:
    """What the function returns, on the CPU and in its own initial weights."""
    module_name, _, name = factory.partition(":")
    try:
        function: Any = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise EngineFailed(
            f"model.factory: got {factory}, allowed is module:function of an installed package: {error}"
        ) from error
    try:
        built = function()
    except Exception as error:  # the operator's code may raise anything
        raise EngineFailed(f"model.factory: {factory}() raised {type(error).__name__}: {error}") from error
    if not isinstance(built, nn.Module):
        raise EngineFailed(f"model.factory: {factory}() returned {type(built).__name__}, allowed is a torch.nn.Module")
    return built


def _load(module: nn.Module, folder: ModelFolder) -> None:
    """Every weight of the module from the files, and none left over."""
    try:
        state = {name: tensor for file in folder.files for name, tensor in load_file(file).items()}
        module.load_state_dict(state, strict=True)
    except Exception as error:  # safetensors and torch raise kinds of their own
        raise EngineFailed(
            f"model.path: the weights of {folder.path} do not fit the factory's module: {error}"
        ) from error
