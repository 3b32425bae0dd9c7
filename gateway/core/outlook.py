"""What follows for a run from the traffic that there is: expected times, horizon, how long a step may last, residual.

Nothing in here decides about the candidate. All of it is worked out once, when the run or a step begins, and kept in
the run's record, so that a restart and every other reader go by the same numbers. A rate is in judged live requests a
second, both arms together; None where it is not known, and then the plan's own numbers hold.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gateway.core.plan import HAS_CONTROL, MetricId, MetricLimit, Plan, RuleParameters
from gateway.core.promotion import log_evidence, promotion_limit
from gateway.core.run import LEAST_RESIDUAL, Outlook, Run
from gateway.core.types import FULL_WEIGHT

MIN_HORIZON_S: Final = 7200.0
"""For windows of 10 s; shorter windows shorten it as they do everything else."""
EXPECTED_BAD: Final = 0.5
"""A healthy candidate is expected to have half of the bad events that it may have."""
STRETCH: Final = 3.0
"""A step may last this many times what it should need: bursts, and a rate nearer to the limit, cost about that."""
MOST_RESIDUAL: Final = 500
FORESEEN_S: Final = 30 * 86400.0
"""A step that needs longer is not proven at this traffic."""


def expect(run: Run, rate: float | None) -> Outlook:
    """What ``run`` has before it at ``rate``, before its first step. Without traffic nothing is foretold."""
    plan = run.plan
    if not rate:
        return Outlook(rate=rate, step_s=(), horizon_s=plan.horizon_s)
    steps = [replace(run, step=step) for step in range(len(plan.steps))]
    expected = [_expected_s(step, rate) for step in steps]
    planned = sum(min(s, _longest_s(step, rate)) for s, step in zip(expected, steps, strict=True))
    return Outlook(
        rate=rate,
        step_s=tuple(s if s <= FORESEEN_S else None for s in expected),
        horizon_s=max(min_horizon_s(plan.rule), planned),
    )


def min_horizon_s(rule: RuleParameters) -> float:
    """The shortest horizon of a rule."""
    return MIN_HORIZON_S * rule.window_s / RuleParameters().window_s


def stretched_s(run: Run, rate: float | None) -> float | None:
    """How long the present step of ``run`` may last for thin traffic, the bake not counted; None: as the plan says."""
    plan = run.plan
    if plan.stretch_s is None or not rate:
        return None
    stretched = min(plan.stretch_s, STRETCH * _proof_s(run, rate))
    return stretched if stretched > plan.max_step_s else None


def residual(plan: Plan, rate: float | None) -> int:
    """Basis points that stay on the baseline at 100 %; 0 where not even the most of them would be a control.

    At an unknown rate, or none, the control stays: with the largest share, so that it is most likely to be one.
    """
    if not plan.control_at_full:
        return 0
    if plan.residual is not None:
        return plan.residual
    if not rate:
        return MOST_RESIDUAL
    rule = plan.rule
    wanted = math.ceil(FULL_WEIGHT * rule.control_min / (rate * rule.trail_max_windows * rule.window_s))
    return max(LEAST_RESIDUAL, wanted) if wanted <= MOST_RESIDUAL else 0


def events_to_prove(limit: MetricLimit, next_weight_bp: int, rule: RuleParameters) -> float:
    """Events that prove a metric for ``next_weight_bp`` when half as many as allowed are bad, and none in bursts."""
    bound, bar = promotion_limit(limit.allowed, next_weight_bp, rule), math.log(1.0 / rule.alpha_promote)

    def is_proof(n: float) -> bool:
        return log_evidence(n, n * limit.allowed * EXPECTED_BAD, bound, 1.0) >= bar

    low, high = 0.0, 1.0
    while not is_proof(high):
        low, high = high, 2.0 * high
    while high - low > 0.5:
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_proof(middle) else (middle, high)
    return high


def told(run: Run) -> str:
    """The expected times as sentences; empty for a run that was started without them."""
    outlook, plan = run.outlook, run.plan
    if outlook is None:
        return ""
    horizon = f"Horizon of the evidence: {_span(outlook.horizon_s)}."
    if not outlook.rate:
        why = "traffic has not been counted for long enough" if outlook.rate is None else "no judged request came in"
        return f"No times are foretold: {why}; the plan's own numbers hold. {horizon}"
    steps = [replace(run, step=step) for step in range(len(plan.steps))]
    each = ", ".join(_step_told(step, s, outlook.rate) for step, s in zip(steps, outlook.step_s, strict=True))
    known = [s for s in outlook.step_s if s is not None]
    in_all = f"; in all about {_span(sum(known))}" if len(known) == len(steps) > 1 else ""
    rate = f"{outlook.rate:,.0f}" if outlook.rate >= 100.0 else f"{outlook.rate:.3g}"
    return f"At {rate} judged requests a second (counted at the start) the steps should take: {each}{in_all}. {horizon}"


def _step_told(step: Run, expected_s: float | None, rate: float) -> str:
    name = f"{step.step_weight / 100:g} %" if step.step_weight else "copies only"
    name += " (the bake)" if step.is_last_step else ""
    longest_s = _longest_s(step, rate)
    if expected_s is None:
        return f"{name} not at this traffic (held after {_span(longest_s)})"
    held = f" (but held after {_span(longest_s)})" if expected_s > longest_s else ""
    return f"{name} about {_span(expected_s)}{held}"


def _span(seconds: float) -> str:
    """``45 s``, ``14 min``, ``7.8 h``, ``3.2 days``: as exact as a forecast is."""
    for size, unit in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= 2.0 * size:
            count = seconds / size
            return f"{count:.0f} {unit}" if count >= 10.0 else f"{count:.2g} {unit}"
    return f"{seconds:.0f} s"


def _longest_s(run: Run, rate: float) -> float:
    return replace(run, max_step_s=stretched_s(run, rate)).longest_step_s


def _expected_s(run: Run, rate: float) -> float:
    """Seconds until the present step of ``run`` is passed, infinite where it never is."""
    return max(_proof_s(run, rate), run.plan.bake_s if run.is_last_step else 0.0)


def _proof_s(run: Run, rate: float) -> float:
    """The same without the bake."""
    return max(run.plan.min_step_s, *_metrics_s(run, rate))


def _metrics_s(run: Run, rate: float) -> Iterator[float]:
    """Seconds that each metric which the step requires needs for events, windows and proof."""
    plan, rule = run.plan, run.plan.rule
    full = run.step_weight == FULL_WEIGHT
    kept = residual(plan, rate) if full else 0
    live = (run.step_weight - kept) / FULL_WEIGHT
    copies = run.copies_share / FULL_WEIGHT * (1.0 - live)
    pairs = copies + (plan.copies / FULL_WEIGHT * live if run.step_weight else 0.0)
    with_control = not full or kept > 0
    beside = _control_share(rate * (1.0 - live) * rule.trail_max_windows * rule.window_s, rule.control_min)
    for limit in plan.metrics:
        if limit.metric is MetricId.PARITY and not with_control:
            continue  # nobody requires it there: a pair needs an answer of the baseline
        events = rate * (pairs if limit.metric is MetricId.PARITY else live + copies)
        usable = events * (beside if with_control and HAS_CONTROL[limit.metric] else 1.0)
        if usable <= 0.0:
            yield math.inf
            continue
        needed = max(plan.min_events, events_to_prove(limit, run.next_weight, rule))
        filled = -math.expm1(-events * rule.window_s) * usable / events  # windows with an event that can be used
        yield max(needed / usable, plan.min_windows * rule.window_s / filled)


def _control_share(expected: float, wanted: int) -> float:
    """How often the baseline has ``wanted`` events where ``expected`` come on average (Poisson)."""
    if expected <= 0.0:
        return 0.0
    fewer = sum(math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(wanted))
    return max(0.0, 1.0 - fewer)
