"""Evidence against the candidate: bounded bets on the bad-event rate of every window.

Everything counts in windows of the plan's base width. For each metric seven small bets run side by side, on narrow
windows (one base window) and wide ones (six). Each bet's wealth is multiplied, window by window, by a factor whose
mean is at most 1 while the candidate's bad-event rate is within what it is held to; averages of such products are
e-processes, and by Ville's inequality the chance that the evidence E ever reaches 1/alpha is at most alpha for a
candidate within its limits, however often one looks (Waudby-Smith and Ramdas, arXiv:2010.09686).

What the candidate is held to in a window is the limit, or the baseline's own present rate where that is higher: it is
convicted only of being worse than both. A relative gate holds it to a multiple of the baseline's rate below the limit
as well; what windows are good for as proof (``close`` returns it) does not depend on that.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.core.control import rate_at_most, relative_rate
from gateway.core.plan import HAS_CONTROL, METRIC_WEIGHT, MetricId, MetricLimit, Plan, RuleParameters

WEALTH_CAP: Final = 1e250
"""A conviction long before; the cap keeps the product finite."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One metric in one window: events and bad events of the candidate and of the baseline."""

    n_c: int = 0
    k_c: int = 0
    n_b: int = 0
    k_b: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.k_c <= self.n_c and 0 <= self.k_b <= self.n_b):
            raise ValueError(
                f"cell: candidate {self.k_c} of {self.n_c}, baseline {self.k_b} of {self.n_b};"
                " bad events must lie between 0 and the events"
            )

    def __add__(self, other: "Cell") -> "Cell":
        return Cell(self.n_c + other.n_c, self.k_c + other.k_c, self.n_b + other.n_b, self.k_b + other.k_b)


EMPTY: Final = Cell()


@dataclass(frozen=True, slots=True)
class Component:
    """One bet. ``stake`` is the share of its wealth put up in each window, ``share`` its part in the average."""

    sign: bool
    wide: bool
    stake: float
    share: float


COMPONENTS: Final = (
    Component(sign=False, wide=False, stake=0.05, share=0.10),
    Component(sign=False, wide=False, stake=0.20, share=0.20),
    Component(sign=False, wide=False, stake=0.60, share=0.20),
    Component(sign=False, wide=True, stake=0.30, share=0.10),
    Component(sign=False, wide=True, stake=0.90, share=0.20),
    Component(sign=True, wide=False, stake=0.40, share=0.10),
    Component(sign=True, wide=True, stake=0.80, share=0.10),
)
"""The rule's seven bets (decision rule, table of components); the shares sum to 1."""

CAUTIOUS: Final = (
    Component(sign=False, wide=True, stake=0.30, share=0.25),
    Component(sign=False, wide=True, stake=0.90, share=0.50),
    Component(sign=True, wide=True, stake=0.80, share=0.25),
)
"""Bets on wide windows alone, for arms whose own bad spells outlast a narrow window (decision rule, after table B)."""


def components_of(rule: RuleParameters) -> tuple[Component, ...]:
    """The bets that ``rule`` makes."""
    return CAUTIOUS if rule.cautious else COMPONENTS


def padded(rate: float, rule: RuleParameters) -> float:
    """The baseline's rate with the tolerated ratio rho on top, at most ``(rho - 1) x rho_cap``."""
    return rate + (rule.rho - 1.0) * min(rate, rule.rho_cap)


def reference_rate(
    allowed: float, window: tuple[int, int], trail: tuple[int, int], rule: RuleParameters, *, more: float = 0.0
) -> float | None:
    """The bad-event rate that the candidate is held to in one window; None when the control is too thin to say.

    window, trail: (events, bad events) of the baseline in the window that is closing and in the trailing windows.
    more: what its rates are raised by, for a candidate that has other requests (stratified.py).
    """
    trail_n, trail_k = trail
    if trail_n < rule.control_min:
        return None
    held_to = max(allowed, padded(min(1.0, trail_k / trail_n + more), rule))
    window_n, window_k = window
    if window_k >= rule.control_window_bad:
        held_to = max(held_to, padded(min(1.0, window_k / window_n + more), rule))
    return held_to


