"""A device's output against the CPU's."""

import math

import numpy as np
import pytest

from server.core.acceptance import judge, limit_for, worst
from server.core.tensors import Array
from server.core.types import DtypeName, MatmulPrecision


def rows(*values: float) -> Array:
    """Two numbers a row."""
    return np.array(values, np.float32).reshape(-1, 2)


def test_equal_output_passes_with_its_numbers() -> None:
    """Cosine one, difference none."""
    accepted = judge(rows(1, 0, 0, 1), rows(1, 0, 0, 1), limit=0.9999)
    assert accepted.passed
    assert accepted.min_cosine == pytest.approx(1.0)
    assert accepted.max_abs == 0.0


def test_one_wrong_row_fails_however_good_the_others_are() -> None:
    """The smallest cosine decides, not the mean, and the sentence names it with its limit."""
    accepted = judge(rows(1, 0, 0, 1), rows(1, 0, 1, 0), limit=0.99)
    assert not accepted.passed
    assert accepted.min_cosine == 0.0
    assert str(accepted) == "cosine 0.000000 < 0.99 (max difference 1.00e+00)"


def test_the_limit_itself_passes() -> None:
    """The bound is inclusive."""
    angle = math.acos(0.99)
    accepted = judge(rows(1, 0), rows(math.cos(angle), math.sin(angle)), limit=0.98999)
    assert accepted.passed


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_output_that_is_not_finite_fails(bad: float) -> None:
    """NaN compares false with everything, so it is looked for."""
    assert not judge(rows(1, 0), rows(bad, 0), limit=0.0).passed


@pytest.mark.parametrize("output", [rows(), np.ones((1, 3), np.float32), rows(0, 0)])
def test_another_size_or_a_zero_row_fails(output: Array) -> None:
    """What cannot be compared is not accepted."""
    assert not judge(rows(1, 0), output, limit=0.0).passed


@pytest.mark.parametrize(
    ("dtype", "precision", "limit"),
    [
        ("float32", "highest", 0.9999),
        ("float32", "high", 0.9999),
        ("float32", "medium", 0.99),
        ("bfloat16", "highest", 0.99),
    ],
)
def test_the_limit_follows_dtype_and_precision(dtype: DtypeName, precision: MatmulPrecision, limit: float) -> None:
    """One-pass products are bfloat16 products, whatever the tensors' dtype."""
    assert limit_for(dtype, precision) == limit


@pytest.mark.parametrize(
    ("reference", "output", "part"),
    [
        (rows(1, math.nan), rows(1, math.nan), "not finite on the CPU itself"),
        (rows(1, math.nan), rows(1, 0), "not finite on the CPU itself"),
        (rows(1, 0), rows(math.inf, 0), "NaN or infinity, finite on the CPU"),
        (rows(1, 0), np.ones((1, 3), np.float32), "shape [1, 3], on the CPU [1, 2]"),
    ],
)
def test_what_cannot_be_compared_is_named(reference: Array, output: Array, part: str) -> None:
    """Instead of a cosine, and also as the worst of several."""
    failed = judge(reference, output, limit=0.9999)
    assert (failed.passed, str(failed)[: len(part)]) == (False, part)
    assert str(worst([judge(rows(1, 0), rows(1, 0), 0.9999), failed])) == str(failed)
