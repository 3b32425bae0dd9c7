"""Whether an answer of the embeddings API is one: right status, count, dimension, finite, unit length."""

import array
import math
import operator
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from wire.openai import EmbeddingRequest, EmbeddingResponse, decode_base64

NORM_TOLERANCE: Final = 0.01
# Two answers to one text below this cosine are about different things; precision alone never gets there.
WRONG_COSINE: Final = 0.95

Vector = Sequence[float]


class BadAnswer(Exception):
    """An answer that a client could not use. ``code`` is short and closed, for counting."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


def request_body(model: str, texts: Sequence[str]) -> bytes:
    """The JSON body of one call, base64 asked for, as the OpenAI client does."""
    return msgspec.json.encode(EmbeddingRequest(input=list(texts), model=model, encoding_format="base64"))


def read_answer(status: int, body: bytes, *, rows: int, dimension: int | None) -> list[Vector]:
    """The vectors of an answer in the order of the texts. Raises BadAnswer.

    ``dimension`` None accepts any, the same for all rows.
    """
    if status != 200:
        raise BadAnswer(f"status_{status}", body[:200].decode("utf-8", "replace") or "no body")
    try:
        answer = msgspec.json.decode(body, type=EmbeddingResponse)
    except msgspec.DecodeError as broken:
        raise BadAnswer("not_json", str(broken)) from broken
    if len(answer.data) != rows:
        raise BadAnswer("wrong_count", f"{len(answer.data)} vectors for {rows} texts")
    if [item.index for item in answer.data] != list(range(rows)):
        raise BadAnswer("wrong_order", f"indices {[item.index for item in answer.data]}")
    vectors: list[Vector] = []
    for item in answer.data:
        vector = _vector(item.embedding)
        dimension = len(vector) if dimension is None else dimension
        _check(vector, item.index, dimension)
        vectors.append(vector)
    return vectors


def cosine(one: Vector, other: Vector) -> float:
    """Cosine of two vectors, 0 when the lengths differ or one is zero."""
    if len(one) != len(other):
        return 0.0
    norms = math.sqrt(_dot(one, one) * _dot(other, other))
    return _dot(one, other) / norms if norms else 0.0


def _vector(embedding: list[float] | str) -> Vector:
    if not isinstance(embedding, str):
        raise BadAnswer("not_base64", "numbers instead of the base64 that was asked for")
    try:
        raw = decode_base64(embedding)
        vector = array.array("f", raw)
    except ValueError as broken:
        raise BadAnswer("not_base64", str(broken)) from broken
    if sys.byteorder == "big":
        vector.byteswap()
    return vector


def _check(vector: Vector, index: int, dimension: int) -> None:
    if len(vector) != dimension or not vector:
        raise BadAnswer("wrong_dimension", f"vector {index} has {len(vector)} numbers, {dimension} expected")
    squared = _dot(vector, vector)
    if not math.isfinite(squared):
        raise BadAnswer("not_finite", f"vector {index} holds NaN or infinity")
    if abs(math.sqrt(squared) - 1.0) > NORM_TOLERANCE:
        raise BadAnswer("wrong_norm", f"vector {index} has length {math.sqrt(squared):.4f}, 1 expected")


def _dot(one: Vector, other: Vector) -> float:
    return math.fsum(map(operator.mul, one, other))