def factor(component: Component, n: int, k: int, held_to: float, allowed: float, rule: RuleParameters) -> float:
    """What one closed window of ``n`` candidate events, ``k`` of them bad, multiplies the bet's wealth by."""
    if n == 0:
        return 1.0
    stake = component.stake
    if component.sign:
        if n * allowed < rule.sign_min_expected:
            return 1.0
        return (1.0 - stake) + stake * float(k / n > held_to) / rule.sign_probability
    # The clip bounds what a single all-bad window can win; one event always counts in full.
    share = min(k / n, max(rule.kappa * held_to, 1.0 / n))
    return (1.0 - stake) + stake * share / held_to


class Trail:
    """One arm's last windows of one metric; the baseline's are the present conditions that both arms share."""

    __slots__ = ("_cells", "_rule")

    def __init__(self, rule: RuleParameters) -> None:
        self._rule = rule
        self._cells: deque[tuple[int, int]] = deque(maxlen=rule.trail_max_windows)

    def add(self, n: int, k: int) -> None:
        """The next window's events and bad events."""
        self._cells.append((n, k))

    def total(self) -> tuple[int, int]:
        """(events, bad events) over the last ``trail_windows``, stretched by as many until enough events are in."""
        step, n, k, seen = self._rule.trail_windows, 0, 0, 0
        for window_n, window_k in reversed(self._cells):
            if seen % step == 0 and n >= self._rule.control_wanted:
                break
            n, k, seen = n + window_n, k + window_k, seen + 1
        return n, k

    def last(self, windows: int) -> tuple[int, int]:
        """(events, bad events) over the last ``windows``, of those that are kept."""
        cells = list(self._cells)[-windows:]
        return sum(n for n, _ in cells), sum(k for _, k in cells)

    def whole(self) -> tuple[int, int]:
        """The same over all that are kept, whatever ``total`` reaches back to."""
        return self.last(self._rule.trail_max_windows)

    def state(self) -> list[tuple[int, int]]:
        return list(self._cells)

    def restore(self, cells: Sequence[Sequence[int]]) -> None:
        self._cells = deque(((int(n), int(k)) for n, k in cells), maxlen=self._rule.trail_max_windows)


