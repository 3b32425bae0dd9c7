"""``canary-model.json``: what the owner of a model says of it where the files cannot.

An exported graph knows its tensors but not which token ids its table holds; a factory's module knows neither. A TPU
checks no index, so a wrong vocabulary would give wrong answers: the file is required and has no defaults for it.
"""

from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from server.adapters.worker.engine import EngineFailed
from server.core.signature import LENGTH, VARIABLE, ModelSignature, Padding, Scores, Task, TensorSpec

FILE: Final = "canary-model.json"


class _Tensor(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    datatype: str
    shape: list[int | str]


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    inputs: list[_Tensor]
    outputs: list[_Tensor]
    vocabulary: int = msgspec.field(default=0)
    max_length: int = msgspec.field(default=0)
    task: Task = "tensors"
    labels: list[str] = []
    scores: Scores = "none"
    about: str = ""
    padding: Padding = "none"


class Declaration(msgspec.Struct, frozen=True):
    """``vocabulary`` and ``max_length`` are 0 for a model that is not asked with token ids."""

    signature: ModelSignature
    vocabulary: int
    max_length: int


def read_declaration(folder: Path) -> Declaration:
    """The checked file of a model's folder. Raises EngineFailed, naming field and value."""
    path = folder / FILE
    try:
        document = msgspec.json.decode(path.read_bytes(), type=_Document)
        signature = _named(
            ModelSignature(
                inputs=_specs(document.inputs),
                outputs=_specs(document.outputs),
                task=document.task,
                labels=tuple(document.labels),
                scores=document.scores,
                about=document.about,
                padding=document.padding,
            )
        )
    except (OSError, ValueError) as error:
        raise EngineFailed(f"model.path: {path} cannot be used: {error}") from error
    if signature.takes_tokens:
        for name, value in (("vocabulary", document.vocabulary), ("max_length", document.max_length)):
            if value < 1:
                raise EngineFailed(
                    f"model.path: {path}: {name}: got {value}, a model of token ids needs a positive one"
                )
    return Declaration(signature, document.vocabulary, document.max_length)


def _specs(given: list[_Tensor]) -> tuple[TensorSpec, ...]:
    """A name in a shape is a dimension of the catalogue, of no fixed size."""
    return tuple(
        TensorSpec(
            each.name,
            each.datatype,  # type: ignore[arg-type]  # TensorSpec checks it
            tuple(size if isinstance(size, int) else VARIABLE for size in each.shape),
            tuple(size for size in each.shape if isinstance(size, str)),
        )
        for each in given
    )


def _named(signature: ModelSignature) -> ModelSignature:
    """Of tokens the variable dimension is the length, whether or not the file says so."""
    if not signature.takes_tokens or any(spec.named for spec in signature.inputs):
        return signature
    return replace(signature, inputs=tuple(replace(spec, named=(LENGTH,)) for spec in signature.inputs))
