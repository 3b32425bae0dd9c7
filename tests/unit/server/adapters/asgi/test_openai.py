"""POST /v1/embeddings: bytes in, bytes out."""

import base64
import json

import numpy as np
import pytest
from fakes.embeddings import embeddings

from server.adapters.asgi import openai
from server.core.types import BadRequest, Bucket
from server.runtime.predict import Prediction


def prediction(*rows: list[float]) -> Prediction:
    data = np.array(rows, dtype=np.float32)
    return Prediction(embeddings(data.tobytes(), len(rows[0])), len(rows), 7, Bucket(4, 16), 0.0, 0.0, 0.0)


def body(**fields: object) -> bytes:
    return json.dumps({"model": "m", **fields}).encode()


@pytest.mark.parametrize(("given", "texts"), [("a", ["a"]), (["a", "b"], ["a", "b"]), ("", [""])])
def test_texts_are_taken_alone_or_in_a_list(given: object, texts: list[str]) -> None:
    """One text is a list of one."""
    question = openai.parse(body(input=given))
    assert question.texts == texts
    assert question.tokens is None


@pytest.mark.parametrize(("given", "rows"), [([1, 2], [[1, 2]]), ([[1], [2, 3]], [[1], [2, 3]])])
def test_token_ids_are_taken_as_one_row_or_several(given: object, rows: list[list[int]]) -> None:
    """A list of integers is one tokenised text."""
    question = openai.parse(body(input=given))
    assert question.texts is None
    assert question.tokens is not None
    assert question.tokens.ids == rows


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'{"input":"a"}', "model"),
        (b'{"model":"m"}', "input"),
        (b'{"model":"m","input":3}', "input"),
        (b'{"model":"m","input":"\xff"}', None),
        (b'{"model":3,"input":"a"}', "model"),
        (b'{"model":"m","input":[]}', "input"),
        (b'{"model":"m","input":["a",1]}', "input"),
        (b'{"model":"m","input":[true]}', "input"),
        (b'{"model":"m","input":[[1],[]]}', "input"),
        (b'{"model":"m","input":[1.5]}', "input"),
        (b'{"model":"m","input":"a","encoding_format":"hex"}', "encoding_format"),
        (b'{"model":"m","input":' + b"[" * 100_000, None),
        (b'{"model":"m","input":"a","dimensions":"4"}', "dimensions"),
    ],
)
def test_a_malformed_request_is_refused_naming_the_field(raw: bytes, param: str | None) -> None:
    """The field is what the OpenAI error calls param."""
    with pytest.raises(BadRequest) as refused:
        openai.parse(raw)
    assert refused.value.param == param


def test_too_many_items_are_refused() -> None:
    """The protocol's own limit."""
    with pytest.raises(BadRequest, match="got 2049 items"):
        openai.parse(body(input=["a"] * 2049))


def test_numbers_come_back_as_the_float32_they_are() -> None:
    """Decoding gives the same bits."""
    rows = prediction([0.1, -0.2], [1e-8, 3.0])
    answer = json.loads(openai.render(rows, openai.parse(body(input=["a", "b"]))).body)
    assert answer["object"] == "list"
    assert answer["model"] == "m"
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert [item["index"] for item in answer["data"]] == [0, 1]
    assert {item["object"] for item in answer["data"]} == {"embedding"}
    got = np.array([item["embedding"] for item in answer["data"]], dtype=np.float32)
    assert got.tobytes() == rows.outputs["embedding"].data


def test_base64_is_the_little_endian_bytes_of_the_row() -> None:
    """What the official client decodes by default."""
    rows = prediction([0.1, -0.2], [5.0, 3.0])
    answer = json.loads(openai.render(rows, openai.parse(body(input=["a", "b"], encoding_format="base64"))).body)
    got = b"".join(base64.b64decode(item["embedding"]) for item in answer["data"])
    assert got == rows.outputs["embedding"].data


def test_fewer_dimensions_are_cut_and_brought_back_to_length_one() -> None:
    """The protocol's shortening keeps vectors comparable by dot product."""
    answer = json.loads(openai.render(prediction([0.6, 0.8, 9.0]), openai.parse(body(input="a", dimensions=2))).body)
    assert answer["data"][0]["embedding"] == pytest.approx([0.6, 0.8])
    assert len(answer["data"][0]["embedding"]) == 2


def test_a_row_that_is_zero_after_cutting_stays_finite() -> None:
    """No division by zero."""
    answer = json.loads(openai.render(prediction([0.0, 1.0]), openai.parse(body(input="a", dimensions=1))).body)
    assert answer["data"][0]["embedding"] == [0.0]


@pytest.mark.parametrize("wanted", [0, -1, 385])
def test_impossible_dimensions_are_refused_with_the_limits(wanted: int) -> None:
    """Value and bounds are named."""
    with pytest.raises(BadRequest, match=f"got {wanted}, allowed are 1 to 384"):
        openai.check_dimensions(wanted, 384, may_shorten=True)


@pytest.mark.parametrize("wanted", [0, 1, 383, 385])
def test_a_model_that_may_not_be_shortened_gives_all_its_dimensions(wanted: int) -> None:
    """Cut vectors of such a model look right and mean nothing."""
    with pytest.raises(BadRequest, match=f"got {wanted}, allowed is 384") as refused:
        openai.check_dimensions(wanted, 384, may_shorten=False)
    assert refused.value.param == "dimensions"


def test_possible_dimensions_pass() -> None:
    """None means all of them, and all of them may be asked for of any model."""
    for wanted in (None, 1, 384):
        openai.check_dimensions(wanted, 384, may_shorten=True)
    for wanted in (None, 384):
        openai.check_dimensions(wanted, 384, may_shorten=False)
