"""Evidence against the candidate with strata: over all requests together, and in each class of requests by itself.

E = 1/2 E_together + 1/2 mean over classes of E_class. Each part is an e-process while the candidate keeps what it is
held to there, and the arithmetic mean of e-processes is one, however they depend on each other (Vovk and Wang,
arXiv:1912.06116, section 3); so Ville's inequality still bounds the chance that E ever reaches 1/alpha by alpha. What
it costs: a fault of all requests has to win twice as much in its half, one more factor of two in the bar.

A class is small, and one limit for all makes large requests miss it on both arms: what the baseline does in the class
is then all that the candidate is held to. A bet that is repeated for minutes against a rate that is too low by chance
wins by that alone, the more so the more events the candidate has beside the baseline's few. So in a class the candidate
is never held to less than an upper bound of the baseline's rate there, over all the windows that are kept.

Over all requests the arms may have different mixes, by a sticky key or by a fault of the split. What the candidate has
too much of, beyond chance, it may fail as often as the baseline might; the rest is the plain rule, and with equal mixes
all of it is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.core.control import rate_at_most
from gateway.core.plan import MetricId, MetricLimit, Plan, RuleParameters
from gateway.core.sequential import Cell, EvidenceAgainst, MetricEvidence, Trail, wide_windows_of
from gateway.core.strata import count_of

TOGETHER_SHARE: Final = 0.5
"""The part of E that all requests together make up; the classes share the rest equally."""
CHANCE: Final = 3.0
"""Standard errors by which the share of a class may differ between equal arms."""
LEAST_EXCESS: Final = 0.01
"""An excess of a class below this share of all requests is not worth an excuse, however certain it is."""

Strata = Sequence[Mapping[MetricId, Cell]]
"""The cells of each class."""


def explained_by_mix(classes: Iterable[tuple[int, int, float]]) -> float:
    """The share of bad events that a candidate like the baseline may have beyond it, since it has other requests.

    classes: of each the candidate's events, the baseline's, and the rate of bad ones that the baseline may have there.
    For each of which the candidate has too much: by how much, times that rate. What the candidate has too little of is
    not held against it here; a regression that hides behind that shows in its class.
    """
    classes = tuple(classes)
    n_c, n_b = sum(c for c, _, _ in classes), sum(b for _, b, _ in classes)
    if not (n_c and n_b):
        return 0.0
    more = 0.0
    for c, b, rate in classes:
        excess, pooled = c / n_c - b / n_b, (c + b) / (n_c + n_b)
        chance = math.sqrt(pooled * (1.0 - pooled) * (1.0 / n_c + 1.0 / n_b))
        if excess > max(CHANCE * chance, LEAST_EXCESS):
            more += excess * rate
    return more


class ClassEvidence(MetricEvidence):
    """One metric in one class: held to an upper bound of the baseline's rate in it, where that is more."""

    def __init__(self, limit: MetricLimit, rule: RuleParameters, *, horizon_wide: float) -> None:
        super().__init__(limit, rule, horizon_wide=horizon_wide)
        self.own = Trail(rule)
        """The candidate's last windows."""

    def close(self, cell: Cell, *, closes_wide: bool) -> float | None:
        self.own.add(cell.n_c, cell.k_c)
        return super().close(cell, closes_wide=closes_wide)

    @property
    def at_most(self) -> float:
        """The rate of bad events that the baseline may have here; 1 where it has too few events to say."""
        n, k = self.trail.whole()
        return rate_at_most(n, k) if n >= self._rule.control_min else 1.0

    def _held_to(self, cell: Cell, trail: tuple[int, int]) -> float | None:
        held_to = super()._held_to(cell, trail)
        return held_to if held_to is None or not self.control else max(held_to, self.at_most)

    def checkpoint(self) -> dict[str, object]:
        return {**super().checkpoint(), "own": [list(pair) for pair in self.own.state()]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        super().restore(saved)
        self.own.restore(saved["own"])


class TogetherEvidence(MetricEvidence):
    """One metric over all requests: the plain rule, with an excuse where the mixes differ by more than chance.

    ``classes`` has the evidence of the same metric in each class, which has booked the window already.
    """

    def __init__(
        self, limit: MetricLimit, rule: RuleParameters, *, horizon_wide: float, classes: Sequence[ClassEvidence]
    ) -> None:
        super().__init__(limit, rule, horizon_wide=horizon_wide)
        self._classes = classes

    def _held_to(self, cell: Cell, trail: tuple[int, int]) -> float | None:
        return self._beside(cell, trail, more=self._excuse()) if self.control else self.allowed

    def _excuse(self) -> float:
        """Over all windows that are kept, or over the last few where a mix has just changed: whichever is more."""
        at_most = [its.at_most for its in self._classes]
        return max(
            explained_by_mix(
                (its.own.last(windows)[0], its.trail.last(windows)[0], rate)
                for its, rate in zip(self._classes, at_most, strict=True)
            )
            for windows in (self._rule.trail_windows, self._rule.trail_max_windows)
        )


class _OneClass(EvidenceAgainst):
    """The bets on one class of requests."""

    def __init__(self, plan: Plan, *, first_window: int) -> None:
        super().__init__(plan, first_window=first_window)
        horizon_wide = wide_windows_of(plan)
        self.classes = {
            limit.metric: ClassEvidence(limit, plan.rule, horizon_wide=horizon_wide) for limit in plan.metrics
        }
        self.metrics = {**self.classes}


class StratifiedEvidence(EvidenceAgainst):
    """The bets on all requests together and on each class. Windows are closed as in ``EvidenceAgainst``."""

    def __init__(self, plan: Plan, *, first_window: int) -> None:
        super().__init__(plan, first_window=first_window)
        classes = tuple(_OneClass(plan, first_window=first_window) for _ in range(count_of(plan.strata)))
        horizon_wide = wide_windows_of(plan)
        self.metrics = {
            limit.metric: TogetherEvidence(
                limit,
                plan.rule,
                horizon_wide=horizon_wide,
                classes=tuple(each.classes[limit.metric] for each in classes),
            )
            for limit in plan.metrics
        }
        self.strata = classes
        self.held_in_strata = ({},) * len(classes)

    def set_control(self, on: bool) -> None:
        super().set_control(on)
        for stratum in self.strata:
            stratum.set_control(on)

    def close(self, window: int, cells: Mapping[MetricId, Cell], strata: Strata = ()) -> dict[MetricId, float | None]:
        """Without ``strata`` the window was empty in every class. ValueError when their number is another."""
        if strata and len(strata) != len(self.strata):
            raise ValueError(f"strata: {len(strata)} classes, the plan makes {len(self.strata)}")
        return super().close(window, cells, strata)

    def _close_next(self, cells: Mapping[MetricId, Cell], strata: Strata = ()) -> dict[MetricId, float | None]:
        """The classes first: what they have seen says how the mixes differ."""
        self.held_in_strata = tuple(
            stratum._close_next(own)
            for stratum, own in zip(self.strata, strata or ({},) * len(self.strata), strict=True)
        )
        return super()._close_next(cells)

    def _cross_gap(self, window: int) -> None:
        super()._cross_gap(window)
        for stratum in self.strata:  # window by window they came along; what is left changes no trail
            stratum._cross_gap(window)

    def contributions(self) -> dict[MetricId, float]:
        """Each metric's part of E over all requests; ``contributions_in`` has the others."""
        return {metric: TOGETHER_SHARE * value for metric, value in super().contributions().items()}

    def contributions_in(self, stratum: int) -> dict[MetricId, float]:
        share = (1.0 - TOGETHER_SHARE) / len(self.strata)
        return {metric: share * value for metric, value in self.strata[stratum].contributions().items()}

    def total(self) -> float:
        return super().total() + sum(sum(self.contributions_in(i).values()) for i in range(len(self.strata)))

    def total_if_closed(self) -> float:
        apart = sum(stratum.total_if_closed() for stratum in self.strata) / len(self.strata)
        return TOGETHER_SHARE * self.together_if_closed() + (1.0 - TOGETHER_SHARE) * apart

    def lead(self) -> tuple[int | None, MetricId]:
        parts: list[tuple[float, int | None, MetricId]] = [(v, None, m) for m, v in self.contributions().items()]
        for i in range(len(self.strata)):
            parts += [(value, i, metric) for metric, value in self.contributions_in(i).items()]
        _, stratum, metric = max(parts, key=lambda part: part[0])
        return stratum, metric

    def checkpoint(self) -> dict[str, object]:
        return {**super().checkpoint(), "strata": [stratum.checkpoint() for stratum in self.strata]}

    def restore(self, saved: Mapping[str, Any]) -> None:
        if len(saved["strata"]) != len(self.strata):
            raise ValueError(f"strata: {len(saved['strata'])} classes, this plan makes {len(self.strata)}")
        super().restore(saved)
        for stratum, its_own in zip(self.strata, saved["strata"], strict=True):
            stratum.restore(its_own)


def evidence_against(plan: Plan, *, first_window: int) -> EvidenceAgainst:
    """The bets that ``plan`` calls for."""
    return (StratifiedEvidence if plan.strata else EvidenceAgainst)(plan, first_window=first_window)
