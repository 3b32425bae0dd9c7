"""What another plan may ask of a recording. Counts were made under the limits of the time; no plan can count again."""

from dataclasses import replace
from typing import Final

from gateway.core.outlook import expect
from gateway.core.plan import MetricId, Plan
from gateway.core.run import Run

ALWAYS_COUNTED: Final = frozenset({MetricId.ERROR, MetricId.REFUSED})
"""Whatever the plan says; parity is, where answers were compared."""


def problems_of(asked: Plan, recorded: Plan) -> list[str]:
    """Why ``asked`` cannot judge what was recorded under ``recorded``: field, value, what the recording has."""
    problems = []
    width, counted = asked.rule.window_s, recorded.rule.window_s
    if width != counted:
        problems.append(f"preset: {asked.preset} has windows of {width:g} s; the recorded run had {counted:g} s")
    for limit in asked.metrics:
        own = recorded.limit(limit.metric)
        if limit.metric is MetricId.PARITY:
            if not recorded.compares:
                problems.append("slo.parity: no answers were compared in the recorded run; leave it out")
        elif own is None and limit.metric not in ALWAYS_COUNTED:
            problems.append(f"slo.{limit.metric}: was not counted in the recorded run; leave it out")
        elif own is not None and limit.limit_ms != own.limit_ms:
            problems.append(f"slo.{limit.metric}.limit_ms: {limit.limit_ms:g} was counted as {own.limit_ms:g}; keep it")
    if asked.limit(MetricId.PARITY) and recorded.compares:
        if asked.parity != recorded.parity:
            problems.append("parity: answers were compared by other tolerances; keep those of the recorded run")
        if asked.compare != recorded.compare:
            problems.append("compare: answers were compared by another policy; keep that of the recorded run")
    if asked.strata and asked.strata != recorded.strata:
        was = list(recorded.strata) if recorded.strata else "no classes"
        problems.append(f"strata.edges: {list(asked.strata)} were counted as {was}; keep that, or leave strata out")
    return problems


def as_if_started(asked: Plan, recorded: Run) -> Plan:
    """On the horizon that it would have had, started instead of ``recorded`` at the traffic of then."""
    rate = recorded.outlook.rate if recorded.outlook is not None else None
    return replace(asked, horizon_s=expect(replace(recorded, plan=asked), rate).horizon_s)


def notes_of(asked: Plan, recorded: Plan) -> list[str]:
    """What is not asked of a recording, and so makes no difference."""
    notes = []
    if asked.steps != recorded.steps:
        notes.append(f"steps: the replay follows the recorded weights, {_percents(recorded)}, not {_percents(asked)}")
    if (asked.copies, asked.soak) != (recorded.copies, recorded.soak):
        notes.append("copies: the replay has the copies that were made")
    if (asked.control_at_full, asked.residual) != (recorded.control_at_full, recorded.residual):
        notes.append("residual: at 100 % the baseline keeps what it kept then")
    if asked.noise_pairs != recorded.noise_pairs:
        notes.append("noise_floor: holds where it held then")
    return notes


def _percents(plan: Plan) -> str:
    return ", ".join(f"{step / 100:g}" for step in plan.steps) + " %"
