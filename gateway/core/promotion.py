"""Evidence for the candidate: what a step must have shown before more traffic may follow.

Every metric must pass on its own (an intersection, so no alpha is split). The question put to the counts of the
present step is not "is the limit met?" but "can we exclude that the next weight would cost more than a tenth of the
limit's own allowance over all traffic?": the smaller the next weight, the wider the limit.

Only windows count in which the baseline was not clearly outside the limit itself. Events come in bursts; the design
effect D divides the evidence by what the bursts take away from the number of independent events.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from gateway.core.plan import MetricLimit, RuleParameters
from gateway.core.sequential import EMPTY, Cell
from gateway.core.types import FULL_WEIGHT

ALTERNATIVES: Final = (0.05, 0.15, 0.3, 0.5, 0.65, 0.8, 0.9)
"""The candidate's rate as a share of the limit, under which it would deserve promotion; averaged over."""
LIMIT_CAP: Final = 0.9
MOST_TIMES: Final = 4096.0
"""A forecast beyond this many times what was counted so far says nothing."""


def promotion_limit(allowed: float, next_weight_bp: int, rule: RuleParameters) -> float:
    """The bad-event rate to exclude before ``next_weight_bp`` (basis points). ValueError outside 1..10000."""
    if not 1 <= next_weight_bp <= FULL_WEIGHT:
        raise ValueError(f"next weight: {next_weight_bp} must lie between 1 and {FULL_WEIGHT} basis points")
    slack = rule.gamma * FULL_WEIGHT / next_weight_bp
    return min(LIMIT_CAP, allowed + slack * min(allowed, rule.gamma_cap))


def log_evidence(n: float, k: float, limit: float, design_effect: float) -> float:
    """logE+: how strongly ``k`` bad events of ``n`` speak for a rate below ``limit``. 0 events give 0."""
    exponents = [
        (k * math.log(s) + (n - k) * math.log((1.0 - s * limit) / (1.0 - limit))) / design_effect for s in ALTERNATIVES
    ]
    highest = max(exponents)
    return highest + math.log(sum(math.exp(x - highest) for x in exponents) / len(exponents))


class GroupSums:
    """Sums over groups of windows (30 s in the default rule) from which the clustering of bad events follows.

    Integers, so that neither the order of the groups nor a checkpoint changes the result.
    """

    __slots__ = ("groups", "k", "kk", "n", "nk", "nn")

    def __init__(self, groups: Iterable[tuple[int, int]] = ()) -> None:
        self.groups = self.n = self.k = self.nn = self.nk = self.kk = 0
        for n, k in groups:
            self.add(n, k)

    def add(self, n: int, k: int) -> None:
        """One group of ``n`` events, ``k`` of them bad; an empty one is left out."""
        if n > 0:
            self.groups += 1
            self.n += n
            self.k += k
            self.nn += n * n
            self.nk += n * k
            self.kk += k * k

    def mean_size(self) -> float:
        """Events per group, 0 without groups."""
        return self.n / self.groups if self.groups else 0.0

    def icc(self) -> float | None:
        """Intra-group correlation of bad events; None when these groups cannot tell.

        phi = [sum (k_i - n_i p)^2 / (N p (1 - p))] c/(c - 1), icc = (phi - 1) / (mean size - 1).
        """
        c, n, k = self.groups, self.n, self.k
        if c < 2 or k == 0 or k == n or n <= c:
            return None
        # (k_i n - n_i k)^2 summed in integers, then scaled: no cancellation in floating point.
        squares = n * n * self.kk - 2 * n * k * self.nk + k * k * self.nn
        phi = squares / (n * k * (n - k)) * c / (c - 1)
        return (phi - 1.0) / (n / c - 1.0)

    def state(self) -> list[int]:
        return [self.groups, self.n, self.k, self.nn, self.nk, self.kk]

    def restore(self, saved: Sequence[int]) -> None:
        self.groups, self.n, self.k, self.nn, self.nk, self.kk = (int(x) for x in saved)


