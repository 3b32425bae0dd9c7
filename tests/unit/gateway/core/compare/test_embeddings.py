"""Embeddings of two arms: tolerance over rows, and what no tolerance covers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gateway.core.compare.embeddings import compare_embeddings
from gateway.core.compare.result import PairKind
from gateway.core.plan import ParityPolicy

STRICT = ParityPolicy(cosine_min=0.9999)
ANYTHING = ParityPolicy(cosine_min=-1.0)
Rows = NDArray[np.float32]


def rows(n: int, d: int = 384, seed: int = 1) -> Rows:
    drawn = np.random.default_rng(seed).normal(size=(n, d))
    unit: Rows = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return unit


def rounded_to_bfloat16(values: Rows) -> Rows:
    bits = (values.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
    result: Rows = bits.view(np.float32)
    return result


def test_equal_embeddings_are_equal() -> None:
    """The same numbers pass the strictest bound."""
    result = compare_embeddings(rows(8), rows(8), ParityPolicy(cosine_min=1.0 - 1e-12, max_abs=0.0))
    assert (result.kind, result.max_abs, result.detail) == (PairKind.OK, 0.0, "")
    assert result.ok
    assert result.min_cosine == pytest.approx(1.0, abs=1e-12)


def test_rounding_to_bfloat16_passes_its_tolerance() -> None:
    """Numbers rounded to bfloat16 differ visibly and agree within the bfloat16 bound."""
    exact = rows(8)
    result = compare_embeddings(exact, rounded_to_bfloat16(exact), ParityPolicy(cosine_min=0.99))
    assert result.ok
    assert result.max_abs is not None
    assert 0.0 < result.max_abs < 2e-3


def test_one_wrong_row_fails_the_pair() -> None:
    """The smallest cosine decides, not the mean, and the row is named."""
    left, right = rows(100), rows(100)
    right[63] = -right[63]
    result = compare_embeddings(left, right, ParityPolicy(cosine_min=0.9))
    assert (result.ok, result.kind) == (False, PairKind.TOLERANCE)
    assert result.min_cosine == pytest.approx(-1.0)
    assert "cosine -1 in row 63, must be at least 0.9" in result.detail


def test_the_right_rows_in_the_wrong_order_fail() -> None:
    """A batch whose answers were swapped is a wrong answer."""
    assert compare_embeddings(rows(4), rows(4)[::-1], STRICT).kind is PairKind.TOLERANCE


def test_direction_alone_is_not_enough_where_size_is_bounded() -> None:
    """A scaled vector has cosine 1 and fails the bound on the largest difference."""
    result = compare_embeddings(rows(2), rows(2) * np.float32(2), ParityPolicy(cosine_min=0.9999, max_abs=0.01))
    assert result.kind is PairKind.TOLERANCE
    assert "largest difference" in result.detail
    assert "cosine" not in result.detail


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_what_is_no_finite_number_fails_by_itself(value: float, arm: str) -> None:
    """NaN and infinity fail whatever the tolerance, with arm and row."""
    pair = {"baseline": rows(3), "candidate": rows(3)}
    pair[arm][1, 5] = value
    result = compare_embeddings(pair["baseline"], pair["candidate"], ANYTHING)
    assert (result.ok, result.kind, result.min_cosine) == (False, PairKind.NAN, None)
    assert result.detail.startswith(f"{arm}: 1 of 1152 elements")
    assert result.detail.endswith("first at [1, 5]")


def test_nan_on_both_sides_is_not_equal() -> None:
    """Two arms that agree on nonsense still fail."""
    broken = rows(2)
    broken[0, 0] = np.nan
    assert compare_embeddings(broken, broken.copy(), ANYTHING).kind is PairKind.NAN


@pytest.mark.parametrize("arm", ["baseline", "candidate"])
def test_a_vector_of_length_zero_fails_by_itself(arm: str) -> None:
    """Zero has no direction; it is never similar to anything."""
    pair = {"baseline": rows(3), "candidate": rows(3)}
    pair[arm][2] = 0.0
    result = compare_embeddings(pair["baseline"], pair["candidate"], ANYTHING)
    assert (result.kind, result.detail) == (PairKind.NAN, f"{arm} row 2: length zero, which has no direction")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (rows(3), rows(2)),
        (rows(2, 384), rows(2, 383)),
        (rows(2)[0], rows(2)[0]),
        (np.zeros((0, 384), np.float32), np.zeros((0, 384), np.float32)),
    ],
    ids=["rows", "width", "one dimension", "empty"],
)
def test_shapes_must_agree(left: Rows, right: Rows) -> None:
    """Another number of rows or another width is a failure of its own, as is having nothing to compare."""
    result = compare_embeddings(left, right, ANYTHING)
    assert (result.ok, result.kind, result.max_abs) == (False, PairKind.SHAPE, None)
    assert str(list(left.shape)) in result.detail


def test_tiny_and_huge_numbers_do_not_overflow() -> None:
    """Squares of float32 extremes fit into float64."""
    for scale in (1e-30, 1e37):
        values = rows(2, 8) * np.float32(scale)
        assert compare_embeddings(values, values, STRICT).ok


@settings(max_examples=40)
@given(st.integers(1, 6), st.integers(2, 32), st.integers(0, 1000), st.integers(0, 1000))
def test_swapping_the_arms_changes_no_figure(n: int, d: int, one: int, other: int) -> None:
    """Neither arm is privileged."""
    left, right = rows(n, d, one), rows(n, d, other)
    there, back = compare_embeddings(left, right, STRICT), compare_embeddings(right, left, STRICT)
    assert (there.kind, there.max_abs) == (back.kind, back.max_abs)
    assert there.min_cosine == pytest.approx(back.min_cosine, abs=1e-12)
    assert -1.0 <= (there.min_cosine or 0.0) <= 1.0


@settings(max_examples=40)
@given(st.integers(1, 5), st.integers(0, 500), st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_a_stricter_policy_never_passes_more(n: int, seed: int, one: float, other: float) -> None:
    """What passes a bound passes every looser one."""
    left, right = rows(n, 4, seed), rows(n, 4, seed + 1)
    strict, loose = (ParityPolicy(cosine_min=f(one, other)) for f in (max, min))
    assert compare_embeddings(left, right, loose).ok or not compare_embeddings(left, right, strict).ok
