"""The k best, rank correlation and labels, ties above all."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.content import Tensor
from gateway.core.compare.ranks import best_of_both, correlation, label, top_k
from gateway.core.compare.result import Figure, PairKind
from gateway.core.compare.rules import Label, RankBy, TopK

SAME = TopK(k=2, overlap_min=1.0)


def row(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, dtype=np.float64)


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [
        ([4, 3, 2, 1], [4, 3, 2, 1], 1.0),
        ([4, 3, 2, 1], [3, 4, 1, 2], 1.0),
        ([4, 3, 2, 1], [4, 1, 3, 2], 0.5),
        ([4, 3, 2, 1], [1, 2, 3, 4], 0.0),
        ([5, 5, 5, 5], [1, 2, 3, 4], 1.0),
        ([5, 5, 5, 5], [7, 7, 7, 7], 1.0),
        ([9, 5, 5, 1], [9, 1, 5, 4], 1.0),
        ([9, 5, 5, 1], [9, 1, 4, 5], 0.5),
    ],
)
def test_overlap_of_the_two_best(left: list[float], right: list[float], overlap: float) -> None:
    """Order within the best does not count; elements tied with the last of them may stand for one another."""
    outcome = top_k(SAME, [float(x) for x in left], [float(x) for x in right])
    assert outcome.figures[Figure.OVERLAP] == overlap
    assert outcome.ok is (overlap == 1.0)


def test_top_k_takes_the_worst_row_and_names_it() -> None:
    """Minimum over rows, with number and bound."""
    left = [[4.0, 3.0, 2.0, 1.0]] * 3
    right = [[4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]]
    outcome = top_k(TopK(k=2, overlap_min=0.5, rank_min=0.0), left, right)
    assert outcome.figures == {Figure.OVERLAP: 0.0, Figure.RANK: -1.0}
    assert outcome.text == (
        "the 2 best overlap by 0 in row 1, must be at least 0.5;"
        " rank correlation (kendall) -1 in row 1, must be at least 0"
    )


def test_the_order_counts_where_it_is_asked_for() -> None:
    """The same three elements in another order pass the overlap and fail the correlation."""
    left, right = [3.0, 2.0, 1.0, 0.0], [2.0, 3.0, 1.0, 0.0]
    assert top_k(TopK(k=3, overlap_min=1.0), left, right).ok
    outcome = top_k(TopK(k=3, overlap_min=1.0, rank_min=0.5), left, right)
    assert Figure.RANK not in top_k(TopK(k=3, overlap_min=1.0), left, right).figures
    assert outcome.figures[Figure.RANK] == pytest.approx(1 / 3)
    assert outcome.kind is PairKind.TOLERANCE


def test_fewer_elements_than_k() -> None:
    """All of them are the best; their order still counts."""
    outcome = top_k(TopK(k=10, overlap_min=1.0, rank_min=1.0), [2.0, 1.0], [1.0, 2.0])
    assert outcome.figures == {Figure.OVERLAP: 1.0, Figure.RANK: -1.0}


@given(st.integers(1, 4), st.integers(1, 4), st.sampled_from(RankBy), st.integers(0, 2**32))
def test_rows_do_not_touch_one_another(rows: int, k: int, by: RankBy, seed: int) -> None:
    """The worst row of many is the worst of the rows one by one, however wide the chosen part of each is."""
    left, right = np.random.default_rng(seed).integers(0, 4, size=(2, rows, 5)).tolist()
    rule = TopK(k=k, overlap_min=0.0, rank_min=-1.0, rank_by=by)
    one_by_one = [top_k(rule, one, other).figures for one, other in zip(left, right, strict=True)]
    together = top_k(rule, left, right).figures
    assert together == pytest.approx({figure: min(each[figure] for each in one_by_one) for figure in together})


@pytest.mark.parametrize("value", [[], [[], []], 1.0])
def test_top_k_needs_scores(value: object) -> None:
    """Nothing to rank is no agreement."""
    assert top_k(SAME, value, value).kind is PairKind.SHAPE
    assert top_k(SAME, ["a"], ["a"]).kind is PairKind.DTYPE


def test_huge_integer_scores_are_ranked_exactly() -> None:
    """2^53 and 2^53 + 1 are not tied, whatever float64 makes of them."""
    rule = TopK(k=1, overlap_min=1.0)
    assert not top_k(rule, [2**53, 2**53 + 1], [2**53 + 1, 2**53]).ok
    assert not top_k(rule, [2**70, 2**70 + 1], [2**70 + 1, 2**70]).ok


@pytest.mark.parametrize(
    ("left", "right", "kendall", "spearman"),
    [
        (row(1, 2, 3, 4), row(1, 2, 3, 4), 1.0, 1.0),
        (row(1, 2, 3, 4), row(4, 3, 2, 1), -1.0, -1.0),
        # Two tied on the left: 5 pairs agree, one is tied there. Tau-b = 5 / sqrt(5 x 6).
        (row(1, 2, 2, 3), row(1, 2, 3, 4), 5 / 30**0.5, 4.5 / 22.5**0.5),
        (row(5, 5, 5), row(7, 7, 7), 1.0, 1.0),
        (row(5, 5, 5), row(1, 2, 3), 0.0, 0.0),
        (row(1), row(9), 1.0, 1.0),
        (row(1, 2, 3), row(1e-300, 2, 1e300), 1.0, 1.0),
    ],
)
def test_rank_correlations(
    left: np.ndarray[Any, Any], right: np.ndarray[Any, Any], kendall: float, spearman: float
) -> None:
    """By hand, ties included; two rows without any order agree, an order against none is worth nothing."""
    assert correlation(RankBy.KENDALL, left[None], right[None])[0] == pytest.approx(kendall, abs=1e-15)
    assert correlation(RankBy.SPEARMAN, left[None], right[None])[0] == pytest.approx(spearman, abs=1e-15)


scores = st.lists(st.integers(0, 3), min_size=6, max_size=6)


@given(scores, scores, st.integers(1, 6))
def test_the_choice_among_ties_agrees_most(left: list[int], right: list[int], k: int) -> None:
    """No choice of k best, tied ones free, overlaps more; both choices are k best."""

    def choices(values: list[int]) -> list[set[int]]:
        kth = sorted(values, reverse=True)[k - 1]
        return [
            set(chosen)
            for chosen in itertools.combinations(range(6), k)
            if all((values[i] >= kth) for i in chosen) and all(i in chosen for i in range(6) if values[i] > kth)
        ]

    masks = best_of_both(np.array([left]), np.array([right]), k)
    ours, theirs = (set(np.flatnonzero(mask[0]).tolist()) for mask in masks)
    assert ours in choices(left)
    assert theirs in choices(right)
    assert len(ours & theirs) == max(len(a & b) for a in choices(left) for b in choices(right))


@given(scores, scores, st.integers(1, 6), st.sampled_from(RankBy))
def test_swapping_the_arms_changes_no_figure(left: list[int], right: list[int], k: int, by: RankBy) -> None:
    """Neither arm is privileged."""
    rule = TopK(k=k, overlap_min=0.0, rank_min=-1.0, rank_by=by)
    assert top_k(rule, left, right).figures == pytest.approx(dict(top_k(rule, right, left).figures))


@given(st.lists(st.integers(-5, 5), min_size=2, max_size=9), st.integers(0, 2**32))
def test_kendall_is_its_definition(left: list[int], seed: int) -> None:
    """Concordant minus discordant over the root of the pairs that are not tied on either side."""
    right = np.random.default_rng(seed).integers(-3, 4, size=len(left)).tolist()
    signs = [
        (np.sign(a - b), np.sign(c - d)) for (a, c), (b, d) in itertools.combinations(zip(left, right, strict=True), 2)
    ]
    one, other = sum(s != 0 for s, _ in signs), sum(t != 0 for _, t in signs)
    if one and other:
        wanted = sum(s * t for s, t in signs) / (one * other) ** 0.5
        found = correlation(RankBy.KENDALL, np.array([left], float), np.array([right], float))
        assert found[0] == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "differ"),
    [
        ([[0.1, 0.9], [0.7, 0.3]], [[0.4, 0.6], [0.9, 0.1]], 0),
        ([[0.1, 0.9], [0.7, 0.3]], [[0.6, 0.4], [0.9, 0.1]], 1),
        ([[0.5, 0.5]], [[0.9, 0.1]], 0),
        ([[0.5, 0.5, 0.1]], [[0.1, 0.2, 0.9]], 1),
        (["cat", "dog"], ["cat", "dog"], 0),
        (["cat", "dog"], ["cat", "Dog"], 1),
        ([2**60, 1], [2**60 + 1, 1], 1),
        ([True], [False], 1),
        ("cat", "cat", 0),
        (3, 4, 1),
    ],
)
def test_labels(left: object, right: object, differ: int) -> None:
    """The best score of each row, ties with either; or the label that was given."""
    outcome = label(Label(), left, right)
    assert outcome.figures == {Figure.LABELS: differ}
    assert outcome.ok is (differ == 0)


def test_labels_name_count_and_row() -> None:
    """How many rows differ and the first of them, without a label."""
    assert label(Label(), ["a", "b", "c"], ["a", "x", "y"]).text == "2 of 3 labels differ, first in row 1; none may"


def test_no_label_is_no_agreement() -> None:
    """Empty answers and scores without rows."""
    assert label(Label(), [], []).kind is PairKind.SHAPE
    empty = Tensor("INT32", np.zeros((0,), np.int32))
    assert label(Label(), empty, empty).kind is PairKind.SHAPE
    assert label(Label(), [0.5], [float("nan")]).kind is PairKind.NAN
