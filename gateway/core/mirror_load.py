"""Whether the candidate's copied answers are as fast as its live ones.

Copies count like live requests, so the load that they bring must not be taken for the candidate's own slowness, nor a
mirror that spares it for speed. Both lanes are counted apart in each step, and a difference is said. It decides
nothing.

Two shares of late answers are compared by the two-sided two-proportion test at p < 0.001. Late answers come in bursts,
so each lane's counts are first divided by its design effect (J. N. K. Rao and A. J. Scott, Biometrics 48, 1992), which
is that of the promotion test. Both lanes share their bursts, which makes the test err to the silent side.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gateway.core.findings import share_of
from gateway.core.plan import MetricId, MetricLimit, RuleParameters
from gateway.core.promotion import GroupSums

Lanes = tuple[int, int, int, int]
"""Answers and late ones of the candidate: live n, k, copied n, k."""

MIN_EVENTS: Final = 100
"""In each lane."""
DEVIATIONS: Final = 3.2905
"""Of the standard normal distribution, two-sided p = 0.001."""


class _Metric:
    """One metric's lanes in the step, in groups of windows; a group counts once it is over."""

    __slots__ = ("copied", "group", "live", "open")

    def __init__(self) -> None:
        self.live, self.copied = GroupSums(), GroupSums()
        self.group: int | None = None
        self.open: Lanes = (0, 0, 0, 0)

    def add(self, group: int, lanes: Lanes) -> None:
        if group != self.group:
            live_n, live_k, copied_n, copied_k = self.open
            self.live.add(live_n, live_k)
            self.copied.add(copied_n, copied_k)
            self.group, self.open = group, (0, 0, 0, 0)
        a, b, c, d = self.open
        self.open = (a + lanes[0], b + lanes[1], c + lanes[2], d + lanes[3])

    def disagrees(self, rule: RuleParameters) -> bool:
        live, copied = self.live, self.copied
        if min(live.n, copied.n) < MIN_EVENTS or min(live.groups, copied.groups) < rule.min_groups:
            return False
        live_n, copied_n = live.n / _design_effect(live), copied.n / _design_effect(copied)
        live_share, copied_share = live.k / live.n, copied.k / copied.n
        together = (live_share * live_n + copied_share * copied_n) / (live_n + copied_n)
        variance = together * (1.0 - together) * (1.0 / live_n + 1.0 / copied_n)
        return abs(live_share - copied_share) > DEVIATIONS * math.sqrt(variance)


class MirrorLoad:
    """The lanes of the present step. Where nothing is copied there is nothing in here and nothing comes of it."""

    def __init__(self, rule: RuleParameters) -> None:
        self._rule = rule
        self._metrics: dict[MetricId, _Metric] = {}

    def start(self) -> None:
        """A step begins: its counts start over."""
        self._metrics = {}

    def add(self, window: int, lanes: Mapping[MetricId, Lanes]) -> None:
        """Adds the latency metrics of a window of this step."""
        for metric, counts in lanes.items():
            if counts[2] or metric in self._metrics:
                self._metrics.setdefault(metric, _Metric()).add(window // self._rule.group_windows, counts)

    def notes(self, limits: Iterable[MetricLimit]) -> list[str]:
        """What a reader of the verdict must know beside the numbers."""
        notes = []
        for limit in limits:
            seen = self._metrics.get(limit.metric)
            if seen is None or not seen.disagrees(self._rule):
                continue
            live, copied = seen.live, seen.copied
            slower = "copies" if copied.k * live.n > live.k * copied.n else "live answers"
            notes.append(
                f"mirror load: {limit.metric}: {share_of(live.k, live.n)} of the candidate's live answers and"
                f" {share_of(copied.k, copied.n)} of its answers to copies took longer than {limit.limit_ms or 0.0:g}"
                f" ms; the {slower} are slower than chance explains, and both count"
            )
        return notes

    def checkpoint(self) -> dict[str, object]:
        """Empty where nothing was copied."""
        return {
            str(metric): {
                "live": seen.live.state(),
                "copied": seen.copied.state(),
                "group": seen.group,
                "open": list(seen.open),
            }
            for metric, seen in self._metrics.items()
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        """KeyError, TypeError or ValueError when it is no checkpoint."""
        self._metrics = {}
        for metric, its_own in saved.items():
            seen = self._metrics[MetricId(metric)] = _Metric()
            seen.live.restore(its_own["live"])
            seen.copied.restore(its_own["copied"])
            seen.group = None if its_own["group"] is None else int(its_own["group"])
            a, b, c, d = (int(n) for n in its_own["open"])
            seen.open = (a, b, c, d)


def _design_effect(lane: GroupSums) -> float:
    return 1.0 + max(0.0, lane.mean_size() - 1.0) * max(0.0, lane.icc() or 0.0)
