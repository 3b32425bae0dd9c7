"""POST /v2/models/{model}/infer, JSON form."""

import json
from typing import Any

import numpy as np
import pytest
from fakes.embeddings import embeddings

from server.adapters.asgi import oip
from server.core.signature import embedding
from server.core.types import BadRequest, Bucket, TokenRows
from server.runtime.predict import Prediction

PLAIN = oip.Form("embedding")


def parse(body: bytes, framed: str | None) -> oip.Question:
    """Of a model whose output is the embedding."""
    return oip.parse(body, framed, embedding(2), ("length",))


def tensor(name: str, shape: list[int], datatype: str, data: list[Any]) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": data}


def body(*tensors: dict[str, Any], **fields: Any) -> bytes:
    return json.dumps({"inputs": list(tensors), **fields}).encode()


@pytest.mark.parametrize(("shape", "data"), [([2], ["a", "b"]), ([2, 1], ["a", "b"]), ([2, 1], [["a"], ["b"]])])
def test_texts_come_as_a_bytes_tensor(shape: list[int], data: list[Any]) -> None:
    """Flat or nested, with or without a column dimension."""
    question = parse(body(tensor("text", shape, "BYTES", data), id="7"), None)
    assert question == oip.Question("7", ["a", "b"], None, (PLAIN,))


def test_token_ids_come_with_an_optional_mask() -> None:
    """Flat and nested data mean the same; INT32 is taken too."""
    question = parse(
        body(
            tensor("input_ids", [2, 2], "INT64", [1, 2, 3, 4]),
            tensor("attention_mask", [2, 2], "INT32", [[1, 1], [1, 0]]),
        ),
        None,
    )
    assert isinstance(question.rows, TokenRows)
    assert question.rows.ids == [[1, 2], [3, 4]]
    assert question.rows.masks == [[1, 1], [1, 0]]
    assert question.id is None


@pytest.mark.parametrize(
    ("raw", "param"),
    [
        (b"{", None),
        (b"{}", "inputs"),
        (b'{"inputs":[{"name":"text"}]}', "shape"),
        (b'{"inputs":[{"name":"text","shape":[1],"datatype":"BYTES","data":' + b"[" * 100_000, None),
        (b'{"inputs":[],"parameters":{"a":' + b'{"a":' * 100_000, "parameters[...]"),
        (body(), "inputs"),
        (
            body(tensor("input_ids", [2, 1], "INT64", [1, 2]), tensor("attention_mask", [1, 1], "INT64", [1])),
            "attention_mask",
        ),
        (body(tensor("image", [1], "FP32", [1.0])), "inputs"),
        (body(tensor("attention_mask", [1, 1], "INT64", [1])), "inputs"),
        (body(tensor("text", [1], "BYTES", ["a"]), tensor("text", [1], "BYTES", ["a"])), "inputs"),
        (body(tensor("text", [1], "BYTES", ["a"]), tensor("input_ids", [1, 1], "INT64", [1])), "inputs"),
        (body(tensor("text", [1], "INT64", [1])), "text"),
        (body(tensor("text", [1, 2], "BYTES", ["a", "b"])), "text"),
        (body(tensor("text", [0], "BYTES", [])), "text"),
        (body(tensor("text", [], "BYTES", [])), "text"),
        (body(tensor("text", [2], "BYTES", ["a"])), "text"),
        (body(tensor("text", [1], "BYTES", [3])), "text"),
        (body(tensor("text", [1], "BYTES", [["a"]])), "text"),
        (body(tensor("input_ids", [2], "INT64", [1, 2])), "input_ids"),
        (body(tensor("input_ids", [1, 0], "INT64", [])), "input_ids"),
        (body(tensor("input_ids", [1, 2], "FP32", [1.0, 2.0])), "input_ids"),
        (body(tensor("input_ids", [1, 2], "INT64", [1, 2, 3])), "input_ids"),
        (body(tensor("input_ids", [1, 2], "INT64", [1, 2.5])), "input_ids"),
        (body(tensor("input_ids", [1, 2], "INT64", [1, True])), "input_ids"),
        (body(tensor("text", [1], "BYTES", ["a"]), outputs=[{"name": "logits"}]), "outputs"),
    ],
)
def test_a_malformed_request_is_refused_naming_the_field(raw: bytes, param: str | None) -> None:
    """What a client got wrong is in the error."""
    with pytest.raises(BadRequest) as refused:
        parse(raw, None)
    assert refused.value.param == param


def test_the_one_output_may_be_asked_for_by_name() -> None:
    """Parameters of the output are the client's business."""
    raw = body(
        tensor("text", [1], "BYTES", ["a"]), outputs=[{"name": "embedding", "parameters": {"binary_data": False}}]
    )
    assert parse(raw, None).texts == ["a"]


@pytest.mark.parametrize("request_id", [None, "", "42"])
def test_the_answer_repeats_the_id_exactly_when_there_was_one(request_id: str | None) -> None:
    """And its data has as many numbers as its shape says, bit for bit."""
    rows = np.array([[0.1, 0.2], [0.3, 0.4]], dtype=np.float32)
    prediction = Prediction(embeddings(rows.tobytes()), 2, 4, Bucket(4, 16), 0.0, 0.0, 0.0)
    content = oip.render(prediction, "m", "v", oip.Question(request_id, ["a"], None, (PLAIN,)))
    answer = json.loads(content.body)
    assert (content.media_type, dict(content.headers)) == ("application/json", {})
    assert (answer["model_name"], answer["model_version"]) == ("m", "v")
    assert answer.get("id") == request_id
    assert ("id" in answer) == (request_id is not None)
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"], output["shape"]) == ("embedding", "FP32", [2, 2])
    assert np.array(output["data"], dtype=np.float32).tobytes() == rows.tobytes()


def test_the_metadata_lists_what_parse_accepts() -> None:
    """Variable dimensions are marked with -1."""
    assert [(each.name, each.datatype, each.shape) for each in oip.inputs(embedding(2), texts=True)] == [
        ("text", "BYTES", [-1]),
        ("input_ids", "INT64", [-1, -1]),
        ("attention_mask", "INT64", [-1, -1]),
    ]
