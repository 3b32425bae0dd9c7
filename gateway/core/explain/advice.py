"""What to do next. After a rollback: one variable to change, everything else kept, and how to begin again.

The stop rule: do not expand, isolate the case, change one variable, keep the old environment. Which variable follows
from the metric, the rule and the numbers; where they leave it open, the text says how to find out which one.
"""

from dataclasses import dataclass
from typing import Final

from gateway.core.explain.case import START, Case, ms, name, quoted, request_id
from gateway.core.explain.facts import outside_percentiles
from gateway.core.figures import Figures, PairFigures, Percentiles
from gateway.core.findings import share_of
from gateway.core.plan import LATENCY, STREAM, MetricId

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
            return (
                f"No rule asked for it: {name(case.who)} rolled back and gave the reason {quoted(run.text)}. Nothing to"
                f" change follows from the numbers. When that is settled, begin again: {START}"
            )
        case "configuration":
            return f"The candidate is not to blame: start a new run for the arms that are configured now: {START}"
        case _:
            return str(_change(case))


def _change(case: Case) -> Change:
    metric = case.run.metric
    if metric in LATENCY:
        return _hanging(case) if outside_percentiles(case, case.row(metric)) else _slow(case.figures)
    if metric == MetricId.ERROR:
        return _failing(case)
    if metric == MetricId.PARITY:
        return _different(case)
    if metric == MetricId.REFUSED:
        return _refusing()
    if metric in STREAM:
        return _streaming(MetricId(metric))
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


def _hanging(case: Case) -> Change:
    failed = case.figures.candidate.failed if case.figures else 0
    return Change(
        look=(
            f"The answers that came were in time; what took too long failed or was not answered ({failed:,} failed so"
            " far). Look in the candidate's log for requests that hang or fail."
        ),
        one="what makes those requests hang, on the candidate alone",
        keep="plan, traffic, model, dtype",
    )


def _where_to_start(figures: Figures | None) -> str:
    candidate, baseline, when = _latest(figures)
    if candidate.p50 is None or not baseline.p50:
        return ""
    ratio = candidate.p50 / baseline.p50
    medians = f"Its median is {ratio:.3g} times the baseline's ({when}{ms(candidate.p50)} against {ms(baseline.p50)})"
    if ratio >= SLOWER:
        return f"{medians}: most answers are slower, so start with the device. "
    return f"{medians}: the tail is what is slow, so start with the queue. "


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
    match kind:
        case "status":
            return Change(
                look=f"The arms disagree on what they accept, not on numbers. {_alone(pairs)}",
                one="the candidate's catalogue (the shape or limit that one arm refuses)",
                keep="plan, traffic, model, dtype",
            )
        case "shape" | "dtype" | "missing_field" | "unexpected_field" | "undecodable":
            return Change(
                look=f"The answers do not have the same form. {_alone(pairs)}",
                one="the candidate's output (dimension, pooling, encoding, fields)",
                keep="plan, traffic, dtype, catalogue",
            )
        case "nan" | "infinity":
            return Change(
                look=(
                    "An answer holds values that are no finite numbers, or only zeros; Detail names the arm. If it is"
                    f" the baseline, no change to the candidate helps: repair that first. {_alone(pairs)}"
                ),
                one="the candidate's dtype",
                keep="plan, traffic, model, matmul precision",
            )
        case _ if case.figures is not None and case.figures.noise.in_noise:
            noise = case.figures.noise
            return Change(
                look=(
                    f"The baseline disagrees with itself, too: in {share_of(noise.bad, noise.pairs)} pairs, more than"
                    " the plan lets differ. No candidate passes that, so these pairs tell nothing of this one."
                ),
                one="the plan's tolerance, to one above the baseline's own noise, or what makes its answers vary",
                keep="traffic, model, dtype",
            )
        case _:
            return _far_or_near(case, pairs)


def _alone(pairs: PairFigures) -> str:
    return f"Isolate it: send {_the_request(pairs)} alone to both arms."


def _the_request(pairs: PairFigures) -> str:
    """No payload is kept here, so its sender has to be asked."""
    return f"request {request_id(pairs.worst_id)} (its sender has the texts)" if pairs.worst_id else "one request"


