"""Recordings whose answer is known: traffic of a baseline, made up window by window."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gateway.core.evidence import ClosedWindow
from gateway.core.histogram import bin_of
from gateway.core.plan import MetricId, MetricLimit, Plan
from gateway.core.tape import Began, Closed, Told
from gateway.core.types import Count, Lane, Role, empty_tally

LIMIT_MS = 100.0
ALLOWED = 0.01
QUICK, SLOW = bin_of(0.040), bin_of(0.150)
"""Of a request within the limit (doubled, too), and of one beyond it."""
NEAR = bin_of(0.070)
"""Within the limit, and beyond it when doubled."""


def plan(**change: Any) -> Plan:
    """The default rule on three steps, quick to pass."""
    fields: dict[str, Any] = {
        "rollout": "demo", "steps": (1000, 5000, 10_000), "bake_s": 600.0, "horizon_s": 7200.0,
        "metrics": (
            MetricLimit(metric=MetricId.LAT_P99, allowed=ALLOWED, limit_ms=LIMIT_MS),
            MetricLimit(metric=MetricId.ERROR, allowed=0.003),
        ),
    }  # fmt: skip
    return Plan(**(fields | change))


def traffic(
    windows: int,
    chance: np.random.Generator,
    *,
    rate: float = 300.0,
    beyond: float = ALLOWED / 2,
    near: float = 0.0,
    failing: float = 0.0005,
    spell: int = 0,
    every: int = 0,
    in_spell: float = 0.3,
    counted: bool = False,
) -> Iterator[Told]:
    """``rate`` requests a window, a share ``beyond`` the limit; in spells of ``spell`` windows, one in about ``every``,
    a share ``in_spell``. counted: the limit was counted when it was recorded.
    """
    yield Began(0.0, 0, None, {str(MetricId.LAT_P99): LIMIT_MS} if counted else {})
    left = 0
    for window in range(windows):
        if every and left == 0 and chance.random() < 1.0 / every:
            left = spell
        share = in_spell if left else beyond
        left = max(0, left - 1)
        n = int(chance.poisson(rate))
        failed = int(chance.binomial(n, failing))
        slow = int(chance.binomial(n - failed, share))
        close = int(chance.binomial(n - failed - slow, near))
        tally = empty_tally()
        tally[Count.OK], tally[Count.FAILED] = n - failed, failed
        if counted:
            tally[Count.LAT99_N], tally[Count.LAT99_BAD] = n - failed, slow
        bins = [(QUICK, n - failed - slow - close), (NEAR, close), (SLOW, slow)]
        latencies = tuple((bin_, count) for bin_, count in bins if count)
        yield Closed(window * 10.0, ClosedWindow(window, {(Role.BASELINE, Lane.LIVE): tally}), (), latencies)
