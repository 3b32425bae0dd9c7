"""OpenAI embeddings: request, response and the base64 form of a vector.

Source: OpenAI API reference, "Create embeddings"; the Python client asks for ``base64``
whenever its caller did not choose, and decodes little-endian float32.
"""

import base64
from typing import Any, Final, Literal

import msgspec

PATH: Final = "/v1/embeddings"
MAX_ITEMS: Final = 2048


class EmbeddingRequest(msgspec.Struct, frozen=True):
    """One call. ``input`` is a text, texts, one tokenised text (integers), or several.

    The decoder allows one list type in a union, so whoever serves the call checks what the list holds.
    """

    input: str | list[Any]
    model: str
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    user: str | None = None


class Embedding(msgspec.Struct, frozen=True):
    """One vector: numbers, or base64 of little-endian float32 bytes."""

    index: int
    embedding: list[float] | str
    object: Literal["embedding"] = "embedding"


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int
    total_tokens: int


class EmbeddingResponse(msgspec.Struct, frozen=True):
    data: list[Embedding]
    model: str
    usage: Usage
    object: Literal["list"] = "list"


def decode_base64(text: str) -> bytes:
    """Little-endian float32 bytes of a base64 embedding; ValueError when it is not base64."""
    return base64.b64decode(text, validate=True)


def encode_base64(raw: bytes) -> str:
    """The base64 form of little-endian float32 bytes."""
    return base64.b64encode(raw).decode("ascii")
