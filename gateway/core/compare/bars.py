"""Each rule's bars: which figure they bound, and where they stand beside the worst figure of a noise floor.

A bar lies above the floor when the worst figure seen does not reach it, or when every pair agreed perfectly.
"""

import math
from dataclasses import dataclass
from typing import Final

from gateway.core.compare.result import Figure, Figures
from gateway.core.compare.rules import AbsRel, Cosine, Json, Rule, TokenPrefix, TopK


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One bound of a rule beside the floor. ``in_noise``: pairs of the baseline with itself reach it."""

    field: str
    figure: Figure
    bound: float
    seen: float
    words: str
    in_noise: bool


@dataclass(frozen=True, slots=True)
class _Scale:
    """The figure that a bound is about, its value at perfect agreement, and its side: ``below`` is a lower bound."""

    figure: Figure
    perfect: float
    below: bool


_SCALES: Final = {
    "min": _Scale(Figure.COSINE, 1.0, True),
    "max_abs": _Scale(Figure.MAX_ABS, 0.0, False),
    "length_rel": _Scale(Figure.LENGTH, 0.0, False),
    "overlap_min": _Scale(Figure.OVERLAP, 1.0, True),
    "rank_min": _Scale(Figure.RANK, 1.0, True),
    "share_min": _Scale(Figure.PREFIX_SHARE, 1.0, True),
    "tokens_min": _Scale(Figure.PREFIX_TOKENS, math.inf, True),
}
_BARS: Final[dict[type[Rule], tuple[str, ...]]] = {
    Cosine: ("min", "max_abs", "length_rel"),
    TopK: ("overlap_min", "rank_min"),
    TokenPrefix: ("share_min", "tokens_min"),
}


def has_bars(rule: Rule) -> bool:
    """The rule has a bound beside figures; exact, label and json have none."""
    return isinstance(rule, AbsRel) or type(rule) in _BARS


def bars(rule: Rule, measured: Rule, figures: Figures) -> list[Bar] | None:
    """The rule's bars beside the worst ``figures`` seen under ``measured``; empty for a rule without bars.

    None: figures of ``measured`` say nothing about ``rule``, so the floor has to be measured again.
    """
    if not _same_figures(rule, measured):
        return None
    if isinstance(rule, AbsRel) and isinstance(measured, AbsRel):
        factor = _allowance_factor(rule, measured)
        if factor is None:
            return None
        return [_used(figures[Figure.USED] * factor)] if Figure.USED in figures else []
    found = []
    for name in _BARS.get(type(rule), ()):
        bound: float | None = getattr(rule, name)
        if bound is not None and _SCALES[name].figure in figures:
            found.append(_bar(name, _SCALES[name], bound, figures[_SCALES[name].figure]))
    return found


def _same_figures(rule: Rule, measured: Rule) -> bool:
    """Both rules compute the same figures from a pair, whatever their bounds."""
    if isinstance(rule, TopK) and isinstance(measured, TopK):
        ranked = rule.rank_min is None or measured.rank_min is not None  # what is not asked for is not computed
        return ranked and (rule.k, rule.rank_by) == (measured.k, measured.rank_by)
    if isinstance(rule, TokenPrefix) and isinstance(measured, TokenPrefix):
        return rule.unit is measured.unit
    if isinstance(rule, Json) and isinstance(measured, Json):
        return set(measured.ignore) <= set(rule.ignore)
    return type(rule) is type(measured)


def _allowance_factor(rule: AbsRel, measured: AbsRel) -> float | None:
    """``rule`` allows each element at least 1/factor of what ``measured`` does; None when there is no such number."""
    ratios = [new / old for new, old in ((rule.abs, measured.abs), (rule.rel, measured.rel)) if old > 0.0]
    if not ratios:
        return 1.0
    return 1.0 / min(ratios) if min(ratios) > 0.0 else None


def _used(seen: float) -> Bar:
    words = f"with abs and rel more than {seen:.3g} times as large"
    return Bar(field="abs_rel", figure=Figure.USED, bound=1.0, seen=seen, words=words, in_noise=seen >= 1.0)


def _bar(name: str, scale: _Scale, bound: float, seen: float) -> Bar:
    reached = bound >= seen if scale.below else bound <= seen
    words = f"{'below' if scale.below else 'beyond'} {seen:.9g}"
    in_noise = reached and seen != scale.perfect
    return Bar(field=name, figure=scale.figure, bound=bound, seen=seen, words=words, in_noise=in_noise)