class MetricProof:
    """The counts of one metric in the present step, and what they prove."""

    def __init__(self, limit: MetricLimit, rule: RuleParameters) -> None:
        self.limit = limit
        self._rule = rule
        self.step = EMPTY
        self.clean_n = self.clean_k = 0
        self.clean_windows = 0
        self.unclean_windows = 0
        """Windows with candidate events in which the baseline was clearly outside the limit itself."""
        self.uncontrolled_windows = 0
        """Windows with candidate events in which the baseline had too few events to be a control."""
        self.proof: float | None = None
        self._candidate = GroupSums()
        self._baseline = GroupSums()
        self._group: int | None = None
        self._open = EMPTY

    def add(self, window: int, cell: Cell, held_to: float | None) -> None:
        """Books a closed window of the step; ``held_to`` as the evidence against gave it."""
        self.step = self.step + cell
        allowed = self.limit.allowed
        clean = held_to is not None and held_to <= allowed + min(allowed, self._rule.clean_slack)
        if cell.n_c > 0:
            self.clean_windows += clean
            self.unclean_windows += held_to is not None and not clean
            self.uncontrolled_windows += held_to is None
        if clean:
            self.clean_n += cell.n_c
            self.clean_k += cell.k_c
            self._add_to_group(window // self._rule.group_windows, cell)

    @property
    def windows(self) -> int:
        """Windows of the step in which the candidate had an event, usable or not."""
        return self.clean_windows + self.unclean_windows + self.uncontrolled_windows

    def _add_to_group(self, group: int, cell: Cell) -> None:
        if group != self._group:
            self._close_group()
            self._group = group
        self._open = self._open + cell

    def _close_group(self) -> None:
        self._candidate.add(self._open.n_c, self._open.k_c)
        self._baseline.add(self._open.n_b, self._open.k_b)
        self._group, self._open = None, EMPTY

    def design_effect(self) -> float:
        """D, from the arm whose bad events cluster more; 1 where no arm has enough groups to tell."""
        enough = [arm for arm in (self._candidate, self._baseline) if arm.groups >= self._rule.min_groups]
        clustering = max((icc for arm in enough if (icc := arm.icc()) is not None), default=0.0)
        return 1.0 + max(0.0, self._candidate.mean_size() - 1.0) * max(0.0, clustering)

    def test(self, next_weight_bp: int, *, more_bad: int = 0) -> float:
        """logE+ of the step so far; call it where a group of windows ends.

        more_bad: bad events to add that no window carries (answers excused beyond what may be excused).
        """
        self._close_group()
        limit = promotion_limit(self.limit.allowed, next_weight_bp, self._rule)
        self.proof = log_evidence(self.clean_n + more_bad, self.clean_k + more_bad, limit, self.design_effect())
        return self.proof

    def times_to_prove(self, next_weight_bp: int, *, more_bad: int = 0) -> float | None:
        """How many times the counts so far would prove the metric, bad ones in the same share; None: not MOST_TIMES.

        To within 5 %, rounded up.
        """
        limit = promotion_limit(self.limit.allowed, next_weight_bp, self._rule)
        n, k, effect = self.clean_n + more_bad, self.clean_k + more_bad, self.design_effect()

        def is_proof(times: float) -> bool:
            return log_evidence(round(n * times), round(k * times), limit, effect) >= self.bar

        low, high = 1.0, 1.0
        while not is_proof(high):
            low, high = high, 2.0 * high
            if high > MOST_TIMES:
                return None
        while high > 1.05 * low:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if is_proof(middle) else (middle, high)
        return high

    @property
    def bar(self) -> float:
        """What logE+ must reach."""
        return math.log(1.0 / self._rule.alpha_promote)

    @property
    def is_proven(self) -> bool:
        """The last test reached the bar."""
        return self.proof is not None and self.proof >= self.bar

    def checkpoint(self) -> dict[str, object]:
        step, open_ = self.step, self._open
        return {
            "step": [step.n_c, step.k_c, step.n_b, step.k_b],
            "clean": [self.clean_n, self.clean_k],
            "windows": [self.clean_windows, self.unclean_windows, self.uncontrolled_windows],
            "proof": self.proof,
            "candidate": self._candidate.state(),
            "baseline": self._baseline.state(),
            "group": self._group,
            "open": [open_.n_c, open_.k_c, open_.n_b, open_.k_b],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self.step = Cell(*(int(x) for x in saved["step"]))
        self.clean_n, self.clean_k = (int(x) for x in saved["clean"])
        self.clean_windows, self.unclean_windows, self.uncontrolled_windows = (int(x) for x in saved["windows"])
        self.proof = None if saved["proof"] is None else float(saved["proof"])
        self._candidate.restore(saved["candidate"])
        self._baseline.restore(saved["baseline"])
        self._group = None if saved["group"] is None else int(saved["group"])
        self._open = Cell(*(int(x) for x in saved["open"]))
