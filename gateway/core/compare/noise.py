"""The noise floor: how far the baseline disagrees with itself, and whether a policy's bars lie above that.

Pairs of the baseline with itself are compared under the policy before a run starts. A bar that such pairs reach would
fail a candidate for being as good as the baseline, so it is refused, with numbers. Once the run has started nothing is
loosened any more.

What n pairs are worth. If the pairs are independent and drawn like the traffic to come, the largest of n disagreements
is exceeded by at most a share s of all pairs with confidence 1 - (1 - s)^n, whatever their distribution (S. S. Wilks,
Determination of sample sizes for setting tolerance limits, Annals of Mathematical Statistics 12, 1941). With 95 %:
s = 1 - 0.05^(1/n), about 3/n; 598 pairs for 0.5 %. For failures without a bar the bound is the exact binomial one
(C. J. Clopper and E. S. Pearson, Biometrika 26, 1934), which is the same for none among n. Each holds for one field.
The floor says nothing about another device: the candidate's own rounding comes on top.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gateway.core.compare.bars import Bar, bars, has_bars
from gateway.core.compare.embeddings import Tolerance
from gateway.core.compare.parity import FieldStats, ParityStats
from gateway.core.compare.policy import REST, ComparePolicy, ContentKind, ContentPolicy
from gateway.core.compare.result import Figure, PairKind, PairResult
from gateway.core.compare.rules import Cosine, Exact, Rule

CONFIDENCE: Final = 0.95


class Standing(StrEnum):
    ABOVE = "above_floor"
    BELOW = "below_floor"
    TOO_FEW = "too_few_pairs"


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorVerdict:
    """``problems`` refuse the policy; ``missing`` says which pairs are wanted before it can be trusted."""

    standing: Standing
    problems: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


class NoiseFloor:
    """Pairs of the baseline with itself, compared under ``policy``."""

    __slots__ = ("policy", "stats")

    def __init__(self, policy: ComparePolicy, stats: ParityStats | None = None) -> None:
        self.policy = policy
        self.stats = stats if stats is not None else ParityStats()

    def add(self, request_id: str, result: PairResult) -> None:
        """Count one pair of the baseline with itself."""
        self.stats.add(request_id, result)


def share_beyond(pairs: int, confidence: float = CONFIDENCE) -> float:
    """Upper bound of the share of pairs that disagree more than the worst of ``pairs``; 1 for no pairs."""
    return 1.0 if pairs == 0 else -math.expm1(math.log1p(-confidence) / pairs)


def pairs_needed(allowed: float, confidence: float = CONFIDENCE) -> int:
    """Pairs after which ``share_beyond`` is at most ``allowed`` (above 0, below 1)."""
    return math.ceil(math.log1p(-confidence) / math.log1p(-allowed))


def upper_bound(bad: int, pairs: int, confidence: float = CONFIDENCE) -> float:
    """Clopper-Pearson: the largest share at which ``bad`` or fewer of ``pairs`` still have probability 1 - confidence.

    Found by bisection, to 1e-12.
    """
    if bad >= pairs:
        return 1.0
    low, high = bad / pairs, 1.0
    while high - low > 1e-12:
        middle = (low + high) / 2.0
        if _at_most(bad, pairs, middle) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return high


def least_telling(pairs: int, allowed: float, confidence: float = CONFIDENCE) -> int:
    """The least number of bad ones among ``pairs`` which a share of ``allowed`` brings at most that seldom.

    With so many the share of all pairs is above ``allowed`` with ``confidence`` (exact, binomial).
    """
    below = 0.0
    for bad in range(pairs + 1):
        if 1.0 - below <= 1.0 - confidence:
            return bad
        below += _exactly(bad, pairs, allowed)
    return pairs + 1


def embedding_problems(tolerance: Tolerance, stats: ParityStats) -> tuple[str, ...]:
    """The bounds of the short form of a policy, one cosine a row, that pairs of the baseline with itself reach."""
    rule = Cosine(min=tolerance.cosine_min, max_abs=tolerance.max_abs)
    worst = {Figure.COSINE: stats.min_cosine, Figure.MAX_ABS: stats.max_abs}
    limits = bars(rule, rule, {name: value for name, value in worst.items() if value is not None}) or []
    return tuple(f"embedding: {_in_noise(bar, stats.pairs, CONFIDENCE)}" for bar in limits if bar.in_noise)


def judge(policy: ComparePolicy, floor: NoiseFloor, allowed: float, confidence: float = CONFIDENCE) -> FloorVerdict:
    """Do all bars of ``policy`` lie above the floor, and is the floor known well enough for ``allowed`` bad pairs?

    allowed: the share of pairs that the plan lets differ. Contents that the traffic did not show are not judged.
    """
    problems: list[str] = []
    missing: list[str] = []
    if not floor.stats.pairs:
        missing.append(f"no pair of the baseline with itself yet; {pairs_needed(allowed, confidence)} are needed")
    for kind, part in policy.kinds:
        if (ignored := _newly_judged(part, floor.policy.of(kind))) is not None:
            problems.append(f"kinds.{kind}: {ignored}; measure the floor again")
            continue
        for name, rule, stats in _shown(kind, part, floor):
            found, wanted = _judge_field(name, rule, _measured(floor, kind, name), stats, allowed, confidence)
            problems += found
            missing += wanted
    if problems:
        return FloorVerdict(standing=Standing.BELOW, problems=tuple(problems), missing=tuple(missing))
    return FloorVerdict(standing=Standing.TOO_FEW if missing else Standing.ABOVE, missing=tuple(missing))


def _shown(kind: ContentKind, part: ContentPolicy, floor: NoiseFloor) -> Iterator[tuple[str, Rule, FieldStats]]:
    """The fields that pairs showed, each with its rule; what no rule names is held to equality."""
    rules: list[tuple[str, Rule]] = [(entry.name, entry.rule) for entry in part.fields]
    for name, rule in [*rules, *([(REST, Exact())] if part.rest else [])]:
        if (stats := floor.stats.fields.get((kind, name))) is not None:
            yield name, rule, stats


def _newly_judged(part: ContentPolicy, measured: ContentPolicy | None) -> str | None:
    """What this policy compares and the floor did not."""
    if measured is None:
        return "the noise floor was measured without this content"
    if part.rest and not measured.rest:
        return "the noise floor was measured with rest: false"
    ignored = sorted({str(path) for path in measured.ignore} - {str(path) for path in part.ignore})
    return f"the noise floor was measured with '{ignored[0]}' ignored" if ignored else None


def _measured(floor: NoiseFloor, kind: ContentKind, name: str) -> Rule:
    part = floor.policy.of(kind)
    return next((entry.rule for entry in part.fields if entry.name == name), Exact()) if part else Exact()


def _judge_field(
    name: str, rule: Rule, measured: Rule, stats: FieldStats, allowed: float, confidence: float
) -> tuple[list[str], list[str]]:
    problems, missing = [], []
    limits = bars(rule, measured, stats.figures)
    if limits is None:
        return [f"{name}: measured under {measured.rule}, not under this {rule.rule}; measure the floor again"], []
    for bar in limits:
        if bar.in_noise:
            problems.append(f"{name}: {_in_noise(bar, stats.pairs, confidence)}")
    # Under a rule with bars a pair beyond them is measured by its figures; without, all that can be done is to count.
    own = stats.bad - (stats.kinds[PairKind.TOLERANCE] if has_bars(rule) else 0)
    above = upper_bound(own, stats.pairs, confidence)
    if own / stats.pairs > allowed:
        problems.append(
            f"{name}: the baseline disagrees with itself in {own} of {stats.pairs} pairs ({_kinds(stats)}), up to"
            f" {above:.2%} of all with {confidence:.0%} confidence; {allowed:.2%} are allowed and no bar covers this"
        )
    elif above > allowed:
        need = f" (at least {pairs_needed(allowed, confidence)})" if not own else ""
        missing.append(
            f"{name}: {stats.pairs} pairs, {own} of them bad, leave up to {above:.2%} of all pairs beyond what was seen"
            f" ({confidence:.0%} confidence); {allowed:.2%} are allowed: more pairs are needed{need}"
        )
    return problems, missing


def _in_noise(bar: Bar, pairs: int, confidence: float) -> str:
    return (
        f"{bar.field} {bar.bound:.9g} lies in the noise: the baseline against itself reached {bar.figure}"
        f" {bar.seen:.9g} in {pairs} pairs (at most {share_beyond(pairs, confidence):.2%} of such pairs go further,"
        f" {confidence:.0%} confidence); it must lie outside, {bar.words}"
    )


def _kinds(stats: FieldStats) -> str:
    return ", ".join(f"{n} {kind}" for kind, n in sorted(stats.kinds.items()) if n and kind is not PairKind.OK)


def _at_most(bad: int, pairs: int, share: float) -> float:
    """Binomial probability of ``bad`` or fewer among ``pairs``."""
    if not 0.0 < share < 1.0:
        return 1.0 if share <= 0.0 else 0.0
    return math.fsum(_exactly(k, pairs, share) for k in range(bad + 1))


def _exactly(bad: int, pairs: int, share: float) -> float:
    """Binomial probability of ``bad`` among ``pairs``; the share lies between 0 and 1."""
    chosen = math.lgamma(pairs + 1) - math.lgamma(bad + 1) - math.lgamma(pairs - bad + 1)
    return math.exp(chosen + bad * math.log(share) + (pairs - bad) * math.log1p(-share))
