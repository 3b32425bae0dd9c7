"""Kinds, figures and which of two results is worse."""

import pytest

from gateway.core.compare.result import (
    FieldResult,
    Figure,
    Outcome,
    PairComparison,
    PairKind,
    is_worse,
    whole_answer,
    worst_of,
)


def test_each_figure_has_its_direction() -> None:
    """A small cosine is worse, a large difference is."""
    assert is_worse(Figure.COSINE, 0.5, 0.9)
    assert is_worse(Figure.MAX_ABS, 0.9, 0.5)
    assert not is_worse(Figure.RANK, 0.5, 0.5)


def test_worst_of_takes_extremes_never_a_mean() -> None:
    """One place out of many decides."""
    places = [{Figure.COSINE: 1.0, Figure.MAX_ABS: 0.0}] * 99 + [{Figure.COSINE: -1.0}]
    assert worst_of(places) == {Figure.COSINE: -1.0, Figure.MAX_ABS: 0.0}
    assert worst_of([]) == {}


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (Outcome(PairKind.SHAPE), Outcome(PairKind.TOLERANCE, {Figure.COSINE: -1.0})),
        (Outcome(PairKind.TOLERANCE, {Figure.COSINE: 0.9}), Outcome(PairKind.OK, {Figure.COSINE: 0.1})),
        (Outcome(PairKind.TOLERANCE, {Figure.COSINE: 0.1}), Outcome(PairKind.TOLERANCE, {Figure.COSINE: 0.9})),
        (
            Outcome(PairKind.OK, {Figure.COSINE: 1.0, Figure.MAX_ABS: 2.0}),
            Outcome(PairKind.OK, {Figure.COSINE: 1.0, Figure.MAX_ABS: 1.0}),
        ),
    ],
)
def test_outcomes_are_ordered_by_kind_then_figures(worse: Outcome, better: Outcome) -> None:
    """What could not be compared is worst; among equals the first figure that differs decides."""
    assert worse.is_worse_than(better)
    assert not better.is_worse_than(worse)
    assert not worse.is_worse_than(worse)


def test_a_comparison_leads_with_what_could_not_be_compared() -> None:
    """The kind of a pair is that of its worst field; its sentence names every failed one, and no other."""
    far = FieldResult(field="a", kind=PairKind.TOLERANCE, figures={Figure.COSINE: 0.5}, sentence="a: far")
    broken = FieldResult(field="b", kind=PairKind.NAN, sentence="b: nan")
    fine = FieldResult(field="c", kind=PairKind.OK, figures={Figure.COSINE: 0.9, Figure.MAX_ABS: 0.1})
    pair = PairComparison((far, broken, fine))
    assert (pair.ok, pair.kind, pair.sentence) == (False, PairKind.NAN, "b: nan; a: far")
    result = pair.result("json")
    assert (result.min_cosine, result.max_abs, result.content, result.ok) == (0.5, 0.1, "json", False)
    assert result.fields == pair.fields


def test_a_pair_without_failures_agrees() -> None:
    """Nothing failed, nothing said."""
    pair = PairComparison((FieldResult(field="a", kind=PairKind.OK),))
    assert (pair.ok, pair.kind, pair.sentence, pair.result("json").ok) == (True, PairKind.OK, "", True)


def test_a_whole_answer_can_fail() -> None:
    """A body that is no JSON fails before any field."""
    pair = whole_answer("body", PairKind.UNDECODABLE, "candidate: no JSON")
    assert (pair.kind, pair.sentence) == (PairKind.UNDECODABLE, "body: candidate: no JSON")
