"""Tensors out of what protocols declare, and what is no tensor."""

from typing import Any

import numpy as np
import pytest

from gateway.core.compare.content import MAX_AXES, Tensor, Unreadable, numbers_of, tensor, type_name
from gateway.core.compare.result import PairKind


def read(found: Tensor | Unreadable) -> Tensor:
    assert isinstance(found, Tensor), found
    return found


def refused(found: Tensor | Unreadable) -> Unreadable:
    assert isinstance(found, Unreadable)
    return found


@pytest.mark.parametrize("data", [[1.0, 2.0, 3.0, 4.0], [[1.0, 2.0], [3.0, 4.0]], [[[1.0], [2.0]], [[3.0], [4.0]]]])
def test_flat_and_nested_data_are_the_same(data: list[Any]) -> None:
    """The declared shape decides; nesting is only a way of writing."""
    assert read(tensor("FP32", [2, 2], data)).values.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_floats_take_the_precision_they_declare() -> None:
    """FP32 written with seventeen digits is the float32 it came from; a whole number is a float."""
    third = float(np.float32(1 / 3))
    assert read(tensor("FP32", [2], [1 / 3, 1])).values.tolist() == [third, 1.0]
    assert read(tensor("FP64", [1], [1 / 3])).values.tolist() == [1 / 3]


def test_a_number_beyond_the_datatype_is_infinite() -> None:
    """1e300 is no float32, and a 400-digit number no float at all."""
    assert np.isinf(read(tensor("FP32", [1], [1e300])).values).all()
    assert refused(tensor("FP64", [2], [1.5, 10**400])).kind is PairKind.INFINITY


def test_null_in_floats_is_no_number() -> None:
    """JSON has no NaN; encoders write null."""
    assert np.isnan(read(tensor("FP32", [2], [None, 1.0])).values).tolist() == [True, False]
    assert refused(tensor("INT32", [1], [None])).kind is PairKind.DTYPE


@pytest.mark.parametrize(
    ("datatype", "fits", "beyond"),
    [
        ("INT8", [-128, 127], [128]),
        ("UINT8", [0, 255], [-1]),
        ("INT64", [-(2**63), 2**63 - 1], [2**63]),
        ("UINT64", [0, 2**64 - 1], [2**64]),
    ],
)
def test_integers_are_exact_and_bounded(datatype: str, fits: list[int], beyond: list[int]) -> None:
    """Every value of a datatype is kept exactly, none beyond it."""
    assert [int(x) for x in read(tensor(datatype, [2], fits)).values] == fits
    assert refused(tensor(datatype, [1], beyond)).text == f"an element is outside of what {datatype} holds"


@pytest.mark.parametrize(
    ("datatype", "data"),
    [("BOOL", [1]), ("INT32", [True]), ("FP32", [True]), ("INT32", [1.0]), ("BYTES", [1]), ("FP32", ["1"])],
)
def test_booleans_numbers_and_text_are_apart(datatype: str, data: list[Any]) -> None:
    """An element of another type is refused, without showing it."""
    assert refused(tensor(datatype, [1], data)).kind is PairKind.DTYPE


@pytest.mark.parametrize(
    ("shape", "data", "kind"),
    [
        ([3], [1.0, 2.0], PairKind.SHAPE),
        ([2], [[1.0], 2.0], PairKind.SHAPE),
        ([-1], [1.0], PairKind.SHAPE),
        ([True], [1.0], PairKind.SHAPE),
        ([1] * (MAX_AXES + 1), [1.0], PairKind.SHAPE),
        ([1], "x", PairKind.UNDECODABLE),
        ([1], None, PairKind.UNDECODABLE),
    ],
)
def test_shape_and_data_must_fit(shape: list[int], data: object, kind: PairKind) -> None:
    """As many elements as declared, evenly nested, a shape of whole numbers."""
    assert refused(tensor("FP32", shape, data)).kind is kind


def test_deep_nesting_ends() -> None:
    """A thousand brackets are refused, not followed."""
    data: list[Any] = [1.0]
    for _ in range(1000):
        data = [data]
    assert refused(tensor("FP32", [1], data)).kind is PairKind.SHAPE
    assert refused(numbers_of(data)).kind is PairKind.SHAPE


def test_unknown_datatypes_are_refused() -> None:
    """Neither a name of another world nor the name for undeclared numbers."""
    for name in ("float32", "number", ""):
        assert refused(tensor(name, [1], [1.0])).kind is PairKind.DTYPE


@pytest.mark.parametrize(
    ("value", "shape", "datatype"),
    [
        (1.5, (), "number"),
        ([1, 2.5], (2,), "number"),
        ([[1, 2], [3, 4]], (2, 2), "number"),
        ([], (0,), "number"),
        ([[], []], (2, 0), "number"),
        ([True], (1,), "BOOL"),
        ("x", (), "BYTES"),
        ([2**70], (1,), "number"),
    ],
)
def test_plain_json_becomes_a_tensor(value: object, shape: tuple[int, ...], datatype: str) -> None:
    """The shape is that of the nesting; numbers of any size are kept."""
    found = read(numbers_of(value))
    assert (found.shape, found.datatype) == (shape, datatype)


@pytest.mark.parametrize("value", [[[1], [1, 2]], [[1], 2], [1, [2]], [1, True], [1, "a"], {"a": 1}, [2**2000]])
def test_uneven_or_mixed_json_is_no_tensor(value: object) -> None:
    """Lists of different lengths, and elements of different types."""
    refused(numbers_of(value))


def test_types_in_words() -> None:
    """JSON's own words; a boolean is no number."""
    values = [None, True, 1, 1.0, "a", b"a", [], {}, numbers_of(1), object()]
    assert [type_name(value) for value in values] == [
        "null", "boolean", "number", "number", "text", "bytes", "list", "object", "number", "nothing that JSON knows",
    ]  # fmt: skip
