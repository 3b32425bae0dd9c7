"""Answers of the known protocols in the form that policies name.

OpenAI embeddings (API reference, "Create embeddings"): ``data`` in the order of ``index``, every ``embedding`` an FP32
tensor, whether it was sent as numbers or as base64 of little-endian float32. Open Inference Protocol v2
(inference_rest.md): ``outputs`` an object from name to tensor. Anything else as it is.
"""

import base64
import binascii
from typing import Any

import numpy as np

from gateway.core.compare.content import Tensor, Unreadable, tensor
from gateway.core.compare.policy import ContentKind
from gateway.core.compare.result import PairKind


def content_kind(path: str) -> ContentKind:
    """What a request to ``path`` (without query) is answered with."""
    known = {
        "/v1/embeddings": ContentKind.EMBEDDINGS,
        "/v1/chat/completions": ContentKind.CHAT,
        "/v1/completions": ContentKind.COMPLETIONS,
    }
    if path.startswith("/v2/models/") and path.endswith("/infer"):
        return ContentKind.INFER
    return known.get(path, ContentKind.JSON)


def readable(kind: ContentKind, document: object) -> object:
    """The decoded answer as policies name it. Never raises: what is not as declared becomes ``Unreadable`` in place.

    The ``data`` of an Open Inference output that stood behind the JSON is a Tensor or Unreadable by then.
    """
    if not isinstance(document, dict):
        return document
    match kind:
        case ContentKind.EMBEDDINGS if isinstance(document.get("data"), list):
            return {**document, "data": _embeddings(document["data"])}
        case ContentKind.INFER if isinstance(document.get("outputs"), list):
            return {**document, "outputs": _outputs(document["outputs"])}
        case _:
            return document


def _embeddings(data: list[Any]) -> list[Any] | Unreadable:
    indices = [item.get("index") if isinstance(item, dict) else None for item in data]
    if any(index is not None for index in indices):
        whole = [index for index in indices if type(index) is int]
        if len(whole) < len(data) or sorted(whole) != list(range(len(data))):
            return Unreadable(PairKind.UNDECODABLE, f"data: the indices are not 0 to {len(data) - 1}, each once")
        data = sorted(data, key=lambda item: int(item["index"]))
    return [
        {**item, "embedding": _vector(item["embedding"])} if isinstance(item, dict) and "embedding" in item else item
        for item in data
    ]


def _vector(value: object) -> object:
    if isinstance(value, list):
        return tensor("FP32", [len(value)], value)
    if not isinstance(value, str):
        return value
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return Unreadable(PairKind.UNDECODABLE, "the embedding is no base64")
    if len(raw) % 4:
        return Unreadable(PairKind.UNDECODABLE, f"the embedding has {len(raw)} bytes, no multiple of 4")
    return Tensor("FP32", np.frombuffer(raw, "<f4").astype(np.float64))


def _outputs(outputs: list[Any]) -> dict[str, object] | Unreadable:
    names = [output.get("name") if isinstance(output, dict) else None for output in outputs]
    if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        return Unreadable(PairKind.UNDECODABLE, "outputs: each needs a name of its own")
    return {output["name"]: _declared(output) for output in outputs}


def _declared(output: dict[str, Any]) -> Tensor | Unreadable:
    datatype, shape, data = output.get("datatype"), output.get("shape"), output.get("data")
    if isinstance(data, Tensor | Unreadable):
        return data
    if not isinstance(datatype, str) or not isinstance(shape, list):
        return Unreadable(PairKind.UNDECODABLE, "an output needs datatype and shape")
    return tensor(datatype, shape, data)
