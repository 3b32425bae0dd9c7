"""The product's own judge on a simulated stream. Nothing of the rule is written again here."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.counts import Windows
from bench.ground import ALLOWED, ERROR_ALLOWED, PARITY_ALLOWED, Ground
from bench.outcome import Outcome
from gateway.core.plan import LATENCY, MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.sequential import Cell
from gateway.core.verdict import Judge, VerdictName

HORIZON_S: Final = 3600.0
_RECENT_S: Final = 30
"""The judge is asked every second for as long after a second in which most attempts failed, since only then can the
breaker fire; otherwise where a window closes."""
_EDGES: Final = (256, 1024, 4096)
"""Between four sizes; the simulated requests have no bodies, so which bytes these are says nothing."""


def cautious(chosen: Plan) -> Plan:
    """The same plan with the bets of the cautious preset."""
    return replace(chosen, preset="cautious", rule=replace(chosen.rule, cautious=True))


def relative(chosen: Plan) -> Plan:
    """The same plan with a relative gate of one and a half times the baseline's rate."""
    return replace(chosen, rule=replace(chosen.rule, relative=1.5))


def stratified(chosen: Plan) -> Plan:
    """The same plan with a class for each size of request."""
    return replace(chosen, strata=_EDGES)


def plan(ground: Ground, *, weight_bp: int, next_bp: int, copies_bp: int) -> Plan:
    """The default rule on one step; parity only where there are copies, since nothing else forms pairs."""
    limits = [
        MetricLimit(metric=metric, allowed=allowed, limit_ms=limit)
        for metric, allowed, limit in zip(LATENCY, ALLOWED, ground.limits_ms, strict=True)
    ]
    limits.append(MetricLimit(metric=MetricId.ERROR, allowed=ERROR_ALLOWED))
    if copies_bp:
        limits.append(MetricLimit(metric=MetricId.PARITY, allowed=PARITY_ALLOWED))
    return Plan(
        rollout="bench",
        steps=(weight_bp, next_bp),
        metrics=tuple(limits),
        parity=ParityPolicy(cosine_min=0.99) if copies_bp else None,
        copies=copies_bp,
        horizon_s=HORIZON_S,
    )


def judge(counts: Windows, chosen: Plan, by_size: Sequence[Windows] = ()) -> Outcome:
    """Asks the judge as the gateway does, until it rolls back: second by second, each window once it is complete.

    by_size: the counts of each class, for a plan that has classes.
    """
    weight_bp, next_bp = chosen.steps
    judging = Judge(chosen, first_window=0)
    judging.start_step(
        weight_bp=weight_bp, next_weight_bp=next_bp, window=0, now=0.0, control=True, baseline_required=True
    )
    cells, complete_at = _cells(counts), counts.complete_at.tolist()
    strata = [_cells(own) for own in by_size]
    next_window, passed_at = 0, None
    last_failure = last_outage = -_RECENT_S
    for now, (n_c, k_c, n_b, k_b) in enumerate(counts.seconds.tolist(), start=1):
        last_failure = now if k_c else last_failure
        last_outage = now if 2 * k_c > n_c else last_outage
        # The baseline answers what the candidate failed: every failure is also a failover.
        failed_over = now - last_failure < 10
        judging.second(baseline=(n_b, k_b), candidate=(n_c, k_c), failed_over_recently=failed_over)
        closed = next_window
        while next_window < len(cells) and complete_at[next_window] <= now:
            answered = int(counts.answered[next_window])
            judging.close_window(
                next_window,
                cells[next_window],
                compiles=0,
                answered=answered,
                strata=[own[next_window] for own in strata],
            )
            next_window += 1
        if closed < next_window or now - last_outage < _RECENT_S:
            verdict = judging.verdict(now=float(now), foresee=False)
            if verdict.name is VerdictName.ROLL_BACK:
                return Outcome(
                    rolled_back_at=now, passed_at=passed_at, metric=str(verdict.metric), rule=str(verdict.rule)
                )
            if verdict.name is VerdictName.ADVANCE and passed_at is None:
                passed_at = now
    return Outcome(rolled_back_at=None, passed_at=passed_at)


def _cells(counts: Windows) -> list[dict[MetricId, Cell]]:
    """The judge's form of the counts. Metrics that the plan does not use are ignored by the judge."""
    cells = []
    for latency, error, (pairs, differ) in zip(
        counts.latency.tolist(), counts.error.tolist(), counts.parity.tolist(), strict=True
    ):
        row = {metric: Cell(*four) for metric, four in zip(LATENCY, latency, strict=True)}
        row[MetricId.ERROR] = Cell(*error)
        row[MetricId.PARITY] = Cell(pairs, differ)
        cells.append(row)
    return cells
