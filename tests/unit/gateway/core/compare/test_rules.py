"""Rules as values: bounds, canonical form, tighter or looser."""

import json
import math
from typing import Any

import pytest

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
