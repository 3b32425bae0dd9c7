"""Port audit: what in the exported graph or in the modules' own code holds a model to one kind of device."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import torch

from server.adapters.worker.engine import Model
from server.adapters.worker.placed import Arrays
from server.core.smoke import Audit

ORDINARY: Final = ("aten", "prims", "prim")
_CUDA_NAMES: Final = re.compile(r"cuda|cudnn|cublas|flash_attention|efficient_attention|triton|nccl", re.IGNORECASE)
_CUDA_SOURCES: Final = re.compile(r"torch\.cuda\.|\.cuda\(|device\s*=\s*[\"']cuda")


def audit(model: Model, inputs: Arrays) -> Audit:
    """Exports the module with these inputs. That a model does not export is a finding, too."""
    given = tuple(torch.from_numpy(inputs[spec.name]) for spec in model.signature.inputs)
    try:
        with torch.no_grad():
            program = torch.export.export(model.module, given, strict=False)
    except Exception as error:  # of many kinds; the first lines say what stopped it
        return Audit(cuda_sources=_cuda_sources(model.module), error=f"{type(error).__name__}: {str(error)[:300]}")
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    names = [_name(node.target) for node in calls]
    cuda = {name for name in names if _CUDA_NAMES.search(name)}
    cuda |= {f"{_name(node.target)} on {device}" for node in calls for device in _devices(node) if device == "cuda"}
    custom = {name for name in names if "::" in name and name.partition("::")[0] not in ORDINARY}
    unknown = {
        _name(node.target) for node in calls if re.search(r"\bu\d+\b", str(getattr(node.meta.get("val"), "shape", "")))
    }
    return Audit(
        operators=len(calls),
        kinds=len(set(names)),
        custom=tuple(sorted(custom)),
        cuda_only=tuple(sorted(cuda)),
        cuda_sources=_cuda_sources(model.module),
        hooks=_hooks(model.module),
        data_dependent=tuple(sorted(unknown)),
    )


def _name(target: Any) -> str:
    return str(target.name()) if isinstance(target, torch._ops.OpOverload) else str(target)


def _devices(node: Any) -> Iterator[str]:
    for value in [*node.args, *node.kwargs.values()]:
        if isinstance(value, torch.device):
            yield value.type


def _hooks(module: Any) -> int:
    """Callbacks around the calls; those that PyTorch puts on a loaded graph itself do not count."""
    found = [
        hook for each in module.modules() for hook in (*each._forward_hooks.values(), *each._forward_pre_hooks.values())
    ]
    return sum(not _home(hook).startswith("torch.") for hook in found)


def _home(hook: Any) -> str:
    return str(getattr(getattr(hook, "func", hook), "__module__", ""))


def _cuda_sources(module: Any) -> tuple[str, ...]:
    """Classes of the model, PyTorch's own apart, whose code names CUDA."""
    kinds = {type(each) for each in module.modules() if not type(each).__module__.startswith("torch.")}
    found = []
    for kind in kinds:
        try:
            text = inspect.getsource(kind)
        except (OSError, TypeError):  # made at run time, as an exported graph's modules are
            continue
        if _CUDA_SOURCES.search(text):
            found.append(f"{kind.__module__}.{kind.__qualname__}")
    return tuple(sorted(found))
