"""Generated text against generated text: how far two answers agree from their beginning.

Greedy decoding on two devices often parts at one near-tie and never meets again, so what is asked is where, not how
alike the rest reads.
"""

import re
from typing import Any, Final

from gateway.core.compare.content import Tensor, Unreadable, numbers_of, type_name
from gateway.core.compare.numbers import shown
from gateway.core.compare.result import Figure, Outcome, PairKind
from gateway.core.compare.rules import TokenPrefix, Unit

_WORDS: Final = re.compile(r"\s*\S+|\s+\Z")


def token_prefix(rule: TokenPrefix, baseline: object, candidate: object) -> Outcome:
    """Texts, or lists of token ids. Null on both arms is equal: a chat answer that only calls tools has no text."""
    if baseline is None and candidate is None:
        return Outcome(PairKind.OK, {Figure.PREFIX_SHARE: 1.0})
    left, right = _units(baseline, rule.unit), _units(candidate, rule.unit)
    if left is None or right is None or type(baseline) is not type(candidate):
        text = (
            f"dtype: baseline {type_name(baseline)}, candidate {type_name(candidate)};"
            " token_prefix compares two texts or two lists of token ids"
        )
        return Outcome(PairKind.DTYPE, text=text)
    agreed = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    longer = max(len(left), len(right))
    if agreed == longer:
        # How many tokens agree is a figure only where something parted: a short answer that is equal is no outlier.
        return Outcome(PairKind.OK, {Figure.PREFIX_SHARE: 1.0})
    share = agreed / longer
    figures: dict[Figure, float] = {Figure.PREFIX_SHARE: share, Figure.PREFIX_TOKENS: agreed}
    broken = []
    what = "tokens" if isinstance(baseline, list | Tensor) else f"{rule.unit}s"
    parted = f"agrees on the first {agreed} {what} of {len(left)} (baseline) and {len(right)} (candidate)"
    if rule.share_min is not None and share < rule.share_min:
        broken.append(f"{parted}, a share of {shown(share, rule.share_min)}, must be at least {rule.share_min:.15g}")
    if rule.tokens_min is not None and agreed < rule.tokens_min:
        broken.append(f"{parted}, must be at least {rule.tokens_min}")
    return Outcome(PairKind.TOLERANCE if broken else PairKind.OK, figures, "; ".join(broken))


def _units(value: object, unit: Unit) -> list[Any] | str | None:
    if isinstance(value, str):
        return value if unit is Unit.CHARACTER else _WORDS.findall(value)
    ids = numbers_of(value) if isinstance(value, list | Tensor) else None
    if ids is None or isinstance(ids, Unreadable):
        return None
    listed: list[Any] = ids.values.tolist()
    # Ids are whole numbers in one row; an empty list has no type of its own.
    return listed if len(ids.shape) == 1 and (not listed or ids.values.dtype.kind in "iu") else None
