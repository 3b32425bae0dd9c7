"""The labelled facts about traffic: who answered, what clients got, when it ended, what a step still lacks."""

from collections.abc import Iterator
from typing import Final

from gateway.core.explain.case import NOT_MEASURED, Case, Fact, ms, name, plain, seconds
from gateway.core.plan import MetricId

MEASURED_WITHIN_S: Final = 10.0
"""Within this time after a rollback the workers have confirmed it, or are named."""


def overridden(case: Case) -> str:
    """`` Step 1 was passed by override of bob, without evidence.`` for each such step; empty without any."""
    return "".join(
        f" Step {each.step + 1} was passed by override of {name(each.who)}, without evidence."
        for each in case.run.overrides
    )


def clients(case: Case, metric: str | None) -> Iterator[Fact]:
    """Who answered in the candidate's place, and what clients got."""
    figures = case.figures
    if figures is None:
        yield Fact(label="Clients", text=f"Live requests to the candidate: {NOT_MEASURED}.")
        return
    seen = figures.clients
    parts = [f"{figures.candidate.live:,} live requests went to the candidate {case.since}."]
    if seen.failed_over:
        parts.append(f"The baseline answered {seen.failed_over:,} in its place.")
    if seen.spared:
        parts.append(f"The baseline served {seen.spared:,} that it refused.")
    parts.append(
        f"Clients got {seen.answered:,} answers, {seen.failed:,} failures and {seen.refused:,} refusals (4xx)."
    )
    only_refused = [kind for kind, _ in figures.pairs.kinds] == ["status"]
    if metric == MetricId.PARITY and seen.by_candidate and not only_refused:
        parts.append(f"{seen.by_candidate:,} of the answers were the candidate's: any of them may be wrong.")
    yield Fact(label="Clients", text=" ".join(parts))


def zero(case: Case) -> Fact:
    """Time from the decision to weight 0 in every worker."""
    return Fact(label="Zero", text=_zero(case))


def _zero(case: Case) -> str:
    run = case.run
    if run.unconfirmed:
        return f"Not confirmed in time by worker {', '.join(run.unconfirmed)}: see `canaryctl status` for its pid."
    if run.acknowledged == 0 or run.rule == "configuration":
        return "No worker was running, so there was nobody to confirm it."
    if run.time_to_zero_s is not None:
        took = ms(run.time_to_zero_s * 1000.0)
        return f"{took} after the decision every worker had confirmed: no new request to the candidate."
    if run.decided_at is not None and case.now - run.decided_at < MEASURED_WITHIN_S:
        return "Routed; the workers are being waited for. Ask again in a few seconds."
    return f"Time to zero: {NOT_MEASURED}."


def missing(case: Case) -> Iterator[Fact]:
    """What promotion still needs; metrics that lack the same are named together."""
    together: dict[str, list[str]] = {}
    for gap in case.verdict.missing if case.verdict else ():
        head, colon, rest = gap.partition(": ")
        is_metric = bool(colon) and head in set(MetricId)
        together.setdefault(rest if is_metric else gap, []).extend([head] if is_metric else [])
    gaps = [f"{', '.join(metrics)}: {gap}" if metrics else gap for gap, metrics in together.items()]
    if gaps:
        yield Fact(label="Missing", text=f"{'; '.join(plain(gap) for gap in gaps)}.{_when(case)}")


def _when(case: Case) -> str:
    """When the rest of a step should be there, and whether that is in time; empty where it cannot be foreseen."""
    to_go_s = case.verdict.to_go_s if case.verdict else None
    if to_go_s is None:
        return ""
    told = f" At present traffic and answers all of it is met in about {seconds(to_go_s)}"
    left_s = case.run.step_since + case.run.longest_step_s - case.now
    if to_go_s <= left_s:
        return f"{told}."
    return (
        f"{told}, and the step has {seconds(max(0.0, left_s))} left: it will be held. A later plan may have a longer"
        " `max_step_s`, more copies or wider limits."
    )
