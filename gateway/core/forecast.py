"""When a step would have all that it needs, if traffic and answers go on as they are.

For people; nothing decides by it.
"""

import math
from collections.abc import Iterable

from gateway.core.plan import Plan
from gateway.core.promotion import MetricProof


def seconds_to_go(
    plan: Plan,
    proofs: Iterable[tuple[MetricProof, int]],
    *,
    next_weight_bp: int,
    counted_s: float,
    age_s: float,
    needed_age_s: float,
) -> float | None:
    """Seconds until the last condition of the step is met at the present rate; None when that cannot be foreseen.

    proofs: of the required metrics, with the bad events to add that no window carries. counted_s: how long this step's
    events have been counted, in closed windows. Events, windows and bad events are expected to come as they did so far.
    Tests fall on a grid of windows, so what waits for counts is rounded up to it.
    """
    youth_s = max(0.0, needed_age_s - age_s)
    times = 1.0
    for proof, more_bad in proofs:
        needed = _times_needed(plan, proof, next_weight_bp, more_bad)
        if needed is None:
            return None
        times = max(times, needed)
    grid_s = plan.rule.window_s * plan.rule.promote_every_windows
    counts_s = math.ceil(counted_s * (times - 1.0) / grid_s) * grid_s
    # Something is lacking, or nobody would ask: at the least the next test.
    return max(youth_s, counts_s) or grid_s


def _times_needed(plan: Plan, proof: MetricProof, next_weight_bp: int, more_bad: int) -> float | None:
    """How many times as much as was counted so far this metric needs; None when no amount of the same would do."""
    if not (proof.clean_n and proof.clean_windows):
        return None
    proving = proof.times_to_prove(next_weight_bp, more_bad=more_bad)
    if proving is None:
        return None
    return max(plan.min_events / proof.clean_n, plan.min_windows / proof.clean_windows, proving)
