"""Protocol answers as policies name them."""

import base64
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.content import Tensor, Unreadable
from gateway.core.compare.policy import ContentKind
from gateway.core.compare.protocols import content_kind, readable
from gateway.core.compare.result import PairKind


def item(index: int | None, *values: float, as_base64: bool = False) -> dict[str, Any]:
    raw = struct.pack(f"<{len(values)}f", *values)
    found: dict[str, Any] = {"embedding": base64.b64encode(raw).decode() if as_base64 else list(values)}
    return found if index is None else {**found, "index": index}


def embeddings(*items: object) -> Any:
    answer = readable(ContentKind.EMBEDDINGS, {"data": list(items), "model": "m"})
    assert isinstance(answer, dict)
    return answer["data"]


def outputs(*declared: object) -> Any:
    answer = readable(ContentKind.INFER, {"model_name": "m", "outputs": list(declared)})
    assert isinstance(answer, dict)
    return answer["outputs"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/v1/embeddings", ContentKind.EMBEDDINGS),
        ("/v1/chat/completions", ContentKind.CHAT),
        ("/v1/completions", ContentKind.COMPLETIONS),
        ("/v2/models/m/infer", ContentKind.INFER),
        ("/v2/models/m/versions/3/infer", ContentKind.INFER),
        ("/v2/models/m", ContentKind.JSON),
        ("/rerank", ContentKind.JSON),
    ],
)
def test_the_path_says_what_is_answered(path: str, kind: ContentKind) -> None:
    """Known routes by name, everything else is plain JSON."""
    assert content_kind(path) is kind


def test_embeddings_come_in_order_and_in_one_form() -> None:
    """By index; base64 and numbers give the same float32."""
    there = embeddings(item(1, 0.1, 0.2, as_base64=True), item(0, 1.0, 2.0))
    back = embeddings(item(0, 1.0, 2.0, as_base64=True), item(1, 0.1, 0.2))
    for found in (there, back):
        assert [entry["index"] for entry in found] == [0, 1]
    assert [e["embedding"].values.tolist() for e in there] == [e["embedding"].values.tolist() for e in back]
    assert {e["embedding"].datatype for e in there} == {"FP32"}


def test_answers_without_an_index_keep_their_order() -> None:
    """Some servers leave it out."""
    assert [e["embedding"].values.tolist() for e in embeddings(item(None, 2.0), item(None, 1.0))] == [[2.0], [1.0]]


@pytest.mark.parametrize("indices", [(0, 0), (1, 2), (0, None), (0, "1"), (False, 1), (-1, 0)])
def test_indices_must_be_an_order(indices: tuple[Any, Any]) -> None:
    """Otherwise nobody knows which vector is whose."""
    found = embeddings(*({"index": index, "embedding": [1.0]} for index in indices))
    assert isinstance(found, Unreadable)
    assert found.kind is PairKind.UNDECODABLE


@pytest.mark.parametrize("value", ["%%", "AAA=", "é", "AAAAAAA="])
def test_a_broken_vector_is_unreadable_in_its_place(value: str) -> None:
    """No base64, or no whole number of float32."""
    (found,) = embeddings({"index": 0, "embedding": value})
    assert isinstance(found["embedding"], Unreadable)


def test_outputs_are_named() -> None:
    """An object from name to tensor; what stood behind the JSON is one already, or what became of it."""
    behind, broken = Tensor("FP32", np.array([1.5, 2.5])), Unreadable(PairKind.SHAPE, "x")
    found = outputs(
        {"name": "b", "datatype": "FP32", "shape": [2], "data": behind},
        {"name": "a", "datatype": "INT64", "shape": [1, 2], "data": [[1, 2]]},
        {"name": "c", "data": broken},
    )
    assert found["b"] is behind
    assert found["a"].values.tolist() == [[1, 2]]
    assert found["c"] is broken


@pytest.mark.parametrize("declared", [[{"datatype": "FP32"}], [{"name": "a"}, {"name": "a"}], [5]])
def test_outputs_that_cannot_be_told_apart(declared: list[Any]) -> None:
    """Without names of their own none of them is trusted."""
    assert isinstance(outputs(*declared), Unreadable)


@pytest.mark.parametrize(
    "declared",
    [
        {"name": "a"},
        {"name": "a", "datatype": "FP32", "shape": [2], "data": [1.0]},
        {"name": "a", "datatype": 5, "shape": [1], "data": [1.0]},
        {"name": "a", "datatype": "FP32", "shape": "1", "data": [1.0]},
    ],
)
def test_one_broken_output_is_unreadable_alone(declared: dict[str, Any]) -> None:
    """The others can still be compared."""
    found = outputs(declared, {"name": "good", "datatype": "FP32", "shape": [1], "data": [1.0]})
    assert isinstance(found["a"], Unreadable)
    assert isinstance(found["good"], Tensor)


@pytest.mark.parametrize("document", [None, [], "x", {}, {"data": None}, {"outputs": {}}, {"data": 5, "outputs": "x"}])
@pytest.mark.parametrize("kind", list(ContentKind))
def test_other_documents_stay_as_they_are(kind: ContentKind, document: object) -> None:
    """What is missing is for the comparison to say."""
    assert readable(kind, document) == document


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["data", "outputs", "embedding", "index", "name", "shape", "datatype", "parameters"]),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=10,
)


@given(st.sampled_from(ContentKind), anything, anything)
def test_foreign_answers_never_raise(kind: ContentKind, data: object, extra: object) -> None:
    """Whatever an arm sends becomes a document."""
    readable(kind, {"data": data, "outputs": [data, extra]})
    readable(kind, {"data": [data, {"embedding": extra}], "outputs": data})
    readable(kind, data)
