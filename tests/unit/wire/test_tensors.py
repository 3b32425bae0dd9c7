"""Elements as bytes, against bytes that were written by hand, and against bytes that nobody would write."""

import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wire.tensors import DATATYPES, MAX_AXES, BadTensor, Wrong, from_raw, narrowed, to_raw

# A slow machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

GOLDEN: Any = json.loads((Path(__file__).parents[2] / "data" / "oip_golden.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["tensors"], ids=lambda case: f"{case['datatype']}{case['shape']}")
def test_golden_bytes_both_ways(case: Any) -> None:
    """Every datatype; to the last bit."""
    raw = bytes.fromhex(case["hex"])
    values = from_raw(case["datatype"], case["shape"], raw)
    flat = [each.decode() if isinstance(each, bytes) else each for each in values.ravel().tolist()]
    assert (list(values.shape), flat) == (case["shape"], case["values"])
    assert to_raw(case["datatype"], values) == raw


def test_every_datatype_has_golden_bytes() -> None:
    """None is forgotten."""
    assert {case["datatype"] for case in GOLDEN["tensors"]} == DATATYPES


@pytest.mark.parametrize("case", GOLDEN["rounded_to_bf16"], ids=lambda case: case["why"])
def test_bfloat16_is_rounded_to_nearest_even(case: Any) -> None:
    """Cutting off the lower half would be off by up to a whole step, always towards zero."""
    number = np.frombuffer(bytes.fromhex(case["fp32"]), "<f4")
    assert to_raw("BF16", number).hex() == case["bf16"]


def test_narrowing_is_what_the_other_side_will_read() -> None:
    """FP32 passes as it is."""
    numbers = np.array([[1.0009765625, 0.1]], dtype=np.float32)
    assert narrowed("FP32", numbers) is numbers
    assert narrowed("FP16", numbers).tolist() == [[1.0009765625, 0.0999755859375]]
    assert narrowed("BF16", numbers).tolist() == [[1.0, 0.10009765625]]
    assert narrowed("BF16", numbers).dtype == np.float32


@pytest.mark.parametrize(
    ("datatype", "shape", "raw", "wrong"),
    [
        ("FP32", [2], b"\0" * 7, Wrong.SIZE),
        ("FP32", [2], b"\0" * 12, Wrong.SIZE),
        ("FP32", [], b"", Wrong.SIZE),
        ("INT64", [1 << 50], b"\0" * 8, Wrong.SIZE),
        ("BYTES", [1 << 50], b"", Wrong.SIZE),
        ("INT64", [1 << 62, 1 << 62], b"\0" * 8, Wrong.SHAPE),
        ("FP32", [0, 1 << 70], b"", Wrong.SHAPE),
        ("BYTES", [1 << 40, 0, 1 << 40], b"", Wrong.SHAPE),
        ("BYTES", [2], b"\x01\0\0\0a", Wrong.SIZE),
        ("BYTES", [2], b"\x09\0\0\0ab", Wrong.ELEMENT),
        ("BYTES", [1], b"\xff\xff\xff\xffab", Wrong.ELEMENT),
        ("BYTES", [2], b"\1", Wrong.ELEMENT),
        ("float32", [1], b"\0" * 4, Wrong.DATATYPE),
        ("", [1], b"\0" * 4, Wrong.DATATYPE),
        ("FP32", [-1], b"", Wrong.SHAPE),
        ("FP32", [1] * (MAX_AXES + 1), b"\0" * 4, Wrong.SHAPE),
        ("FP32", [True], b"\0" * 4, Wrong.SHAPE),
    ],
)
def test_what_does_not_fit_is_refused_by_what_is_wrong(datatype: str, shape: Any, raw: bytes, wrong: Wrong) -> None:
    """Too few bytes, left-over ones, lengths past the end, and declarations of another world."""
    with pytest.raises(BadTensor) as refused:
        from_raw(datatype, shape, raw)
    assert refused.value.wrong is wrong


shapes = st.lists(st.integers(-1, 1 << 70) | st.integers(0, 4), max_size=MAX_AXES + 2)


@unhurried
@given(st.sampled_from(sorted(DATATYPES)) | st.text(max_size=8), shapes, st.binary(max_size=64))
def test_any_bytes_are_a_tensor_or_refused(datatype: str, shape: list[int], raw: bytes) -> None:
    """No other exception; what is read has the declared shape, and writes the same bytes again."""
    try:
        values = from_raw(datatype, shape, raw)
    except BadTensor:
        return
    assert values.shape == tuple(shape)
    if datatype not in ("BOOL", "BF16"):
        assert to_raw(datatype, values) == raw


@pytest.mark.parametrize("datatype", ["BYTES", "BOOL", "INT64"])
def test_memory_follows_the_body_and_not_the_declaration(datatype: str) -> None:
    """A shape of any size costs nothing, and the worst body a bounded multiple of its own size."""
    raw = b"\0" * 65536
    tracemalloc.start()
    try:
        for shape in ([1 << 62], [1 << 40, 1 << 40], [65536]):
            try:
                from_raw(datatype, shape, raw)
            except BadTensor:
                pass
        assert tracemalloc.get_traced_memory()[1] < 40 * len(raw)
    finally:
        tracemalloc.stop()


@unhurried
@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_bfloat16_is_the_nearest(number: float) -> None:
    """No other bfloat16 lies nearer."""
    single = np.array([number], dtype=np.float32)
    (got,) = narrowed("BF16", single).tolist()
    upper = int(single.view(np.uint32)[0]) >> 16
    around = [np.array([bits << 16], dtype=np.uint32).view(np.float32)[0] for bits in (upper, upper + 1)]
    finite = [float(each) for each in around if math.isfinite(each)]
    if math.isfinite(got):
        assert abs(got - number) == min(abs(each - number) for each in finite)
