"""Numbers against numbers under exact, abs_rel and cosine."""

import math
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.content import Tensor
from gateway.core.compare.numbers import abs_rel, cosine, exact, rows_compared, shown
from gateway.core.compare.result import Figure, Outcome, PairKind
from gateway.core.compare.rules import AbsRel, Cosine

ANY = Cosine(min=-1.0)
BIG = 2**53


def fp64(*values: float) -> Tensor:
    return Tensor("FP64", np.array(values))


def int64(*values: int) -> Tensor:
    return Tensor("INT64", np.array(values, dtype=np.int64))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ([1, 2], [1.0, 2.0]),
        ([0.0, 1.5], [-0.0, 1.5]),
        ([], []),
        ([BIG + 1], [BIG + 1]),
        ([2**80], [2**80]),
        ([True], [True]),
        (["a"], ["a"]),
    ],
)
def test_exact_is_about_values(left: object, right: object) -> None:
    """1 and 1.0 are one number, as are 0.0 and -0.0; empty and empty are equal."""
    assert exact(left, right).ok


@pytest.mark.parametrize(
    ("left", "right"),
    [([BIG + 1], [BIG]), ([BIG + 1], [float(BIG)]), ([2**80], [2**80 + 1]), ([False], [True]), (["a"], ["b"])],
)
def test_exact_sees_the_last_bit(left: object, right: object) -> None:
    """Integers beyond 2^53 differ by one although float64 cannot tell them apart."""
    outcome = exact(left, right)
    assert (outcome.kind, outcome.figures[Figure.DIFFERENCES]) == (PairKind.TOLERANCE, 1)


def test_exact_names_count_and_first_place() -> None:
    """How many of how many, and where; not what."""
    outcome = exact([[1, 2], [3, 4]], [[1, 2], [3, 5]])
    assert outcome.text == "1 of 4 elements differ, first at [1, 1]; must be equal"
    assert exact(3, 4).text == "1 of 1 elements differ, first at its only element; must be equal"


@pytest.mark.parametrize(
    "compare", [exact, lambda a, b: abs_rel(AbsRel(abs=1e300), a, b), lambda a, b: cosine(ANY, a, b)]
)
@pytest.mark.parametrize(
    ("left", "right", "kind", "text"),
    [
        (fp64(1, math.nan), fp64(1, math.nan), PairKind.NAN, "baseline: 1 of 2 elements not a number, first at [1]"),
        (fp64(1, 2), fp64(math.nan, 2), PairKind.NAN, "candidate: 1 of 2 elements not a number, first at [0]"),
        (fp64(1, math.inf), fp64(1, math.inf), PairKind.INFINITY, "baseline: 1 of 2 elements infinite"),
        (fp64(1, 2), fp64(1, -math.inf), PairKind.INFINITY, "candidate: 1 of 2 elements infinite"),
        (fp64(1, 2), fp64(1, 2, 3), PairKind.SHAPE, "shape: baseline [2], candidate [3]; must be equal"),
        ([[1, 2]], [1, 2], PairKind.SHAPE, "shape: baseline [1, 2], candidate [2]"),
        (fp64(1, 2), int64(1, 2), PairKind.DTYPE, "dtype: baseline FP64, candidate INT64; must be equal"),
        ([0, 1], [False, True], PairKind.DTYPE, "dtype: baseline number, candidate BOOL"),
        ([1, 2], {"a": 1}, PairKind.DTYPE, "candidate: an element is not a number"),
        ([1, None], [1, None], PairKind.NAN, "baseline: 1 of 2 elements not a number"),
    ],
)  # fmt: skip
def test_failures_that_no_rule_covers(compare: Any, left: object, right: object, kind: PairKind, text: str) -> None:
    """NaN on both sides, equal infinities, shape and type fail under the loosest bounds of every rule."""
    outcome: Outcome = compare(left, right)
    assert outcome.kind is kind
    assert text in outcome.text
    assert not outcome.figures


