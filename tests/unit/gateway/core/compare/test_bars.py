"""Bars beside a noise floor, and where they move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.bars import Bar, bars, has_bars, raised
from gateway.core.compare.paths import parse
from gateway.core.compare.result import Figure, Figures
from gateway.core.compare.rules import AbsRel, Cosine, Exact, Json, Label, RankBy, Rule, TokenPrefix, TopK, problems

CASES: list[tuple[Rule, Figures, Rule]] = [
    (Cosine(min=0.9999), {Figure.COSINE: 0.9989}, Cosine(min=0.9978)),
    (Cosine(min=0.5, max_abs=0.01), {Figure.COSINE: 0.9, Figure.MAX_ABS: 0.013}, Cosine(min=0.5, max_abs=0.026)),
    (Cosine(min=0.5, length_rel=0.0), {Figure.COSINE: 0.9, Figure.LENGTH: 0.1}, Cosine(min=0.5, length_rel=0.2)),
    (AbsRel(abs=0.01, rel=0.001), {Figure.USED: 2.5}, AbsRel(abs=0.05, rel=0.005)),
    (AbsRel(abs=0.01), {Figure.USED: 1.0}, AbsRel(abs=0.02)),
    (TopK(k=10, overlap_min=0.9), {Figure.OVERLAP: 0.9, Figure.RANK: 0.1}, TopK(k=10, overlap_min=0.8)),
    (
        TopK(k=10, overlap_min=0.5, rank_min=0.9),
        {Figure.OVERLAP: 0.9, Figure.RANK: 0.6},
        TopK(k=10, overlap_min=0.5, rank_min=0.2),
    ),
    (TokenPrefix(share_min=0.9), {Figure.PREFIX_SHARE: 0.31}, TokenPrefix(share_min=0.15)),
    (TokenPrefix(tokens_min=8), {Figure.PREFIX_SHARE: 0.3, Figure.PREFIX_TOKENS: 5}, TokenPrefix(tokens_min=2)),
]


def only(found: list[Bar] | None) -> Bar:
    assert found is not None
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(("rule", "figures", "moved"), CASES)
def test_bars_in_the_noise_move_out_of_it(rule: Rule, figures: Figures, moved: Rule) -> None:
    """To twice the floor's distance from perfect agreement, outward to two digits; bars above the floor stay."""
    assert any(bar.in_noise for bar in bars(rule, rule, figures) or ())
    assert raised(rule, figures, 2.0) == moved
    again = bars(moved, rule, figures)
    assert again
    assert not any(bar.in_noise for bar in again)


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
def test_bars_above_the_floor_stay(rule: Rule, figures: Figures) -> None:
    """A baseline that agrees with itself perfectly allows the tightest bar."""
    assert not any(bar.in_noise for bar in bars(rule, rule, figures) or ())
    assert raised(rule, figures, 2.0) == rule


def test_a_bar_that_is_just_reached_lies_in_the_noise() -> None:
    """It must lie above the floor, not on it."""
    bar = only(bars(Cosine(min=0.99), Cosine(min=0.5), {Figure.COSINE: 0.99}))
    assert (bar.field, bar.figure, bar.bound, bar.seen, bar.in_noise) == ("min", Figure.COSINE, 0.99, 0.99, True)


@pytest.mark.parametrize(
    ("rule", "figures"),
    [
        (TopK(k=2, overlap_min=0.9), {Figure.OVERLAP: 0.5}),
        (TokenPrefix(tokens_min=8), {Figure.PREFIX_TOKENS: 1}),
        (TokenPrefix(share_min=0.5), {Figure.PREFIX_SHARE: 0.0}),
        (AbsRel(abs=0.0), {Figure.USED: 1e300}),
        (AbsRel(abs=0.0, rel=0.9), {Figure.USED: 3.0}),
        (Cosine(min=0.5), {Figure.COSINE: -0.5}),
    ],
)
def test_a_bar_that_would_pass_everything_stays(rule: Rule, figures: Figures) -> None:
    """There is no proposal; the rule goes on being refused."""
    assert raised(rule, figures, 2.0) == rule
    assert any(bar.in_noise for bar in bars(rule, rule, figures) or ())


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


def test_a_cosine_within_rounding_of_one_still_leaves_room() -> None:
    """A bar cannot stand closer to 1 than float64 computes a cosine."""
    seen = 1.0 - 2.0**-53
    moved = raised(Cosine(min=1.0), {Figure.COSINE: seen}, 2.0)
    assert moved == Cosine(min=1.0 - 1e-12)


def test_an_allowance_is_rescaled_by_its_smaller_part() -> None:
    """Ten times the abs and twice the rel allow at least twice as much everywhere."""
    bar = only(bars(AbsRel(abs=1.0, rel=0.2), AbsRel(abs=0.1, rel=0.1), {Figure.USED: 3.0}))
    assert (bar.seen, bar.in_noise) == (1.5, True)
    bar = only(bars(AbsRel(abs=1.0, rel=0.2), AbsRel(abs=0.1), {Figure.USED: 3.0}))
    assert bar.seen == pytest.approx(0.3)
    assert not bar.in_noise


def test_rules_without_bars() -> None:
    """Equality cannot be moved."""
    for rule in (Exact(), Label(), Json()):
        assert not has_bars(rule)
        assert bars(rule, rule, {Figure.DIFFERENCES: 3}) == []
        assert raised(rule, {Figure.DIFFERENCES: 3}, 2.0) == rule
    assert all(has_bars(rule) for rule, _, _ in CASES)


@given(st.floats(-0.99, 1.0), st.floats(-1.0, 1.0), st.floats(1.01, 10.0))
def test_a_moved_bar_is_usable_and_above_the_floor(seen: float, bound: float, margin: float) -> None:
    """Or it did not move at all; never the other way."""
    figures = {Figure.COSINE: seen}
    moved = raised(Cosine(min=bound), figures, margin)
    assert isinstance(moved, Cosine)
    assert problems(moved) == []
    assert moved.min <= bound
    if moved.min != bound:
        assert moved.min < seen
