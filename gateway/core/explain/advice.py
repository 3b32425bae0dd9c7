"""What to do next. After a rollback: one variable to change, everything else kept, and how to begin again.

The stop rule: do not expand, isolate the case, change one variable, keep the old environment. Which variable follows
from the metric, the rule and the numbers; where they leave it open, the text says how to find out which one.
"""

from dataclasses import dataclass
from typing import Final

from gateway.core.explain.case import Case, ms, quoted
from gateway.core.figures import Figures, PairFigures, Percentiles
from gateway.core.plan import LATENCY, MetricId

START: Final = '`canaryctl start PLAN --reason "..."`'
ROUNDING: Final = 0.9
"""A cosine below it comes from no rounding: bfloat16 against float32 was measured at 0.998."""
SLOWER: Final = 1.5
"""A candidate whose median is this much above the baseline's is slow in every answer, not in a few."""
ENOUGH: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """look: what to find out first. one: the only thing to change. keep: what must stay as it is."""

    look: str
    one: str
    keep: str

    def __str__(self) -> str:
        return (
            f"Do not expand. {self.look} Change one thing: {self.one}. Keep {self.keep} and the baseline as they are."
            f" Then begin again: {START}"
        )


def after_rollback(case: Case) -> str:
    """What to change after a rule has rolled back, or why nothing is to be changed."""
    run = case.run
    match run.rule:
        case "gate":
            return _after_gate(case)
        case "person":
            by = quoted(case.who, 80) or "a person"
            reason = f'"{quoted(case.reason or run.text)}"'
            return (
                f"No rule asked for it: {by} rolled back and gave the reason {reason}. Nothing to change follows from"
                f" the numbers. When that is settled, begin again: {START}"
            )
        case "configuration":
            return f"The candidate is not to blame: start a new run for the arms that are configured now: {START}"
        case _:
            return str(_change(case))


def _change(case: Case) -> Change:
    metric = case.run.metric
    if metric in LATENCY:
        return _slow(case.figures)
    if metric == MetricId.ERROR:
        return _failing(case)
    if metric == MetricId.PARITY:
        return _different(case)
    if metric == MetricId.REFUSED:
        return _refusing()
    return _compiling(case)


def _slow(figures: Figures | None) -> Change:
    return Change(
        look=(
            f"{_where_to_start(figures)}Find the phase that grew: compare x-canary-queue-ms with x-canary-device-ms of"
            " slow answers, or canary_server_phase_seconds of both servers."
        ),
        one="the phase that grew; for the queue the candidate's capacity, for the device the bucket that is slow",
        keep="plan, traffic, model, dtype",
    )


def _where_to_start(figures: Figures | None) -> str:
    candidate, baseline, when = _latest(figures)
    if candidate.p50 is None or baseline.p50 is None:
        return ""
    medians = f"{when}{ms(candidate.p50)} against {ms(baseline.p50)}"
    if candidate.p50 >= SLOWER * baseline.p50:
        return f"Its median is slow, too ({medians}), so start with the device. "
    return f"Its median is close to the baseline's ({medians}), only the tail is slow, so start with the queue. "


def _latest(figures: Figures | None) -> tuple[Percentiles, Percentiles, str]:
    """(candidate, baseline, when): of late where enough was answered."""
    if figures is None:
        return Percentiles(), Percentiles(), ""
    candidate, baseline = figures.candidate, figures.baseline
    if min(candidate.recent.count, baseline.recent.count) >= ENOUGH:
        return candidate.recent, baseline.recent, "of late "
    return candidate.total, baseline.total, ""


def _failing(case: Case) -> Change:
    arm = case.figures.candidate if case.figures else None
    if arm is not None and arm.unavailable > arm.failed:
        return Change(
            look=(
                f"It was mostly away, not wrong ({arm.unavailable:,} unavailable, {arm.failed:,} failed): look at its"
                " readiness probe, its restarts and its limits, not at its code."
            ),
            one="what takes the candidate away: its readiness or its capacity",
            keep="plan, traffic, model, catalogue",
        )
    return Change(
        look="Read the candidate's log at the time of the rollback: 5xx, dropped connections, a process that died.",
        one="the cause that the log names, on the candidate alone",
        keep="plan, traffic, model, catalogue",
    )