@pytest.mark.parametrize(
    ("rule", "left", "right", "passes"),
    [
        (AbsRel(abs=0.5), [1.0], [1.5], True),
        (AbsRel(abs=0.5), [1.0], [math.nextafter(1.5, 2)], False),
        (AbsRel(abs=0.0, rel=0.5), [2.0], [3.0], True),
        (AbsRel(abs=0.0, rel=0.5), [3.0], [2.0], True),
        (AbsRel(abs=0.0, rel=0.5), [0.0], [1e-300], False),
        (AbsRel(abs=0.0), [0.0], [-0.0], True),
        (AbsRel(abs=0.0), [], [], True),
        (AbsRel(abs=1.0), [BIG + 1], [BIG], True),
        (AbsRel(abs=0.5), [BIG + 1], [BIG], False),
        (AbsRel(abs=0.5), [BIG + 1], [float(BIG)], False),
        (AbsRel(abs=0.5), [2**80, 1.5], [2**80, 1.5], True),
        (AbsRel(abs=2.0), [2**80, 5], [2**80 + 2, 5], True),
        (AbsRel(abs=1.0), [2**80, 5], [2**80 + 2, 5], False),
        (AbsRel(abs=1e300), [sys.float_info.max], [-sys.float_info.max], False),
        (AbsRel(abs=1e300, rel=1.0), [sys.float_info.max], [-sys.float_info.max], False),
        (AbsRel(abs=0.5), 1.0, 1.25, True),
    ],
)
def test_abs_rel(rule: AbsRel, left: object, right: object, passes: bool) -> None:
    """The bound is inclusive and scaled by the baseline; huge integers are exact, overflow is beyond every bound."""
    outcome = abs_rel(rule, left, right)
    assert outcome.kind is (PairKind.OK if passes else PairKind.TOLERANCE)
    assert (outcome.figures[Figure.USED] > 1.0) is not passes
    assert all(math.isfinite(value) for value in outcome.figures.values())


def test_abs_rel_is_about_the_worst_element() -> None:
    """One element of a thousand fails the field, however small the mean difference."""
    left = np.ones(1000)
    right = left.copy()
    right[417] = 1.03
    outcome = abs_rel(AbsRel(abs=0.01), Tensor("FP64", left), Tensor("FP64", right))
    assert outcome.figures == {
        Figure.USED: pytest.approx(3.0), Figure.MAX_ABS: pytest.approx(0.03), Figure.BEYOND: 1,
    }  # fmt: skip
    assert outcome.text == (
        "1 of 1000 elements differ by more than 0.01 + 0 x |baseline|, by up to 3 times what is allowed; none may"
    )


@pytest.mark.parametrize("compare", [lambda a, b: abs_rel(AbsRel(abs=1), a, b), lambda a, b: cosine(ANY, a, b)])
def test_text_and_booleans_are_not_subtracted(compare: Any) -> None:
    """A rule for numbers refuses what is none."""
    assert compare(["a", "b"], ["a", "b"]).kind is PairKind.DTYPE
    assert compare([True, False], [True, False]).kind is PairKind.DTYPE


def test_cosine_takes_the_smallest_row() -> None:
    """Minimum over rows, never a mean; the row is named."""
    left = [[1.0, 0.0]] * 50
    right = [[1.0, 0.0]] * 49 + [[0.6, 0.8]]
    outcome = cosine(Cosine(min=0.9), left, right)
    assert outcome.figures[Figure.COSINE] == pytest.approx(0.6)
    assert outcome.text == "cosine 0.6 in row 49, must be at least 0.9"


@pytest.mark.parametrize("scale", [1e-200, 1e-30, 1.0, 1e200])
def test_equal_rows_reach_a_bar_of_one(scale: float) -> None:
    """No rounding and no overflow stands between equal rows and cosine 1."""
    rows = np.random.default_rng(1).normal(size=(3, 17)) * scale
    outcome = cosine(Cosine(min=1.0, max_abs=0.0, length_rel=0.0), Tensor("FP64", rows), Tensor("FP64", rows.copy()))
    assert (outcome.ok, outcome.figures[Figure.COSINE]) == (True, 1.0)


def test_cosine_tells_apart_what_its_product_cannot() -> None:
    """Near 1 the figure keeps its digits: a bar of 1 - 1e-13 separates 1 - 5e-15 from 1 - 5e-13."""
    near, far = ([[1.0, angle]] for angle in (1e-7, 1e-6))
    assert cosine(Cosine(min=1 - 1e-13), [[1.0, 0.0]], near).ok
    assert not cosine(Cosine(min=1 - 1e-13), [[1.0, 0.0]], far).ok