def _far_or_near(case: Case, pairs: PairFigures) -> Change:
    """By the bound that broke: of direction far, of direction by a little, or of size alone."""
    policy, cosine = case.run.plan.parity, pairs.min_cosine
    if policy is None or cosine is None:
        one = "what differs when the request is alone; if nothing does, the candidate's batching"
        return Change(look=_alone(pairs), one=one, keep="plan, traffic, model, dtype")
    if cosine < min(ROUNDING, policy.cosine_min):
        return Change(
            look=(
                f"A cosine of {cosine:.3g} is no rounding. Isolate it: send the texts of {_the_request(pairs)} one by"
                " one to both arms. A single text that differs means tokenizer or pooling. If each is equal, send the"
                " whole request alone: still different means the order of rows, equal means batching."
            ),
            one="the one of these that the test shows, on the candidate alone",
            keep="plan, traffic, dtype, matmul precision",
        )
    if cosine < policy.cosine_min:
        return Change(
            look=(
                f"A smallest cosine of {cosine:.6g} (the limit is {policy.cosine_min:g}) looks like precision."
                f" {_alone(pairs)}"
            ),
            one="the candidate's matmul precision",
            keep="tolerance, plan, traffic, model, dtype",
        )
    largest = (
        ""
        if pairs.max_abs is None or policy.max_abs is None
        else (f" the largest difference is {pairs.max_abs:.3g} (the limit is {policy.max_abs:g});")
    )
    return Change(
        look=(
            f"The directions agree (smallest cosine {cosine:.6g}, the limit is {policy.cosine_min:g});{largest} so the"
            f" sizes do not. {_alone(pairs)}"
        ),
        one="what scales the candidate's vectors (its normalisation)",
        keep="tolerance, plan, traffic, model, dtype",
    )


def _refusing() -> Change:
    return Change(
        look="The candidate refuses inputs that the baseline serves; its answers (`shape_not_served`) name the limit.",
        one="the candidate's catalogue: add the shapes that the traffic has",
        keep="plan, traffic, model, dtype",
    )


def _streaming(metric: MetricId) -> Change:
    match metric:
        case MetricId.TTFT:
            return Change(
                look=(
                    "Streams begin late. Compare the candidate's queue with its prefill: if short prompts begin as late"
                    " as long ones it is the queue, if the wait grows with the prompt it is the prefill."
                ),
                one="the one of these that grew; for the queue the candidate's capacity",
                keep="plan, traffic, model, dtype",
            )
        case MetricId.ITL:
            return Change(
                look=(
                    "Streams stutter once they have begun. Run one stream alone against the candidate: smooth means"
                    " that streams disturb each other (batch size, prefill between decode steps), stuttering means the"
                    " decode step or what buffers its output."
                ),
                one="the one of these that the test shows, on the candidate alone",
                keep="plan, traffic, model, dtype",
            )
        case _:
            return Change(
                look=(
                    "The candidate ends streams before they are complete. Read its log at the time of the rollback: a"
                    " process that died, a time limit on answers, a proxy in front of it that closes idle connections."
                ),
                one="the cause that the log names, on the candidate alone",
                keep="plan, traffic, model, catalogue",
            )


def _compiling(case: Case) -> Change:
    seen = case.verdict.compiles if case.verdict else None
    shapes = (seen.shapes if seen else ()) or (case.figures.shapes if case.figures else ())
    named = ", ".join(shapes)
    find = "" if shapes else " Find the shapes first: x-canary-compiled of the candidate's answers, or its log."
    if case.run.candidate_strict:
        return Change(
            look=f"The candidate serves declared shapes only, so its warm-up should have compiled these.{find}",
            one=f"the candidate's warm-up, so that it covers {named or 'the shapes that compiled'}",
            keep="plan, traffic, model, dtype, catalogue",
        )
    return Change(
        look=f"Each of those answers waited for a shape that warm-up had not compiled.{find}",
        one=f"the candidate's catalogue: declare {named or 'the shapes that compiled'}, so that warm-up compiles them",
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