def _different(case: Case) -> Change:
    pairs = case.figures.pairs if case.figures else PairFigures()
    kind = pairs.kinds[0][0] if pairs.kinds else ""
    isolate = (
        f"Isolate it: send request {quoted(pairs.worst_id, 80)} alone to both arms (its sender has the text, no"
        " payload is kept here)."
        if pairs.worst_id
        else "Isolate it: send one text alone to both arms."
    )
    match kind:
        case "status":
            return Change(
                look=f"The arms disagree on what they accept, not on numbers. {isolate}",
                one="the candidate's catalogue (the shape or limit that one arm refuses)",
                keep="plan, traffic, model, dtype",
            )
        case "shape" | "dtype" | "missing_field" | "unexpected_field" | "undecodable":
            return Change(
                look=f"The answers do not have the same form. {isolate}",
                one="the candidate's output (dimension, pooling, encoding)",
                keep="plan, traffic, dtype, catalogue",
            )
        case "nan" | "infinity":
            return Change(
                look=f"The answers hold values that are no finite numbers, or only zeros. {isolate}",
                one="the candidate's dtype",
                keep="plan, traffic, model, matmul precision",
            )
        case _:
            return _far_or_near(case, pairs.min_cosine, isolate)


def _far_or_near(case: Case, cosine: float | None, isolate: str) -> Change:
    if cosine is None:
        one = "what differs when the request is alone; if nothing does, the candidate's batching"
        return Change(look=isolate, one=one, keep="plan, traffic, model, dtype")
    if cosine < ROUNDING:
        return Change(
            look=(
                f"A cosine of {cosine:.3g} is no rounding: suspect the order of rows, the tokenizer, pooling, batching."
                f" {isolate} Equal when alone means batching, different means tokenizer or pooling."
            ),
            one="the one of these that the test shows, on the candidate alone",
            keep="plan, traffic, dtype, matmul precision",
        )
    policy = case.run.plan.parity
    limit = f" (the limit is {policy.cosine_min:g})" if policy is not None else ""
    return Change(
        look=f"A smallest cosine of {cosine:.6g}{limit} looks like precision. {isolate}",
        one="the candidate's matmul precision (or its dtype, if that is at the highest already)",
        keep="tolerance, plan, traffic, model",
    )


def _refusing() -> Change:
    return Change(
        look="The candidate refuses inputs that the baseline serves; its answers (`shape_not_served`) name the limit.",
        one="the candidate's catalogue: add the shapes that the traffic has",
        keep="plan, traffic, model, dtype",
    )


def _compiling(case: Case) -> Change:
    seen = case.verdict.compiles if case.verdict else None
    shapes = (seen.shapes if seen else ()) or (case.figures.shapes if case.figures else ())
    named = f"declare {', '.join(shapes)}" if shapes else "declare the shapes that compiled"
    return Change(
        look=(
            "Each of those answers waited for a compile."
            if shapes
            else "Find the shapes first: x-canary-compiled of the candidate's answers, or its log."
        ),
        one=(
            f"the candidate's catalogue: {named}, so that warm-up compiles them (or, if no client needs them, `strict:"
            " true`, which refuses them)"
        ),
        keep="plan, traffic, model, dtype",
    )


def _after_gate(case: Case) -> str:
    first = quoted(case.problems[0]) if case.problems else quoted(case.run.text)
    more = len(case.problems) - 1
    rest = f" ({more} more {'follows' if more == 1 else 'follow'}; one at a time)" if more > 0 else ""
    return str(
        Change(
            look="No traffic went to the candidate: the arms are not comparable as they are.",
            one=f"the first difference, {first}{rest}",
            keep="the rest of the plan, the model",
        )
    )