def test_a_factor_is_seen_by_length_and_difference_alone() -> None:
    """A candidate that forgot to normalise has cosine 1."""
    left, right = [[3.0, 4.0]], [[6.0, 8.0]]
    assert cosine(Cosine(min=1.0), left, right).ok
    assert cosine(Cosine(min=1.0, length_rel=0.99), left, right).text == (
        "length differs by a share of 1, must be at most 0.99"
    )
    assert cosine(Cosine(min=1.0, max_abs=3.9), left, right).text == "largest difference 4, must be at most 3.9"
    assert cosine(Cosine(min=1.0, max_abs=4.0, length_rel=1.0 + 1e-12), left, right).ok


@pytest.mark.parametrize(("left", "right", "arm"), [
    ([[0.0, -0.0], [1, 1]], [[1, 1], [1, 1]], "baseline row 0"),
    ([[1, 1], [1, 1]], [[1, 1], [0.0, 0.0]], "candidate row 1"),
    ([[0.0, 0.0]], [[0.0, 0.0]], "baseline row 0"),
])  # fmt: skip
def test_a_zero_vector_has_no_direction(left: object, right: object, arm: str) -> None:
    """On either arm and on both: nothing can be said of it, and nothing is not agreement."""
    outcome = cosine(ANY, left, right)
    assert (outcome.kind, outcome.text) == (PairKind.NAN, f"{arm}: length zero, which has no direction")


@pytest.mark.parametrize("value", [[], [[]], [[1.0], [2.0]], 3.0, [5]])
def test_a_cosine_needs_rows(value: object) -> None:
    """Empty, a single number, rows of one number (which have only a sign): the shape fails."""
    assert cosine(ANY, value, value).kind is PairKind.SHAPE


def test_a_vector_is_one_row() -> None:
    """Without several rows none is named."""
    assert cosine(Cosine(min=0.5), [1.0, 0.0], [0.0, 1.0]).text.startswith("cosine 0, must be")


def test_a_shown_figure_differs_from_its_bound() -> None:
    """As many digits as that takes."""
    assert shown(0.98999999, 0.99) == "0.98999999"
    assert shown(0.5, 0.99) == "0.5"
    assert float(shown(math.nextafter(0.1, 0), 0.1)) < 0.1


numbers = st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=2, max_size=8)


@given(st.data(), st.integers(2, 6), st.integers(1, 5))
def test_cosines_are_those_of_the_definition(data: st.DataObject, width: int, rows: int) -> None:
    """Product over lengths, within float64's rounding, whichever side is which."""
    seed = data.draw(st.integers(0, 2**32))
    random = np.random.default_rng(seed)
    left, right = random.normal(size=(2, rows, width))
    there, back = rows_compared(left, right)[0], rows_compared(right, left)[0]
    wanted = (left * right).sum(axis=1) / (np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1))
    np.testing.assert_allclose(there, wanted, atol=1e-14)
    np.testing.assert_array_equal(there, back)


@given(numbers, st.floats(0, 1e6), st.floats(0, 1), st.integers(0, 2**32))
def test_abs_rel_is_its_formula(left: list[float], bound: float, rel: float, seed: int) -> None:
    """Element by element, all of them."""
    right = (np.array(left) + np.random.default_rng(seed).normal(size=len(left)) * bound).tolist()
    wanted = all(abs(b - a) <= bound + rel * abs(a) for a, b in zip(left, right, strict=True))
    assert abs_rel(AbsRel(abs=bound, rel=rel), left, right).ok is wanted


@given(numbers, st.floats(1, 3), st.integers(0, 2**32))
def test_a_tighter_bound_never_passes_more(left: list[float], factor: float, seed: int) -> None:
    """What passes abs and rel passes larger ones, and uses no more of them."""
    right = (np.array(left) * (1 + np.random.default_rng(seed).normal(size=len(left)) * 0.1)).tolist()
    tight = abs_rel(AbsRel(abs=0.1, rel=0.1), left, right)
    loose = abs_rel(AbsRel(abs=0.1 * factor, rel=min(1.0, 0.1 * factor)), left, right)
    assert loose.ok or not tight.ok
    assert loose.figures[Figure.USED] <= tight.figures[Figure.USED] * (1 + 1e-12)
