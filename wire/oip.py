"""Open Inference Protocol v2 over REST: the JSON documents. Tensors behind the JSON: wire.framing and wire.tensors.

Source: kserve/open-inference-protocol, specification/protocol/inference_rest.md. Health is judged by
the status code alone, so a body never says ``false`` under a 200.
"""

from typing import Any, Final

import msgspec

Parameters = dict[str, str | int | float | bool]
EXTENSIONS: Final = ("binary_tensor_data", "statistics")
"""What ServerMetadata lists, in the names of Triton's documents."""


class InputTensor(msgspec.Struct, frozen=True):
    """``data`` is flat row-major or nested; the element count must equal the product of ``shape``.

    None: the elements stand behind the JSON, ``binary_data_size`` of ``parameters`` says how many bytes.
    """

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: Parameters = {}


class RequestedOutput(msgspec.Struct, frozen=True):
    name: str
    parameters: Parameters = {}


class InferRequest(msgspec.Struct, frozen=True):
    inputs: list[InputTensor]
    id: str | None = None
    parameters: Parameters = {}
    outputs: list[RequestedOutput] | None = None


class OutputTensor(msgspec.Struct, frozen=True, omit_defaults=True):
    """``data`` or ``parameters.binary_data_size``, as in InputTensor."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any] | None = None
    parameters: Parameters = {}


class InferResponse(msgspec.Struct, frozen=True, omit_defaults=True):
    model_name: str
    outputs: list[OutputTensor]
    model_version: str | None = None
    id: str | None = None


class TensorMetadata(msgspec.Struct, frozen=True):
    """``shape`` marks a variable dimension with -1."""

    name: str
    datatype: str
    shape: list[int]


class ModelMetadata(msgspec.Struct, frozen=True):
    """``parameters`` is our extension: the identity (wire.health.Identity) of what answers."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    parameters: dict[str, Any] = {}


class ServerMetadata(msgspec.Struct, frozen=True):
    name: str
    version: str
    extensions: list[str]


class ModelList(msgspec.Struct, frozen=True):
    """GET /v2/models, as KServe answers it."""

    models: list[str]


class ModelReady(msgspec.Struct, frozen=True):
    name: str
    ready: bool
