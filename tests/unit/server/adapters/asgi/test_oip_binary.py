"""POST /v2/models/{model}/infer with tensors behind the JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes.embeddings import embeddings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.adapters.asgi import oip
from server.core.signature import embedding
from server.core.types import BadRequest, Bucket, TokenRows
from server.runtime.predict import Prediction

# A slow machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

GOLDEN: Any = json.loads((Path(__file__).parents[4] / "data" / "oip_golden.json").read_text())
TEXT = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}


def parse(body: bytes, framed: str | None) -> oip.Question:
    """Of a model whose output is the embedding."""
    return oip.parse(body, framed, embedding(2), ("length",))


def framed(document: object, binary: bytes = b"") -> tuple[bytes, str]:
    """A body, and the header that says how much of it is JSON."""
    head = json.dumps(document).encode()
    return head + binary, str(len(head))


def behind(name: str, shape: list[int], datatype: str, size: object) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "parameters": {"binary_data_size": size}}


def predicted(*rows: list[float]) -> Prediction:
    data = np.array(rows, dtype=np.float32)
    return Prediction(embeddings(data.tobytes(), len(rows[0])), len(rows), 4, Bucket(4, 16), 0.0, 0.0, 0.0)


def test_the_golden_request_is_read() -> None:
    """Ids and mask from the bytes, and an output that is to come back as bytes."""
    case = GOLDEN["request"]
    head = case["json"].encode()
    question = parse(head + bytes.fromhex(case["hex"]), str(len(head)))
    assert isinstance(question.rows, TokenRows)
    assert (question.id, question.rows.ids, question.rows.masks) == ("7", case["ids"], case["mask"])
    assert question.forms[0] == oip.Form("embedding", binary=True)


def test_the_golden_answer_is_written() -> None:
    """To the byte, with the length of its JSON."""
    case = GOLDEN["answer"]
    question = oip.Question("7", ["a"], None, forms=(oip.Form("embedding", binary=True, datatype="BF16"),))
    content = oip.render(predicted(*case["rows"]), "m", "v", question)
    assert content.body == case["json"].encode() + bytes.fromhex(case["hex"])
    assert content.media_type == "application/octet-stream"
    assert dict(content.headers) == {"inference-header-content-length": str(len(case["json"]))}


@pytest.mark.parametrize(
    ("datatype", "raw"),
    [
        ("INT64", "0100000000000000 0000000000000000"),
        ("INT8", "01 00"),
        ("UINT32", "01000000 00000000"),
        ("BOOL", "01 00"),
        ("FP16", "003c 0000"),
        ("BF16", "803f 0000"),
        ("FP32", "0000803f 00000000"),
        ("FP64", "000000000000f03f 0000000000000000"),
    ],
)
def test_a_mask_may_come_in_any_numbers(datatype: str, raw: str) -> None:
    """Also mixed with ids that stand in the JSON."""
    ids = {"name": "input_ids", "shape": [1, 2], "datatype": "INT64", "data": [5, 6]}
    binary = bytes.fromhex(raw)
    question = parse(*framed({"inputs": [ids, behind("attention_mask", [1, 2], datatype, len(binary))]}, binary))
    assert isinstance(question.rows, TokenRows)
    assert (question.rows.ids, question.rows.masks) == ([[5, 6]], [[1, 0]])
    assert all(type(value) is int for value in question.rows.masks[0])


def test_texts_stand_behind_their_lengths() -> None:
    """As UTF-8."""
    raw = b"\x02\0\0\0\xc3\xa9\0\0\0\0"
    assert parse(*framed({"inputs": [behind("text", [2], "BYTES", len(raw))]}, raw)).texts == ["é", ""]


@pytest.mark.parametrize(
    ("binary", "header", "param"),
    [
        (b"", "x", "inference-header-content-length"),
        (b"", "-1", "inference-header-content-length"),
        (b"", "0", "inference-header-content-length"),
        (b"", "9999", "inference-header-content-length"),
        (b"\0" * 7, None, "inputs"),
        (b"\0" * 9, None, "inputs"),
    ],
)
def test_lengths_that_do_not_fit_are_refused(binary: bytes, header: str | None, param: str) -> None:
    """Of the JSON and of the tensors; raw mode is refused by name."""
    body, length = framed({"inputs": [behind("input_ids", [1, 1], "INT64", 8)]}, binary)
    with pytest.raises(BadRequest) as refused:
        parse(body, length if header is None else header)
    assert refused.value.param == param


@pytest.mark.parametrize(
    "tensor",
    [
        behind("text", [1], "BYTES", 8) | {"data": ["a"]},
        behind("text", [1], "BYTES", True),
        behind("text", [1], "BYTES", 7),
        behind("text", [2], "BYTES", 8),
        behind("text", [1], "TEXT", 8),
        behind("text", [-1], "BYTES", 8),
        behind("input_ids", [1, 1], "FP64", 8),
        behind("input_ids", [1, 2], "INT64", 8),
        {"name": "text", "shape": [1], "datatype": "BYTES"},
        {"name": "text", "shape": [1], "datatype": "BYTES", "parameters": {"shared_memory_region": "r"}},
        {"name": "text", "shape": [1], "datatype": "BYTES", "data": [None]},
        {"name": "input_ids", "shape": [1, 1], "datatype": "INT8", "data": [128]},
        {"name": "input_ids", "shape": [1, 1], "datatype": "UINT8", "data": [-1]},
    ],
)
def test_a_tensor_that_is_not_as_declared_is_refused(tensor: dict[str, Any]) -> None:
    """The field at fault is an input."""
    binary = b"\x04\0\0\0\xff\xff\xff\xff" if "binary_data_size" in tensor.get("parameters", {}) else b""
    with pytest.raises(BadRequest) as refused:
        parse(*framed({"inputs": [tensor]}, binary))
    assert refused.value.param in ("inputs", "text", "input_ids")


@pytest.mark.parametrize("value", [0.5, 2.0, float("nan")])
def test_a_mask_of_other_numbers_is_refused(value: float) -> None:
    """0 and 1 are all there is."""
    ids = {"name": "input_ids", "shape": [1, 1], "datatype": "INT64", "data": [5]}
    raw = np.array([value], "<f4").tobytes()
    with pytest.raises(BadRequest, match="other than 0 and 1"):
        parse(*framed({"inputs": [ids, behind("attention_mask", [1, 1], "FP32", 4)]}, raw))


@pytest.mark.parametrize(
    ("fields", "form"),
    [
        ({}, oip.Form("embedding")),
        ({"outputs": []}, oip.Form("embedding")),
        ({"parameters": {"binary_data_output": True}}, oip.Form("embedding", binary=True)),
        (
            {
                "parameters": {"binary_data_output": True},
                "outputs": [{"name": "embedding", "parameters": {"binary_data": False}}],
            },
            oip.Form("embedding"),
        ),
        (
            {"parameters": {"binary_data_output": True}, "outputs": [{"name": "embedding"}]},
            oip.Form("embedding", binary=True),
        ),
        ({"outputs": [{"name": "embedding", "parameters": {"binary_data": True}}]}, oip.Form("embedding", binary=True)),
        ({"parameters": {"output_datatype": "FP16"}}, oip.Form("embedding", datatype="FP16")),
    ],
)
def test_the_output_comes_as_it_is_asked_for(fields: dict[str, Any], form: oip.Form) -> None:
    """What is said of one output goes before what is said of all."""
    assert parse(*framed({"inputs": [TEXT], **fields})).forms == (form,)


@pytest.mark.parametrize(
    ("parameters", "param"),
    [
        ({"timeout": -1}, "timeout"),
        ({"timeout": 1.5}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"timeout": 1 << 63}, "timeout"),
        ({"priority": "high"}, "priority"),
        ({"priority": -1}, "priority"),
        ({"sequence_id": 3}, "sequence_id"),
        ({"sequence_start": True}, "sequence_start"),
        ({"binary_data_output": 1}, "binary_data_output"),
        ({"output_datatype": "FP64"}, "output_datatype"),
        ({"output_datatype": True}, "output_datatype"),
    ],
)
def test_a_parameter_that_cannot_be_followed_is_refused(parameters: dict[str, Any], param: str) -> None:
    """By its name."""
    with pytest.raises(BadRequest) as refused:
        parse(*framed({"inputs": [TEXT], "parameters": parameters}))
    assert refused.value.param == param


@pytest.mark.parametrize(
    "outputs",
    [
        [{"name": "embedding"}, {"name": "embedding"}],
        [{"name": "embedding", "parameters": {"classification": 3}}],
        [{"name": "embedding", "parameters": {"shared_memory_region": "r"}}],
        [{"name": "embedding", "parameters": {"binary_data": "yes"}}],
    ],
)
def test_an_output_that_cannot_be_given_is_refused(outputs: list[Any]) -> None:
    """Twice, as classes, in shared memory, and in a form that is none."""
    with pytest.raises(BadRequest):
        parse(*framed({"inputs": [TEXT], "outputs": outputs}))


def test_parameters_that_clients_send_are_taken() -> None:
    """A time-out in microseconds, 0 for none; a priority without effect; empty sequence fields; names of others."""
    given = {"timeout": 1500, "priority": 2, "sequence_id": 0, "sequence_start": False, "triton_enable": "x", "a": 1.5}
    assert parse(*framed({"inputs": [TEXT], "parameters": given})).timeout_ms == 1.5
    assert parse(*framed({"inputs": [TEXT], "parameters": {"timeout": 0}})).timeout_ms is None


@pytest.mark.parametrize("binary", [True, False])
def test_numbers_beyond_the_narrow_type_are_refused(binary: bool) -> None:
    """Rather than sent as infinity, which JSON has not."""
    question = oip.Question(None, ["a"], None, (oip.Form("embedding", binary, "FP16"),))
    with pytest.raises(BadRequest, match="beyond FP16"):
        oip.render(predicted([70000.0, 1.0]), "m", "v", question)


def test_narrow_numbers_in_json_are_those_of_the_bytes() -> None:
    """The reader of either form gets the same values."""
    content = oip.render(
        predicted([0.1, 1.0]), "m", "v", oip.Question(None, ["a"], None, (oip.Form("embedding", False, "FP16"),))
    )
    (output,) = json.loads(content.body)["outputs"]
    assert (output["datatype"], output["data"]) == ("FP16", [0.099975586, 1.0])


names = st.sampled_from(["text", "input_ids", "attention_mask", "other"])
sizes = st.integers(-1, 40) | st.booleans() | st.text(max_size=2)
tensors = st.fixed_dictionaries(
    {
        "name": names,
        "shape": st.lists(st.integers(-1, 4) | st.just(1 << 40), max_size=3),
        "datatype": st.sampled_from(["BYTES", "INT64", "FP32", "BF16", "BOOL", "x"]),
    },
    optional={
        "data": st.lists(st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2), max_size=4),
        "parameters": st.dictionaries(st.sampled_from(["binary_data_size", "a"]), sizes, max_size=2),
    },
)


@unhurried
@given(st.lists(tensors, max_size=3), st.binary(max_size=40), st.none() | st.integers(-2, 400))
def test_any_request_is_a_question_or_refused(inputs: list[Any], binary: bytes, length: int | None) -> None:
    """No other exception, whatever the lengths say."""
    body, true_length = framed({"inputs": inputs}, binary)
    for header in (true_length, None if length is None else str(length)):
        try:
            question = parse(body, header)
        except BadRequest:
            continue
        assert (question.texts is None) != (question.rows is None)
