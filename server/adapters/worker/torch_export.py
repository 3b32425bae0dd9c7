"""Loads a checked ``torch.export`` archive: the graph is the model, no code of its author is needed."""

import logging
from typing import Any

import torch
from torch import nn
from torch.export.passes import move_to_device_pass

from server.adapters.worker.declared import Held, check_floats, kinds_agree, row_size
from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.folder import EXPORT, ModelFolder
from server.core.signature import VARIABLE, TensorSpec
from server.core.types import DtypeName


class ExportedModel:
    """A Model (see engine.py). Raises EngineFailed.

    The archive was checked before (export_archive.py): what torch would unpickle or evaluate is not in it.
    """

    def __init__(self, folder: ModelFolder) -> None:
        declared = folder.declared
        check_floats(declared.signature)
        self._program = program = _load(folder)
        self._path = folder.path / EXPORT
        self._check("inputs", declared.signature.inputs, _values(program, program.graph_signature.user_inputs))
        self._check("outputs", declared.signature.outputs, _values(program, program.graph_signature.user_outputs))
        self.module: nn.Module = Held(program.module(), declared.signature)
        self.signature = declared.signature
        self.revision = folder.revision
        self.vocabulary = declared.vocabulary
        self.max_length = declared.max_length
        self.dim = row_size(declared.signature)

    def place(self, torch_name: str, dtype: DtypeName) -> nn.Module:
        """See Model. A graph names the dtypes and the device that it was made with: one can be moved, the other not."""
        if dtype != "float32":
            raise EngineFailed(
                f"dtype: got {dtype}, allowed for an export is float32: its graph fixes its dtypes, so export it anew"
            )
        return Held(_without_asserts(move_to_device_pass(self._program, torch_name).module()), self.signature)

    def _check(self, side: str, declared: tuple[TensorSpec, ...], found: list[Any]) -> None:
        if len(declared) != len(found):
            raise EngineFailed(f"canary-model.json: {side}: got {len(declared)}, {self._path} has {len(found)}")
        for spec, value in zip(declared, found, strict=True):
            shape = tuple(size if isinstance(size, int) else VARIABLE for size in value.shape)
            fits = len(shape) == len(spec.shape) and all(
                theirs in (ours, VARIABLE) for ours, theirs in zip(spec.shape, shape, strict=True)
            )
            if not fits or not kinds_agree(spec.datatype, value.dtype):
                raise EngineFailed(
                    f"canary-model.json: {side}: {spec.name} is declared {spec.datatype} {list(spec.shape)}, "
                    f"{self._path} has {value.dtype} {list(shape)} there"
                )


def _load(folder: ModelFolder) -> Any:
    # torch tells of each failed attempt with a traceback; the reason below says it once.
    logging.getLogger("torch.export").setLevel(logging.CRITICAL)
    try:
        return torch.export.load(folder.path / EXPORT)
    except Exception as error:  # of many kinds
        raise EngineFailed(f"model.path: {folder.path / EXPORT} does not load: {error}") from error


def _without_asserts(module: Any) -> Any:
    """Exporting notes where each conversion found its tensor; Dynamo fails on that note for a moved graph.

    A note changes no value. The dtypes were checked against the declaration, and answers are against the CPU's.
    """
    for node in list(module.graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            module.graph.erase_node(node)
    module.recompile()
    return module


def _values(program: Any, names: Any) -> list[Any]:
    """The example tensors of the graph, whose dynamic sizes are symbols."""
    nodes = {node.name: node for node in program.graph.nodes}
    return [nodes[name].meta["val"] for name in names]
