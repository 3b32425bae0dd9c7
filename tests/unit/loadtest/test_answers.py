import array
import math

import msgspec
import pytest

from loadtest.answers import BadAnswer, cosine, read_answer, request_body
from wire.openai import Embedding, EmbeddingResponse, Usage, encode_base64


def body(*vectors: list[float], indices: list[int] | None = None) -> bytes:
    data = [
        Embedding(
            index=(indices or list(range(len(vectors))))[i], embedding=encode_base64(array.array("f", v).tobytes())
        )
        for i, v in enumerate(vectors)
    ]
    return msgspec.json.encode(EmbeddingResponse(data=data, model="m", usage=Usage(1, 1)))


UNIT = [0.6, 0.8]


def test_good_answer() -> None:
    """An answer of the right count, dimension and length gives its vectors in order."""
    vectors = read_answer(200, body(UNIT, [1.0, 0.0]), rows=2, dimension=2)
    assert [list(v) for v in vectors] == [pytest.approx(UNIT), [1.0, 0.0]]


@pytest.mark.parametrize(
    ("status", "raw", "code"),
    [
        (503, b'{"error": "x"}', "status_503"),
        (204, b"", "status_204"),
        (200, b"<html>", "not_json"),
        (200, body(UNIT), "wrong_count"),
        (200, body(UNIT, UNIT, indices=[1, 0]), "wrong_order"),
        (200, body(UNIT, [1.0, 0.0, 0.0]), "wrong_dimension"),
        (200, body(UNIT, [math.nan, 0.0]), "not_finite"),
        (200, body(UNIT, [math.inf, 0.0]), "not_finite"),
        (200, body(UNIT, [3.0, 4.0]), "wrong_norm"),
        (200, body(UNIT, [0.0, 0.0]), "wrong_norm"),
        (200, b'{"data":[{"index":0,"embedding":[1.0]},{"index":1,"embedding":"%%"}],'
              b'"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}', "not_base64"),
        (200, b'{"data":[{"index":0,"embedding":"%%"},{"index":1,"embedding":"AAA="}],'
              b'"model":"m","usage":{"prompt_tokens":1,"total_tokens":1}}', "not_base64"),
    ],
)  # fmt: skip
def test_bad_answer(status: int, raw: bytes, code: str) -> None:
    """Whatever a client could not use is a failure with a code of its own."""
    with pytest.raises(BadAnswer) as bad:
        read_answer(status, raw, rows=2, dimension=2)
    assert bad.value.code == code


def test_any_dimension_but_the_same() -> None:
    """Without an expected dimension the first vector sets it."""
    assert len(read_answer(200, body(UNIT, UNIT), rows=2, dimension=None)) == 2
    with pytest.raises(BadAnswer, match="vector 1 has 3 numbers, 2 expected"):
        read_answer(200, body(UNIT, [1.0, 0.0, 0.0]), rows=2, dimension=None)


def test_cosine() -> None:
    """Cosine is of direction alone; unlike lengths and zero vectors agree with nothing."""
    assert cosine([1.0, 0.0], [5.0, 0.0]) == pytest.approx(1.0)
    assert cosine([1.0, 0.0], [0.0, 2.0]) == pytest.approx(0.0)
    assert cosine([1.0], [1.0, 0.0]) == 0.0
    assert cosine([0.0, 0.0], [1.0, 0.0]) == 0.0


def test_request_asks_for_base64() -> None:
    """The request is the OpenAI call with base64 answers."""
    sent = msgspec.json.decode(request_body("m", ["a", "b"]))
    assert (sent["input"], sent["model"], sent["encoding_format"]) == (["a", "b"], "m", "base64")
