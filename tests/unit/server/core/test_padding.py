"""Batches of tensors: whose rows are whose, whatever else is in the batch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.core.batch import Batch, Lanes, Waiting
from server.core.catalog import Catalogue, Exclusion
from server.core.costs import Costs
from server.core.padding import pad, shortened, split, stretched
from server.core.parts import cut, join
from server.core.signature import ModelSignature, TensorSpec
from server.core.tensors import Raw, TensorRows
from server.core.types import Bucket, ShapeNotServed

NAMES = ("height", "width")
CATALOGUE = Catalogue((1, 4), (2, 3), names=NAMES, more=((2, 5),), exact=True)
SIGNATURE = ModelSignature(
    (TensorSpec("pixels", "FP32", (-1, 3, -1, -1), NAMES), TensorSpec("age", "INT32", (-1,))),
    (TensorSpec("map", "FP32", (-1, -1, -1), NAMES), TensorSpec("age", "INT64", (-1,))),
)


def request(number: int, rows: int, sizes: tuple[int, ...]) -> TensorRows:
    """Pixels and ages that tell request and row."""
    marks = np.arange(rows, dtype=np.float32) + 100 * number
    pixels = np.broadcast_to(marks[:, None, None, None], (rows, 3, *sizes))
    return TensorRows({"pixels": Raw.of("FP32", pixels), "age": Raw.of("INT32", marks)}, sizes)


def device(batch: Batch) -> dict[str, Raw]:
    """What a model of these rows alone gives: the mean over the channels, and twice the age."""
    inputs = pad(batch)
    assert inputs["pixels"].shape == (batch.bucket.batch, 3, *batch.bucket.sizes)
    return {
        "map": Raw.of("FP32", inputs["pixels"].array().mean(axis=1)),
        "age": Raw.of("INT64", inputs["age"].array() * 2),
    }


@given(
    st.lists(st.tuples(st.integers(1, 4), st.sampled_from([(2, 2), (2, 5), (3, 2), (3, 5)])), min_size=1, max_size=12)
)
def test_an_answer_depends_on_no_neighbour(shapes: list[tuple[int, tuple[int, ...]]]) -> None:
    """Requests of one size share batches, each gets its own rows of every output, and padding reaches nobody."""
    lanes = Lanes(CATALOGUE, Costs(CATALOGUE))
    for ticket, (rows, sizes) in enumerate(shapes):
        lanes.add(Waiting(ticket, request(ticket, rows, sizes), sizes, 0.0))
    answered = 0
    while (batch := lanes.take(0.0).batch) is not None:
        assert batch.bucket in CATALOGUE.buckets()
        shares = split(device(batch), [member.asked.count for member in batch.members])
        for member, share in zip(batch.members, shares, strict=True):
            alone = split(
                device(Batch(Bucket.of((member.asked.count, *member.sizes)), (member,))), [member.asked.count]
            )
            assert share == alone[0]
            answered += 1
    assert answered == len(shapes)


def test_rows_beyond_the_requests_repeat_the_first_one() -> None:
    """A row that the model was made for, whatever it does with zeros."""
    batch = Batch(Bucket(4, 2, (2,)), (Waiting(1, request(1, 2, (2, 2)), (2, 2), 0.0),))
    assert pad(batch)["age"].array().tolist() == [100, 101, 100, 100]


@given(st.integers(1, 9), st.integers(1, 4))
def test_a_large_request_comes_back_in_its_order(rows: int, most: int) -> None:
    """Cut into parts and joined again."""
    whole = request(3, rows, (2, 5))
    parts = cut(whole, lambda sizes: most)
    assert all(part.rows.count <= most for part in parts)
    tensors = [part.rows.tensors for part in parts if isinstance(part.rows, TensorRows)]
    assert join(parts, tensors) == whole.tensors


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 5))
def test_what_was_appended_is_cut_again(rows: int, height: int, width: int) -> None:
    """Zeros behind the pixels; outputs of the request's own size."""
    own = request(2, rows, (height, width))
    grown = stretched(own, SIGNATURE, NAMES, (3, 5))
    pixels = grown.tensors["pixels"].array()
    assert pixels.shape == (rows, 3, 3, 5)
    assert pixels.sum() == pytest.approx(own.tensors["pixels"].array().sum())
    outputs = {"map": Raw.of("FP32", pixels.mean(axis=1)), "age": Raw.of("INT64", own.tensors["age"].array())}
    found = shortened(outputs, SIGNATURE, NAMES, own.sizes)
    np.testing.assert_array_equal(found["map"].array(), own.tensors["pixels"].array().mean(axis=1))
    assert found["age"] is outputs["age"]


@pytest.mark.parametrize(("shape", "size"), [((2, 2), 15), ((0, 2), 0), ((), 4)])
def test_bytes_that_are_not_the_shape_are_no_tensor(shape: tuple[int, ...], size: int) -> None:
    """Nor are none at all."""
    with pytest.raises(ValueError, match="tensor: got"):
        Raw("FP32", shape, bytes(size))


def test_an_exact_catalogue_grows_in_the_batch_alone() -> None:
    """Also where another size would have fewer cells."""
    without = (Exclusion((("batch", 1, 1), ("height", 2, 2))),)
    exact = Catalogue((1, 4), (2, 3), names=NAMES, more=((2, 5),), exclude=without, exact=True)
    assert exact.fit(1, 2, 2) == Bucket(4, 2, (2,))
    assert replace(exact, exact=False).fit(1, 2, 2) == Bucket(1, 3, (2,))
    refused = exact.fit(1, 2, 4)
    assert isinstance(refused, ShapeNotServed)
    assert "got 1 rows of height 2, width 4, a batch here takes at most 4 rows of exactly the declared" in str(refused)
