"""What a model takes and gives, by name: the one description that metadata, engines and the acceptance sheet share."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Datatype = Literal[
    "BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "FP16", "BF16", "FP32", "FP64",
    "BYTES",
]  # fmt: skip
Task = Literal["embedding", "classification", "tensors"]
Scores = Literal["none", "softmax", "sigmoid"]

BYTES_EACH: Final[Mapping[Datatype, int]] = {
    "BOOL": 1, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8,
    "FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8,
}  # fmt: skip
"""Bytes of an element, by the Open Inference Protocol's names; BYTES has none, since its elements vary."""
FLOATS: Final = frozenset[Datatype]({"FP16", "BF16", "FP32", "FP64"})
VARIABLE: Final = -1
IDS: Final = "input_ids"
MASK: Final = "attention_mask"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One named input or output. ``shape`` marks a variable dimension with -1; the first one is the batch."""

    name: str
    datatype: Datatype
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("tensor: got an empty name, each one needs a name")
        if self.datatype != "BYTES" and self.datatype not in BYTES_EACH:
            raise ValueError(
                f"{self.name}.datatype: got {self.datatype!r}, allowed are {', '.join(BYTES_EACH)} and BYTES"
            )
        if not self.shape or any(size != VARIABLE and size < 1 for size in self.shape):
            raise ValueError(
                f"{self.name}.shape: got {list(self.shape)}, allowed are -1 and positive sizes, at least one"
            )

    def __str__(self) -> str:
        return f"{self.name} {self.datatype}{list(self.shape)}"

    @property
    def row(self) -> int:
        """Elements of one row. ValueError where a dimension after the batch is variable."""
        count = 1
        for size in self.shape[1:]:
            if size == VARIABLE:
                raise ValueError(f"{self.name}.shape: got {list(self.shape)}, a row of it has no fixed size")
            count *= size
        return count


@dataclass(frozen=True, slots=True)
class ModelSignature:
    """Inputs and outputs in the order in which the model takes and gives them.

    ``labels`` name the last dimension of a classification's first output, in order. Its numbers are logits: ``scores``
    says what a client is to apply to them; the server applies nothing. ``about`` is the output contract in words.
    """

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    task: Task = "tensors"
    labels: tuple[str, ...] = ()
    scores: Scores = "none"
    about: str = ""

    def __post_init__(self) -> None:
        for name, specs in (("inputs", self.inputs), ("outputs", self.outputs)):
            if not specs:
                raise ValueError(f"{name}: got none, at least one is needed")
            if len({spec.name for spec in specs}) != len(specs):
                raise ValueError(f"{name}: got {[spec.name for spec in specs]}, a name is given twice")
        if self.labels and self.outputs[0].shape[-1] != len(self.labels):
            raise ValueError(
                f"labels: got {len(self.labels)} for {self.outputs[0].name} of shape {list(self.outputs[0].shape)}"
            )

    @property
    def takes_tokens(self) -> bool:
        """Whether it is asked with token ids and their mask, both [rows, tokens]: what the catalogue's length is of."""
        return [spec.name for spec in self.inputs] == [IDS, MASK] and all(
            len(spec.shape) == 2 and spec.datatype in ("INT64", "INT32") for spec in self.inputs
        )

    @property
    def rows_of_floats(self) -> bool:
        """Whether its one output is a row of numbers for each row asked."""
        return (
            len(self.outputs) == 1
            and self.outputs[0].datatype in FLOATS
            and len(self.outputs[0].shape) == 2
            and self.outputs[0].shape[1] != VARIABLE
        )

    @property
    def unserved(self) -> str:
        """Why batches cannot carry it so far; empty for token ids and mask in, one row of numbers out."""
        if self.takes_tokens and self.rows_of_floats:
            return ""
        return (
            f"model: takes {', '.join(spec.name for spec in self.inputs)} and gives "
            f"{', '.join(spec.name for spec in self.outputs)}, served are models that take {IDS} and {MASK} "
            "and give one row of numbers each"
        )


def of_tokens(
    output: TensorSpec, *, task: Task, labels: tuple[str, ...] = (), scores: Scores = "none", about: str = ""
) -> ModelSignature:
    """A model that is asked with token ids and their mask."""
    inputs = (
        TensorSpec(IDS, "INT64", (VARIABLE, VARIABLE)),
        TensorSpec(MASK, "INT64", (VARIABLE, VARIABLE)),
    )
    return ModelSignature(inputs, (output,), task, labels, scores, about)


def embedding(dim: int) -> ModelSignature:
    """What a sentence-transformers encoder gives."""
    output = TensorSpec("embedding", "FP32", (VARIABLE, dim))
    return of_tokens(output, task="embedding", about=f"float32[{dim}], mean pooled, length 1")
