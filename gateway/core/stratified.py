"""Evidence against the candidate with strata: over all requests together, and in each class of requests by itself.

E = 1/2 E_combined + 1/2 mean over classes of E_class. In a class the candidate is held to the plan's limits or to that
class's own baseline at the same time. Each part is an e-process while the candidate keeps what it is held to there, and
the arithmetic mean of e-processes is one, however they depend on each other (Vovk and Wang, arXiv:1912.06116, section
3); so Ville's inequality still bounds the chance that E ever reaches 1/alpha by alpha. What it costs: a fault of all
requests has to win twice as much in the combined part, one more factor of two in the bar.

Over all requests the arms may have different mixes, by a sticky key or by chance. What the baseline suffers is
therefore standardised to the candidate's mix (direct standardisation): sum over classes of the candidate's share of the
class times the baseline's rate in it. Where the baseline has too few events in a class to say, its overall rate stands
in; of what the candidate has more of there than the baseline, the baseline might fail all. A candidate with more of the
slow kind of request than the baseline is not convicted of that.

Rates of small classes are rough. A bet that is repeated against a rate that is too low by chance for minutes wins by
that alone, so two standard errors are put on top wherever the baseline's rate and not the limit counts. (Simulated with
both arms alike and one class of 5 baseline requests a window beyond the limit: 4 of 40 hours convicted without them,
none of 100 with them.)
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.core.plan import MetricId, MetricLimit, Plan, RuleParameters
from gateway.core.sequential import (
    EMPTY,
    Cell,
    EvidenceAgainst,
    MetricEvidence,
    Trail,
    held_beside,
    wide_windows_of,
)
from gateway.core.strata import count_of

COMBINED_SHARE: Final = 0.5
"""The part of E that all requests together make up; the classes share the rest equally."""
CONTROL_MARGIN: Final = 2.0
"""Standard errors of the baseline's rate that a candidate may be beyond it."""

Strata = Sequence[Mapping[MetricId, Cell]]
"""The cells of each class."""


def standardised(
    mix: Sequence[int], baseline: Sequence[tuple[int, int]], overall: tuple[int, int], least: int
) -> tuple[float, float, float]:
    """(the baseline's bad-event rate at the candidate's mix, its standard error, the share that is not known).

    mix: the candidate's events by class, at least one in all. baseline: (events, bad events) by class. overall: the
    same of all classes together. least: events below which a class of the baseline says nothing; the overall rate
    stands in for it.
    """
    size, (events, bad) = sum(mix), overall
    rate = variance = unknown = 0.0
    for own, (n, k) in zip(mix, baseline, strict=True):
        share = own / size
        if n >= least:
            rate += share * k / n
            variance += share * share * variance_of(n, k)
        else:
            rate += share * bad / events
            unknown += share
    return rate, math.sqrt(variance), unknown


def variance_of(n: int, k: int) -> float:
    """Of the rate of ``k`` bad events in ``n``, by chance: r (1 - r) / n, and from a half on that of a half.

    So one more bad event of the baseline never means that the candidate is held to less.
    """
    rate = min(k / n, 0.5)
    return rate * (1.0 - rate) / n


def too_many(share: float, baseline: tuple[int, int], size: int) -> float:
    """By how much the candidate's share of some classes is beyond the baseline's and two standard errors of chance.

    baseline: (events in these classes, events in all). size: the candidate's events.
    """
    here, events = baseline
    chance = 2.0 * math.sqrt(max(here, 1) / events / size)
    return max(0.0, share - here / events - chance)


class StratumEvidence(MetricEvidence):
    """One metric in one class. A class is small, and one limit for all makes large requests miss it on both arms: the
    baseline's rate is then all that the candidate is held to, so what it may be too low by chance is put on top.
    """

    def _held_to(self, cell: Cell, trail: tuple[int, int], *, wide: bool) -> float | None:
        plain = super()._held_to(cell, trail, wide=wide)
        if plain is None or not self.control:
            return plain
        n, k = trail
        window_rate = cell.k_b / cell.n_b if cell.k_b >= self._rule.control_window_bad else None
        margin = CONTROL_MARGIN * math.sqrt(variance_of(n, k))
        return held_beside(self.allowed, k / n, window_rate, self._rule, margin=margin)


