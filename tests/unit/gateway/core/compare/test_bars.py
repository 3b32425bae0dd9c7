"""Bars beside a noise floor."""

import pytest

from gateway.core.compare.bars import Bar, bars, has_bars
from gateway.core.compare.paths import parse
from gateway.core.compare.result import Figure, Figures
from gateway.core.compare.rules import AbsRel, Cosine, Exact, Json, Label, RankBy, Rule, TokenPrefix, TopK

CASES: list[tuple[Rule, Figures]] = [
    (Cosine(min=0.9999), {Figure.COSINE: 0.9989}),
    (Cosine(min=0.5, max_abs=0.01), {Figure.COSINE: 0.9, Figure.MAX_ABS: 0.013}),
    (Cosine(min=0.5, length_rel=0.0), {Figure.COSINE: 0.9, Figure.LENGTH: 0.1}),
    (Cosine(min=1.0), {Figure.COSINE: 1.0 - 2.0**-53}),
    (AbsRel(abs=0.01, rel=0.001), {Figure.USED: 2.5}),
    (AbsRel(abs=0.01), {Figure.USED: 1.0}),
    (TopK(k=10, overlap_min=0.9), {Figure.OVERLAP: 0.9, Figure.RANK: 0.1}),
    (TopK(k=10, overlap_min=0.5, rank_min=0.9), {Figure.OVERLAP: 0.9, Figure.RANK: 0.6}),
    (TokenPrefix(share_min=0.9), {Figure.PREFIX_SHARE: 0.31}),
    (TokenPrefix(tokens_min=8), {Figure.PREFIX_SHARE: 0.3, Figure.PREFIX_TOKENS: 5}),
]


def only(found: list[Bar] | None) -> Bar:
    assert found is not None
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(("rule", "figures"), CASES)
def test_bars_that_the_floor_reaches_lie_in_the_noise(rule: Rule, figures: Figures) -> None:
    """One is enough, and it may be just reached."""
    assert any(bar.in_noise for bar in bars(rule, rule, figures) or ())


@pytest.mark.parametrize(
    ("rule", "figures"),
    [
        (Cosine(min=1.0, max_abs=0.0, length_rel=0.0), {Figure.COSINE: 1.0, Figure.MAX_ABS: 0.0, Figure.LENGTH: 0.0}),
        (AbsRel(abs=0.0), {Figure.USED: 0.0}),
        (TopK(k=3, overlap_min=1.0, rank_min=1.0), {Figure.OVERLAP: 1.0, Figure.RANK: 1.0}),
        (TokenPrefix(share_min=1.0, tokens_min=9), {Figure.PREFIX_SHARE: 1.0}),
        (Cosine(min=0.99), {Figure.COSINE: 0.9901}),
        (Cosine(min=0.99), {}),
    ],
)
def test_bars_above_the_floor(rule: Rule, figures: Figures) -> None:
    """A baseline that agrees with itself perfectly allows the tightest bar."""
    assert not any(bar.in_noise for bar in bars(rule, rule, figures) or ())


def test_a_bar_that_is_just_reached_lies_in_the_noise() -> None:
    """It must lie above the floor, not on it."""
    bar = only(bars(Cosine(min=0.99), Cosine(min=0.5), {Figure.COSINE: 0.99}))
    assert (bar.field, bar.figure, bar.bound, bar.seen, bar.in_noise) == ("min", Figure.COSINE, 0.99, 0.99, True)


@pytest.mark.parametrize(
    ("rule", "measured"),
    [
        (Cosine(min=0.9), AbsRel(abs=1)),
        (TopK(k=3, overlap_min=0.5), TopK(k=5, overlap_min=0.5)),
        (TopK(k=3, overlap_min=0.5, rank_min=0.5), TopK(k=3, overlap_min=0.5)),
        (TopK(k=3, overlap_min=0.5), TopK(k=3, overlap_min=0.5, rank_by=RankBy.SPEARMAN)),
        (AbsRel(abs=0.0, rel=0.1), AbsRel(abs=0.1, rel=0.1)),
        (Json(), Json(ignore=(parse("id"),))),
    ],
)
def test_figures_of_another_rule_say_nothing(rule: Rule, measured: Rule) -> None:
    """Other elements, other places, another measure."""
    assert bars(rule, measured, {Figure.USED: 0.5, Figure.OVERLAP: 0.5, Figure.COSINE: 0.5}) is None


def test_an_allowance_is_rescaled_by_its_smaller_part() -> None:
    """Ten times the abs and twice the rel allow at least twice as much everywhere."""
    bar = only(bars(AbsRel(abs=1.0, rel=0.2), AbsRel(abs=0.1, rel=0.1), {Figure.USED: 3.0}))
    assert (bar.seen, bar.in_noise) == (1.5, True)
    bar = only(bars(AbsRel(abs=1.0, rel=0.2), AbsRel(abs=0.1), {Figure.USED: 3.0}))
    assert bar.seen == pytest.approx(0.3)
    assert not bar.in_noise


def test_rules_without_bars() -> None:
    """Equality bounds nothing."""
    for rule in (Exact(), Label(), Json()):
        assert not has_bars(rule)
        assert bars(rule, rule, {Figure.DIFFERENCES: 3}) == []
    assert all(has_bars(rule) for rule, _ in CASES)
