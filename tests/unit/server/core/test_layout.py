"""Whether a signature and a catalogue fit together."""

import pytest

from server.core.layout import holds, problems, shape_in, sizes_of
from server.core.signature import ModelSignature, TensorSpec, embedding, of_tokens
from server.core.types import Bucket

PIXELS = TensorSpec("pixels", "FP32", (-1, 3, -1, -1), ("height", "width"))
LABEL = TensorSpec("label", "INT64", (-1,))
NAMES = ("width", "height")
BUCKETS = (Bucket(1, 8, (4,)), Bucket(2, 8, (4,)))


def test_shapes_follow_the_names_not_the_order_of_the_catalogue() -> None:
    """Width stands first in this one."""
    assert shape_in(PIXELS, BUCKETS[1], NAMES) == (2, 3, 4, 8)
    assert sizes_of((PIXELS,), {"pixels": (2, 3, 4, 8)}) == {"height": {4}, "width": {8}}
    assert holds(PIXELS, (7, 3, 1, 1))
    assert not holds(PIXELS, (7, 1, 1, 1))
    assert problems(ModelSignature((PIXELS,), (LABEL,)), NAMES, BUCKETS) == []


@pytest.mark.parametrize(
    ("signature", "names", "parts"),
    [
        (
            ModelSignature((PIXELS,), (LABEL,)),
            ("height", "depth"),
            ["'width', the catalogue has depth, height", "catalogue.depth: no input"],
        ),
        (
            ModelSignature((TensorSpec("x", "FP32", (-1, -1)),), (LABEL,)),
            ("n",),
            ["inputs.x.shape: got [-1, -1]", "catalogue.n"],
        ),
        (
            ModelSignature((PIXELS,), (TensorSpec("map", "FP32", (-1, -1)),), padding="zeros"),
            NAMES,
            ["outputs.map.shape"],
        ),
        (
            ModelSignature((TensorSpec("x", "FP32", (4, 2)),), (LABEL,)),
            (),
            ["inputs.x.shape: got [4, 2]", "has [1, 2]"],
        ),
        (ModelSignature((TensorSpec("x", "BYTES", (-1, 2)),), (LABEL,)), (), ["inputs.x.datatype: got BYTES"]),
        (of_tokens(TensorSpec("states", "FP32", (-1, -1, 8)), task="tensors"), ("length",), ["outputs.states.shape"]),
        (embedding(4), ("sequence",), ["the catalogue has sequence", "catalogue.sequence"]),
    ],
)
def test_every_reason_is_told(signature: ModelSignature, names: tuple[str, ...], parts: list[str]) -> None:
    """Field, value, and what is allowed."""
    found = "\n".join(problems(signature, names, BUCKETS))
    for part in parts:
        assert part in found


def test_a_batch_that_no_frame_carries_is_refused() -> None:
    """By its bytes."""
    huge = Bucket(1, 4000, (4000,))
    (found,) = problems(ModelSignature((PIXELS,), (LABEL,)), NAMES, (huge,))
    assert found == "catalogue: got 1x4000x4000, whose inputs are 192000000 bytes, allowed are 62914560"