class StandardisedEvidence(MetricEvidence):
    """One metric over all requests, the baseline's rate standardised to the candidate's mix.

    What ``close`` returns is not standardised: promotion leaves out the windows in which the baseline, as it is, misses
    its limits, and that is the same with strata as without.
    """

    def __init__(self, limit: MetricLimit, rule: RuleParameters, *, horizon_wide: float, strata: int) -> None:
        super().__init__(limit, rule, horizon_wide=horizon_wide)
        self._empty = (EMPTY,) * strata
        self.narrow: tuple[Cell, ...] = self._empty
        """The next window, class by class; empty again once it is closed."""
        self._wide_strata: tuple[Cell, ...] = self._empty
        self._trails = tuple(Trail(rule) for _ in range(strata))
        self._plain: float | None = None

    def close(self, cell: Cell, *, closes_wide: bool) -> float | None:
        for trail, stratum in zip(self._trails, self.narrow, strict=True):
            trail.add(stratum.n_b, stratum.k_b)
        self._wide_strata = tuple(a + b for a, b in zip(self._wide_strata, self.narrow, strict=True))
        super().close(cell, closes_wide=closes_wide)
        self.narrow = self._empty
        if closes_wide:
            self._wide_strata = self._empty
        return self._plain

    def _held_to(self, cell: Cell, trail: tuple[int, int], *, wide: bool) -> float | None:
        strata = self._wide_strata if wide else self.narrow
        mix = [stratum.n_c for stratum in strata]
        plain = super()._held_to(cell, trail, wide=wide)
        if not wide:
            self._plain = plain
        if plain is None or not self.control or not any(mix):
            return plain
        rule, window_rate = self._rule, None
        if cell.k_b >= rule.control_window_bad:
            counts = [(stratum.n_b, stratum.k_b) for stratum in strata]
            window_rate, *_ = standardised(mix, counts, (cell.n_b, cell.k_b), rule.control_min)
        trails = [own.total() for own in self._trails]
        rate, error, unknown = standardised(mix, trails, trail, rule.control_min)
        if unknown:
            # Nobody knows how the baseline would do on what the candidate has too much of: it might fail all of it.
            here = sum(own.kept() for own, (n, _) in zip(self._trails, trails, strict=True) if n < rule.control_min)
            excess = too_many(unknown, (here, self.trail.kept()), sum(mix))
            rate += excess * (1.0 - trail[1] / trail[0])
        return held_beside(self.allowed, rate, window_rate, rule, margin=CONTROL_MARGIN * error)

    def follow(self, strata: Sequence[MetricEvidence]) -> None:
        """After a checkpoint: what each class's own evidence has seen of the baseline is what this one has seen."""
        self._wide_strata = tuple(stratum.wide for stratum in strata)
        for trail, stratum in zip(self._trails, strata, strict=True):
            trail.restore(stratum.trail.state())


class _OneStratum(EvidenceAgainst):
    """The bets on one class of requests."""

    def __init__(self, plan: Plan, *, first_window: int) -> None:
        super().__init__(plan, first_window=first_window)
        horizon_wide = wide_windows_of(plan)
        self.metrics = {
            limit.metric: StratumEvidence(limit, plan.rule, horizon_wide=horizon_wide) for limit in plan.metrics
        }


class StratifiedEvidence(EvidenceAgainst):
    """The bets on all requests together and on each class. Windows are closed as in ``EvidenceAgainst``."""

    def __init__(self, plan: Plan, *, first_window: int) -> None:
        super().__init__(plan, first_window=first_window)
        strata = count_of(plan.strata)
        self._standardised = {
            limit.metric: StandardisedEvidence(limit, plan.rule, horizon_wide=wide_windows_of(plan), strata=strata)
            for limit in plan.metrics
        }
        self.metrics = {**self._standardised}
        self.strata = tuple(_OneStratum(plan, first_window=first_window) for _ in range(strata))
        self.held_in_strata = ({},) * strata

    def set_control(self, on: bool) -> None:
        super().set_control(on)
        for stratum in self.strata:
            stratum.set_control(on)

    def close(self, window: int, cells: Mapping[MetricId, Cell], strata: Strata = ()) -> dict[MetricId, float | None]:
        """Without ``strata`` the window was empty in every class. ValueError when their number is another."""
        strata = strata or ({},) * len(self.strata)
        if len(strata) != len(self.strata):
            raise ValueError(f"strata: {len(strata)} classes, the plan makes {len(self.strata)}")
        self.begin(window)
        for metric, evidence in self._standardised.items():
            evidence.narrow = tuple(stratum.get(metric, EMPTY) for stratum in strata)
        self.held_in_strata = tuple(
            evidence.close(window, stratum) for evidence, stratum in zip(self.strata, strata, strict=True)
        )
        return self._close_next(cells)

    def contributions(self) -> dict[MetricId, float]:
        """Each metric's part of E over all requests; ``contributions_in`` has the others."""
        return {metric: COMBINED_SHARE * value for metric, value in super().contributions().items()}

    def contributions_in(self, stratum: int) -> dict[MetricId, float]:
        share = (1.0 - COMBINED_SHARE) / len(self.strata)
        return {metric: share * value for metric, value in self.strata[stratum].contributions().items()}

    def total(self) -> float:
        return super().total() + sum(sum(self.contributions_in(i).values()) for i in range(len(self.strata)))

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
        for metric, evidence in self._standardised.items():
            evidence.follow([stratum.metrics[metric] for stratum in self.strata])


def evidence_against(plan: Plan, *, first_window: int) -> EvidenceAgainst:
    """The bets that ``plan`` calls for."""
    return (StratifiedEvidence if plan.strata else EvidenceAgainst)(plan, first_window=first_window)
