"""Rules as values: bounds, canonical form, tighter or looser."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.paths import parse
from gateway.core.compare.rules import (
    AbsRel,
    Cosine,
    Exact,
    Json,
    Label,
    RankBy,
    Rule,
    TokenPrefix,
    TopK,
    Unit,
    canonical,
    loosened,
    problems,
    rule_of,
)

ALL: list[Rule] = [
    Exact(),
    AbsRel(abs=0.1, rel=0.01),
    Cosine(min=0.99),
    Cosine(min=0.99, max_abs=0.1, length_rel=0.01),
    TopK(k=10, overlap_min=0.9, rank_min=0.8, rank_by=RankBy.SPEARMAN),
    Label(),
    TokenPrefix(share_min=0.5, tokens_min=8, unit=Unit.CHARACTER),
    Json(ignore=(parse("id"), parse("usage.*"))),
]


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.rule)
def test_a_canonical_form_restores_its_rule(rule: Rule) -> None:
    """Through JSON and back it is the same rule."""
    assert rule_of(json.loads(json.dumps(canonical(rule)))) == rule
    assert problems(rule) == []


def test_unlike_rules_have_unlike_forms() -> None:
    """Rules without bounds too: their names are part of the form, also for an encoder that writes fields only."""
    assert len({json.dumps(canonical(rule), sort_keys=True) for rule in ALL}) == len(ALL)
    assert (Exact().rule, Label().rule) == ("exact", "label")


def test_equal_rules_have_one_form() -> None:
    """Neither the order of ignored paths nor 1 for 1.0 nor -0.0 makes a difference."""
    there, back = (Json(ignore=(parse(a), parse(b))) for a, b in (("x", "y"), ("y", "x")))
    assert canonical(there) == canonical(back)
    assert json.dumps(canonical(AbsRel(abs=1, rel=-0.0))) == json.dumps(canonical(AbsRel(abs=1.0)))


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        (AbsRel(abs=-1), "abs: -1 must lie between 0 and 1e+300"),
        (AbsRel(abs=0, rel=math.nan), "rel: nan must lie between 0 and 1"),
        (Cosine(min=1.1), "min: 1.1 must lie between -1 and 1"),
        (TopK(k=0, overlap_min=0.5), "k: 0 must lie between 1 and 256"),
        (TopK(k=1, overlap_min=2), "overlap_min: 2 must lie between 0 and 1"),
        (TokenPrefix(tokens_min=0), "tokens_min: 0 must lie between 1 and 1e+06"),
        (TokenPrefix(), "share_min: missing; share_min or tokens_min must be given"),
    ],
)
def test_bounds_out_of_range(rule: Rule, problem: str) -> None:
    """Field, value, what is allowed; NaN is in no range."""
    assert problems(rule) == [problem]
    with pytest.raises(ValueError, match=problem.split(": ")[0]):
        rule_of(canonical(rule))


@pytest.mark.parametrize(
    ("form", "match"),
    [
        ({"rule": "fuzzy"}, "rule: 'fuzzy' must be one of exact, abs_rel"),
        ({}, "rule: missing, must be one of"),
        ({"rule": "cosine", "min": 0.9, "mean": 1}, "mean: unknown; rule, min, max_abs, length_rel can be given"),
        ({"rule": "exact", "min": 1}, "min: unknown; rule can be given"),
        ({"rule": "cosine"}, "min: missing, must be a number"),
        ({"rule": "json", "ignore": ["a..b"]}, "ignore: 'a..b'"),
        ({"rule": "token_prefix", "tokens_min": 1, "unit": "line"}, "unit: 'line' must be one of word, character"),
        ({"rule": "cosine", "min": "high"}, "min: 'high' must be a number"),
    ],
)
def test_foreign_forms_are_refused(form: dict[str, Any], match: str) -> None:
    """Nothing is guessed and nothing ignored."""
    with pytest.raises(ValueError, match=match):
        rule_of(form)


@pytest.mark.parametrize(
    ("tight", "loose"),
    [
        (AbsRel(abs=0.1), AbsRel(abs=0.2)),
        (AbsRel(abs=0.1), AbsRel(abs=0.1, rel=0.1)),
        (Cosine(min=0.99), Cosine(min=0.9)),
        (Cosine(min=0.9, max_abs=1), Cosine(min=0.9)),
        (Cosine(min=0.9, length_rel=0.1), Cosine(min=0.9, length_rel=0.2)),
        (TopK(k=3, overlap_min=0.9), TopK(k=3, overlap_min=0.5)),
        (TopK(k=3, overlap_min=0.9, rank_min=-1.0), TopK(k=3, overlap_min=0.9)),
        (TokenPrefix(tokens_min=9), TokenPrefix(tokens_min=8)),
        (TokenPrefix(tokens_min=8, share_min=0.1), TokenPrefix(tokens_min=8)),
        (Json(), Json(ignore=(parse("id"),))),
        (Exact(), AbsRel(abs=0.1)),
        (Exact(), Json(ignore=(parse("id"),))),
        (Exact(), TokenPrefix(tokens_min=8)),
    ],
)
def test_tighter_one_way_looser_the_other(tight: Rule, loose: Rule) -> None:
    """A bound that moves up, appears, or an ignored path that goes, tightens; the way back loosens."""
    assert loosened(tight, loose) == []
    assert loosened(loose, tight)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TopK(k=3, overlap_min=0.5), TopK(k=5, overlap_min=0.5)),
        (TokenPrefix(tokens_min=8), TokenPrefix(tokens_min=8, unit=Unit.CHARACTER)),
        (
            TopK(k=3, overlap_min=0.5, rank_min=0.5),
            TopK(k=3, overlap_min=0.5, rank_min=0.5, rank_by=RankBy.SPEARMAN),
        ),
        (Cosine(min=1.0), AbsRel(abs=0.0)),
        (Exact(), Cosine(min=0.5)),
        (AbsRel(abs=0.1, rel=0.2), AbsRel(abs=0.2, rel=0.1)),
    ],
)
def test_what_cannot_be_ordered_counts_as_looser(one: Rule, other: Rule) -> None:
    """Other units, another k, another rule: neither direction is a tightening."""
    assert loosened(one, other)


def test_loosening_is_said_in_numbers() -> None:
    """The field with its new and old bound."""
    assert loosened(Cosine(min=0.9), Cosine(min=0.99, max_abs=0.1)) == [
        "min: 0.9 is looser than 0.99",
        "max_abs: no bound is looser than 0.1",
    ]
    assert loosened(Json(ignore=(parse("id"),)), Json()) == ["ignore: 'id' was not ignored before"]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_tightening_is_a_partial_order(a: float, b: float, c: float, d: float) -> None:
    """Reflexive; and both ways only for equal bounds."""
    one, other = AbsRel(abs=a, rel=b), AbsRel(abs=c, rel=d)
    assert loosened(one, one) == []
    if not loosened(one, other) and not loosened(other, one):
        assert (a, b) == (c, d)
