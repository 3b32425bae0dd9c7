"""Open Inference requests for models that take their own tensors."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.adapters.asgi import oip, oip_arrays
from server.core.signature import BYTES_EACH, Datatype, ModelSignature, TensorSpec
from server.core.tensors import Raw, TensorRows
from server.core.types import BadRequest, Bucket
from server.runtime.predict import Prediction

SIGNATURE = ModelSignature(
    (TensorSpec("pixels", "FP32", (-1, 2, -1), ("width",)), TensorSpec("age", "INT32", (-1,))),
    (TensorSpec("scores", "FP32", (-1, 2)), TensorSpec("half", "BF16", (-1,)), TensorSpec("label", "INT64", (-1,)),
     TensorSpec("good", "BOOL", (-1,))),
)  # fmt: skip
AGE = {"name": "age", "datatype": "INT32", "shape": [1], "data": [3]}
PIXELS = {"name": "pixels", "datatype": "FP32", "shape": [1, 2, 2], "data": [[[1, 2], [3, 4.5]]]}


def parse(*tensors: dict[str, Any], binary: bytes = b"", **fields: Any) -> oip.Question:
    head = json.dumps({"inputs": list(tensors), **fields}).encode()
    return oip.parse(head + binary, str(len(head)), SIGNATURE, ("width",))


def test_numbers_come_in_the_json_or_behind_it() -> None:
    """Nested or flat, in any order of the inputs, and narrower where nothing is lost."""
    behind = {"name": "age", "datatype": "UINT8", "shape": [1], "parameters": {"binary_data_size": 1}}
    rows = parse(behind, PIXELS, binary=b"\x07").rows
    assert isinstance(rows, TensorRows)
    assert (rows.count, rows.sizes) == (1, (2,))
    assert rows.tensors["pixels"].array().tolist() == [[[1, 2], [3, 4.5]]]
    assert (rows.tensors["age"].datatype, rows.tensors["age"].array().tolist()) == ("INT32", [7])
    half = {**PIXELS, "datatype": "BF16", "data": [0.1] * 4}
    narrow = parse(AGE, half).rows
    assert isinstance(narrow, TensorRows)
    assert narrow.tensors["pixels"].array()[0, 0, 0] == np.float32(0.10009765625)


@pytest.mark.parametrize(
    ("tensors", "param", "part"),
    [
        ([PIXELS], "inputs", "allowed are pixels FP32"),
        ([PIXELS, AGE, AGE], "inputs", "each once"),
        ([PIXELS, {**AGE, "datatype": "INT64"}], "age", "allowed is UINT8 or UINT16 or INT8 or INT16 or INT32"),
        ([{**PIXELS, "datatype": "INT32", "data": [1] * 4}, AGE], "pixels", "allowed is FP16 or BF16 or FP32"),
        ([{**PIXELS, "shape": [1, 3, 2]}, AGE], "pixels", "allowed is [-1, 2, 'width']"),
        ([{**PIXELS, "shape": [1, 2, 0], "data": []}, AGE], "pixels", "shape"),
        ([{**PIXELS, "shape": [4], "data": [1] * 4}, AGE], "pixels", "shape"),
        ([{**PIXELS, "shape": []}, AGE], "pixels", "shape"),
        ([PIXELS, {**AGE, "shape": [2], "data": [1, 2]}], "inputs", "one number of them"),
        ([{**PIXELS, "data": [1e39] * 4}, AGE], "pixels", "beyond FP32"),
        ([{**PIXELS, "datatype": "FP16", "data": [7e4] * 4}, AGE], "pixels", "beyond FP16"),
        ([{**PIXELS, "data": [10**400] * 4}, AGE], "pixels", "beyond FP32"),
        ([{**PIXELS, "data": [1, 2, 3]}, AGE], "pixels", "got 3 values"),
        ([{**PIXELS, "data": [True] * 4}, AGE], "pixels", "other than numbers"),
        ([PIXELS, {**AGE, "data": [1 << 31]}], "age", "outside of INT32"),
    ],
)
def test_what_is_not_the_models_input_is_refused(tensors: list[Any], param: str, part: str) -> None:
    """Field, value and what is allowed."""
    with pytest.raises(BadRequest) as refused:
        parse(*tensors)
    assert refused.value.param == param
    assert part in refused.value.message


def test_sizes_of_one_name_must_agree() -> None:
    """Two inputs that share a dimension."""
    signature = ModelSignature(
        (TensorSpec("a", "FP32", (-1, -1), ("n",)), TensorSpec("b", "FP32", (-1, -1), ("n",))), SIGNATURE.outputs
    )
    tensors = [
        {"name": n, "datatype": "FP32", "shape": [1, size], "data": [0] * size} for n, size in (("a", 2), ("b", 3))
    ]
    with pytest.raises(BadRequest, match=r"got \[2, 3\] for n"):
        oip.parse(json.dumps({"inputs": tensors}).encode(), None, signature, ("n",))


@given(st.sampled_from([*BYTES_EACH]), st.sampled_from([*BYTES_EACH]))
def test_only_what_loses_nothing_fits(given_: str, declared: Datatype) -> None:
    """A wider type never goes into a narrower one."""
    if oip_arrays.fits(given_, declared):
        assert BYTES_EACH[given_] <= BYTES_EACH[declared]  # type: ignore[index]  # drawn from its keys


def predicted() -> Prediction:
    outputs = {
        "scores": Raw.of("FP32", np.array([[0.5, 1e6]])),
        "half": Raw.of("FP32", np.array([0.5])),
        "label": Raw.of("INT64", np.array([1 << 60])),
        "good": Raw.of("BOOL", np.array([True])),
    }
    return Prediction(outputs, 1, 0, Bucket(1, 2), 0.0, 0.0, 0.0)


def test_every_output_comes_as_declared() -> None:
    """Whole numbers exactly, booleans as such, BF16 as two bytes."""
    question = parse(PIXELS, AGE)
    answer = json.loads(oip.render(predicted(), "m", "v", question).body)
    assert [(each["name"], each["datatype"], each["shape"], each["data"]) for each in answer["outputs"]] == [
        ("scores", "FP32", [1, 2], [0.5, 1e6]),
        ("half", "BF16", [1], [0.5]),
        ("label", "INT64", [1], [1 << 60]),
        ("good", "BOOL", [1], [True]),
    ]
    content = oip.render(predicted(), "m", "v", parse(PIXELS, AGE, parameters={"binary_data_output": True}))
    head = int(content.headers["inference-header-content-length"])
    assert content.body[head + 8 :] == b"\x00\x3f" + (1 << 60).to_bytes(8, "little") + b"\x01"


def test_the_narrow_type_is_for_floats_alone() -> None:
    """And for those that hold the answer."""
    question = parse(PIXELS, AGE, parameters={"output_datatype": "FP16"}, outputs=[{"name": "label"}, {"name": "half"}])
    answer = json.loads(oip.render(predicted(), "m", "v", question).body)
    assert [(each["name"], each["datatype"]) for each in answer["outputs"]] == [("label", "INT64"), ("half", "FP16")]
    with pytest.raises(BadRequest, match="scores is beyond FP16"):
        oip.render(predicted(), "m", "v", parse(PIXELS, AGE, parameters={"output_datatype": "FP16"}))


shapes = st.lists(st.integers(-1, 3) | st.just(1 << 40), max_size=4)
tensors = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["pixels", "age", "text"]),
        "shape": shapes,
        "datatype": st.sampled_from(["FP32", "INT32", "BF16", "BOOL", "BYTES", "x"]),
    },
    optional={
        "data": st.lists(st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=6),
        "parameters": st.dictionaries(st.just("binary_data_size"), st.integers(-1, 40) | st.booleans(), max_size=1),
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(tensors, max_size=3), st.binary(max_size=40))
def test_any_request_is_rows_or_refused(inputs: list[Any], binary: bytes) -> None:
    """No other exception, whatever shapes and sizes say."""
    try:
        question = parse(*inputs, binary=binary)
    except BadRequest:
        return
    assert isinstance(question.rows, TensorRows)