class MetricEvidence:
    """The seven bets on one metric. ``control`` False holds the candidate to the limit alone."""

    def __init__(self, limit: MetricLimit, rule: RuleParameters, *, horizon_wide: float) -> None:
        self.metric = limit.metric
        self.allowed = limit.allowed
        self.control = HAS_CONTROL[limit.metric]
        self._rule = rule
        self._components = components_of(rule)
        # Wealth moved into every bet at each wide boundary, so that a regression that begins late does not first
        # have to win back what the good time before it cost.
        self._refill = rule.start_wealth / horizon_wide
        self.wealth = [rule.start_wealth] * len(self._components)
        self.spare = 1.0 - rule.start_wealth
        self.bad_windows = 0
        self.wide = EMPTY
        self.trail = Trail(rule)

    def close(self, cell: Cell, *, closes_wide: bool) -> float | None:
        """Books the next window; the rate that the candidate was held to in it, None without a usable control."""
        self.bad_windows += cell.k_c > 0
        self.trail.add(cell.n_b, cell.k_b)
        trail = self.trail.total()
        self._bet(cell, self._held_to(cell, trail), wide=False)
        self.wide = self.wide + cell
        if closes_wide:
            self._bet(self.wide, self._held_to(self.wide, trail), wide=True)
            self.wide = EMPTY
            self._refill_wealth(1)
        return reference_rate(self.allowed, (cell.n_b, cell.k_b), trail, self._rule) if self.control else self.allowed

    def skip(self, wide_boundaries: int) -> None:
        """Books empty windows in one go, ``wide_boundaries`` of which close a wide one; nothing else may be open."""
        self._refill_wealth(wide_boundaries)

    def value(self, *, wide_open: bool) -> float:
        """E of this metric. An open wide window counts at its worst, so that nobody can stop on half of one."""
        return sum(
            c.share * ((1.0 - c.stake if wide_open and c.wide else 1.0) * wealth + self.spare)
            for c, wealth in zip(self._components, self.wealth, strict=True)
        )

    def _held_to(self, cell: Cell, trail: tuple[int, int]) -> float | None:
        """What the bets hold the candidate to in a narrow or wide window; None: no bet is made."""
        return self._beside(cell, trail) if self.control else self.allowed

    def _beside(self, cell: Cell, trail: tuple[int, int], *, more: float = 0.0) -> float | None:
        """The same beside the baseline. more: as in ``reference_rate``."""
        rule = self._rule
        held_to = reference_rate(self.allowed, (cell.n_b, cell.k_b), trail, rule, more=more)
        if held_to is None or rule.relative is None:
            return held_to
        rates = [trail[1] / trail[0] + more]
        if cell.k_b >= rule.control_window_bad:
            rates.append(cell.k_b / cell.n_b + more)
        at_most = rate_at_most(*self.trail.whole()) + more
        return min(held_to, relative_rate(self.allowed, rates, at_most, rule.relative))

    def _bet(self, cell: Cell, held_to: float | None, *, wide: bool) -> None:
        if held_to is None:
            return
        for i, component in enumerate(self._components):
            if component.wide is wide:
                gain = factor(component, cell.n_c, cell.k_c, held_to, self.allowed, self._rule)
                self.wealth[i] = min(WEALTH_CAP, self.wealth[i] * gain)

    def _refill_wealth(self, times: int) -> None:
        moved = min(self.spare, times * self._refill)
        self.spare -= moved
        self.wealth = [wealth + moved for wealth in self.wealth]

    def checkpoint(self) -> dict[str, object]:
        wide = self.wide
        return {
            "wealth": list(self.wealth),
            "spare": self.spare,
            "bad_windows": self.bad_windows,
            "control": self.control,
            "wide": [wide.n_c, wide.k_c, wide.n_b, wide.k_b],
            "trail": [list(pair) for pair in self.trail.state()],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        wealth = [float(wealth) for wealth in saved["wealth"]]
        if len(wealth) != len(self._components):
            raise ValueError(f"wealth: {len(wealth)} bets, this plan makes {len(self._components)}")
        if not all(0.0 <= each <= 2.0 * WEALTH_CAP for each in wealth):  # evidence that is no number convicts nobody
            raise ValueError(f"wealth: {wealth} must lie between 0 and {WEALTH_CAP:g}")
        self.wealth = wealth
        self.spare = float(saved["spare"])
        self.bad_windows = int(saved["bad_windows"])
        self.control = bool(saved["control"])
        self.wide = Cell(*(int(n) for n in saved["wide"]))
        self.trail.restore(saved["trail"])


def wide_windows_of(plan: Plan) -> float:
    """How many wide windows the plan's horizon holds."""
    return plan.horizon_s / (plan.rule.window_s * plan.rule.wide_windows)


class EvidenceAgainst:
    """The bets on all metrics of a plan, through all steps: alpha is spent once for the whole run.

    Windows are closed in order; one left out was empty. A wide window ends where ``(window + 1) % 6 == 0``.
    """

    def __init__(self, plan: Plan, *, first_window: int) -> None:
        rule = plan.rule
        self._rule = rule
        self._next = first_window
        self._started = False
        horizon_wide = wide_windows_of(plan)
        weights = sum(METRIC_WEIGHT[limit.metric] for limit in plan.metrics)
        self.weight = {limit.metric: METRIC_WEIGHT[limit.metric] / weights for limit in plan.metrics}
        self.metrics = {limit.metric: MetricEvidence(limit, rule, horizon_wide=horizon_wide) for limit in plan.metrics}
        self.strata: tuple[EvidenceAgainst, ...] = ()
        """The same by class of requests, where the plan has strata (stratified.py)."""
        self.held_in_strata: tuple[dict[MetricId, float | None], ...] = ()
        """What each metric was held to in the window closed last, class by class."""

    @property
    def next_window(self) -> int:
        """The first window that is not closed yet."""
        return self._next

    def set_control(self, on: bool) -> None:
        """From the next window on, compare with the baseline (where the metric has a control) or with the limit."""
        for metric, evidence in self.metrics.items():
            evidence.control = on and HAS_CONTROL[metric]

    def close(
        self, window: int, cells: Mapping[MetricId, Cell], strata: Sequence[Mapping[MetricId, Cell]] = ()
    ) -> dict[MetricId, float | None]:
        """Books a window; what each metric was held to in it. ValueError when the window is closed already.

        strata: the same window by class of requests; of use only where the plan has any.
        """
        if window < self._next:
            raise ValueError(f"window: {window} is closed; the next is {self._next}")
        self._cross_gap(window)
        return self._close_next(cells, strata)

    def _close_next(
        self, cells: Mapping[MetricId, Cell], strata: Sequence[Mapping[MetricId, Cell]] = ()
    ) -> dict[MetricId, float | None]:
        self._next += 1
        self._started = True
        closes_wide = self._next % self._rule.wide_windows == 0
        return {
            metric: evidence.close(cells.get(metric, EMPTY), closes_wide=closes_wide)
            for metric, evidence in self.metrics.items()
        }

    def _cross_gap(self, window: int) -> None:
        """Empty windows up to ``window``: one by one while they still change something, then in one go."""
        wide = self._rule.wide_windows
        settled = self._next + self._rule.trail_max_windows + wide
        while self._next < min(window, settled):
            self._close_next({})
        if self._next < window:
            boundaries = window // wide - self._next // wide
            for evidence in self.metrics.values():
                evidence.skip(boundaries)
            self._next = window

    def per_metric(self) -> dict[MetricId, float]:
        """E of each metric, before weighting."""
        wide_open = self._started and self._next % self._rule.wide_windows != 0
        return {metric: evidence.value(wide_open=wide_open) for metric, evidence in self.metrics.items()}

    def contributions(self) -> dict[MetricId, float]:
        """Each metric's part of E: weight times its own E. They add up to ``total``."""
        return {metric: self.weight[metric] * value for metric, value in self.per_metric().items()}

    def total(self) -> float:
        """E. At most 1 on average for a candidate within its limits."""
        return sum(self.contributions().values())

    def total_if_closed(self) -> float:
        """E as if the open wide windows ended here: what a guard against the candidate must look at.

        ``total`` counts them at their worst for whoever bets against it, which is right for a conviction and would
        hide a suspicion in five windows of six.
        """
        return self.together_if_closed()

    def together_if_closed(self) -> float:
        """The same of the bets on all requests together alone, whatever part of E they are."""
        return sum(self.weight[metric] * evidence.value(wide_open=False) for metric, evidence in self.metrics.items())

    def contributions_in(self, stratum: int) -> dict[MetricId, float]:
        """Each metric's part of E in one class of requests. LookupError where there is no such class."""
        raise LookupError(f"stratum: {stratum}; this plan has no classes of requests")

    def lead(self) -> tuple[int | None, MetricId]:
        """(class of requests, metric) that contribute most: the reason given to people. None: over all requests."""
        contributions = self.contributions()
        return None, max(contributions, key=lambda metric: contributions[metric])

    def leading(self) -> MetricId:
        """The metric that contributes most, wherever."""
        return self.lead()[1]

    def convicts(self) -> MetricId | None:
        """The leading metric when E has reached 1/alpha and it was bad in enough windows there; else None."""
        if self.total() < 1.0 / self._rule.alpha_rollback:
            return None
        stratum, leading = self.lead()
        seen = self.metrics if stratum is None else self.strata[stratum].metrics
        return leading if seen[leading].bad_windows >= self._rule.min_bad_windows else None

    def checkpoint(self) -> dict[str, object]:
        return {
            "next": self._next,
            "started": self._started,
            "metrics": {str(metric): evidence.checkpoint() for metric, evidence in self.metrics.items()},
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._next, self._started = int(saved["next"]), bool(saved["started"])
        for metric, evidence in self.metrics.items():
            evidence.restore(saved["metrics"][str(metric)])
