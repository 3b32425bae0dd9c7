"""Open Inference Protocol v2 over REST, JSON form.

Source: kserve/open-inference-protocol, specification/protocol/inference_rest.md. Health is judged by
the status code alone, so a body never says ``false`` under a 200.
"""

from typing import Any

import msgspec

Parameters = dict[str, str | float | bool]


class InputTensor(msgspec.Struct, frozen=True):
    """``data`` is flat row-major or nested; the element count must equal the product of ``shape``."""

    name: str
    shape: list[int]
    datatype: str
    data: list[Any]
    parameters: dict[str, Any] = {}


class RequestedOutput(msgspec.Struct, frozen=True):
    name: str
    parameters: dict[str, Any] = {}


class InferRequest(msgspec.Struct, frozen=True):
    inputs: list[InputTensor]
    id: str | None = None
    parameters: dict[str, Any] = {}
    outputs: list[RequestedOutput] | None = None


class OutputTensor(msgspec.Struct, frozen=True):
    name: str
    shape: list[int]
    datatype: str
    data: list[Any]


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
