"""What a demo found: the file for programs, the report for people."""

import platform
import textwrap
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Final, Literal

import msgspec

from demo.arms import Arms
from demo.chart import Sample, chart
from demo.frame import WIDTH, label_of
from demo.load_view import Load
from demo.referee import Decision, against_decision, against_explanation, against_service
from demo.scenarios import Outcome, Scenario
from demo.sizing import Sizing
from wire.admin import ArmView, Explanation, JournalLine, MetricView, Status
from wire.health import HealthBody

_DISTRIBUTIONS: Final = ("tpu-canary", "torch", "torch_tpu", "fastatomstruct-xla-cpu", "litestar", "uvicorn", "locust")


class WarmUp(msgspec.Struct, frozen=True, kw_only=True):
    """``cache``: cold when a bucket was compiled, warm when all came from the cache, none where nothing compiles."""

    seconds: float
    cache: Literal["cold", "warm", "none"]
    buckets: int
    first_calls_s: float
    median_ms: dict[str, float]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """``weight`` is the live weight in percent at the decision, ``explanation`` what ``canaryctl explain`` prints.

    ``fault_at_s`` and ``decided_at_s`` are on the clock of ``series``, which begins when the run was opened.
    ``passed`` when there are no ``objections``: to the decision, its cause, its explanation, or what clients had to
    suffer. ``tolerated``: it is not the outcome that was expected, but one that the scenario allows.
    ``fault_struck`` counts the requests, answers or polls that the fault met.
    Latencies of an emulated arm say nothing about a TPU's.
    """

    scenario: str
    outcome: Outcome
    expected: Outcome
    passed: bool
    tolerated: bool
    objections: list[str]
    metric: str | None
    rule: str | None
    explanation: Explanation
    weight: float
    live_candidate_requests: int
    time_to_zero_ms: float | None
    fault_to_decision_s: float | None
    fault_at_s: float | None
    fault_struck: int
    decided_at_s: float
    locust_requests: int
    locust_failures: int
    failovers: int
    wrong_answers: int
    compared_answers: int
    min_cosine: float | None
    parity_pairs: int
    parity_bad: int
    metrics: list[MetricView]
    limit_ms: float
    rate: float
    step_scale: float
    warm_up: dict[str, WarmUp]
    canary_s: float
    duration_s: float
    emulated: bool
    labels: dict[str, str]
    versions: dict[str, str]
    series: list[Sample]
    journal: list[JournalLine]


def warm_up_of(body: HealthBody) -> WarmUp:
    sources = {report.source for report in body.warm_up}
    cache: Literal["cold", "warm", "none"] = (
        "cold" if "compiled" in sources else "warm" if "cache" in sources else "none"
    )
    return WarmUp(
        seconds=body.cold_s if body.cold_s is not None else body.elapsed_s,
        cache=cache,
        buckets=len(body.warm_up),
        first_calls_s=round(sum(report.first_s for report in body.warm_up), 3),
        median_ms={report.bucket: round(1000 * report.warm_s, 2) for report in body.warm_up},
    )


def versions() -> dict[str, str]:
    """What ran, by distribution; absent ones are left out."""
    found = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def build(
    *,
    scenario: Scenario,
    outcome: Outcome,
    status: Status,
    cast: Arms,
    arms: Sequence[ArmView],
    load: Load,
    sizing: Sizing,
    health: Mapping[str, HealthBody],
    journal: list[JournalLine],
    explanation: Explanation,
    series: list[Sample],
    step_scale: float,
    fault_began: float | None,
    fault_at_s: float | None,
    fault_struck: int,
    decided_at: float,
    canary_s: float,
    duration_s: float,
) -> Result:
    """``status`` is that of the decision, ``fault_began`` a wall-clock stamp; so is ``decided_at``, when it was seen.

    ``arms`` are from before the run: one that has crashed no longer says what it is.
    """
    run, verdict = status.run, status.verdict
    decision = Decision(
        outcome=outcome,
        metric=run.metric if run is not None else None,
        weight=run.decided_weight if run is not None and run.decided_weight is not None else status.weight,
        live_candidate_requests=run.live_candidate_requests if run is not None else 0,
        decided_at=decided_at if run is None or run.decided_at is None else run.decided_at,
        fault_began=fault_began,
        struck=fault_struck,
        metrics=verdict.metrics if verdict is not None else [],
    )
    objections = [
        *against_decision(scenario, decision),
        *against_explanation(scenario, outcome, explanation),
        *against_service(scenario, load),
    ]
    return Result(
        scenario=scenario.name,
        outcome=outcome,
        expected=scenario.expected,
        passed=not objections,
        tolerated=outcome in scenario.tolerated,
        objections=objections,
        metric=decision.metric,
        rule=run.rule if run is not None else None,
        explanation=explanation,
        weight=decision.weight / 100,
        live_candidate_requests=decision.live_candidate_requests,
        time_to_zero_ms=run.time_to_zero_ms if run is not None else None,
        fault_to_decision_s=decision.fault_to_decision_s,
        fault_at_s=None if fault_at_s is None else round(fault_at_s, 1),
        fault_struck=fault_struck,
        decided_at_s=round(canary_s, 1),
        locust_requests=load.sent,
        locust_failures=load.failures + load.unsent,
        failovers=load.failovers,
        wrong_answers=load.wrong_answers,
        compared_answers=load.compared,
        min_cosine=status.parity.min_cosine,
        parity_pairs=status.parity.pairs,
        parity_bad=status.parity.bad,
        metrics=verdict.metrics if verdict is not None else [],
        limit_ms=sizing.limit_ms,
        rate=sizing.rate,
        step_scale=step_scale,
        warm_up={arm.name: warm_up_of(health[arm.role]) for arm in cast.both},
        canary_s=round(canary_s, 1),
        duration_s=round(duration_s, 1),
        emulated=any(arm.emulated for arm in arms),
        labels={arm.name: label_of(arm) for arm in cast.both},
        versions=versions(),
        series=series,
        journal=journal,
    )


def report(result: Result) -> str:
    """Outcome, why, how it went over time, evidence, warm-up, journal."""
    blocks = [
        _outcome(result),
        _why(result.explanation),
        chart(result.series, limit_ms=result.limit_ms, fault_at=result.fault_at_s, decided_at=result.decided_at_s),
        _evidence(result),
        _warm_up(result),
        _journal(result),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block)


def _why(explanation: Explanation) -> list[str]:
    """As ``canaryctl explain`` has it."""
    lines = textwrap.wrap(explanation.headline, WIDTH)
    for label, text in (*((fact.label, fact.text) for fact in explanation.facts), ("Next", explanation.next)):
        lines += textwrap.wrap(text, WIDTH, initial_indent=f"  {label:<10}", subsequent_indent=" " * 12)
    return lines


def _outcome(result: Result) -> list[str]:
    named = f", metric {result.metric} by {result.rule}" if result.metric else ""
    found = "NOT as expected" if not result.passed else "tolerated" if result.tolerated else "as expected"
    lines = [f"{result.outcome} at {result.weight:g} %{named}   (scenario {result.scenario}: {found})"]
    for objection in result.objections:
        lines += textwrap.wrap(objection, WIDTH, initial_indent="  ! ", subsequent_indent="    ")
    facts = [
        f"{result.live_candidate_requests} live requests had gone to the candidate",
        f"clients: {result.locust_requests} requests, {result.locust_failures} failures,"
        f" {result.wrong_answers} wrong answers of {result.compared_answers} compared",
    ]
    if result.fault_to_decision_s is not None:
        facts.append(f"decided {result.fault_to_decision_s:.1f} s after the fault began")
    if result.time_to_zero_ms is not None:
        facts.append(f"time to zero: {result.time_to_zero_ms:.0f} ms from the decision to the last acknowledgement")
    return lines + [f"  {fact}" for fact in facts]


def _evidence(result: Result) -> list[str]:
    lines = [f"Evidence (limit L {result.limit_ms:g} ms, {result.rate:g} requests/s, counts of the last step)"]
    lines.append(f"  {'metric':<10}{'candidate bad/of':>18}{'baseline bad/of':>18}{'allowed':>9}{'E':>10}{'bar':>6}")
    for row in result.metrics:
        candidate, baseline = f"{row.candidate_bad}/{row.candidate_events}", f"{row.baseline_bad}/{row.baseline_events}"
        lines.append(
            f"  {row.metric:<10}{candidate:>18}{baseline:>18}{row.allowed:>8.1%} {row.evidence:>9.3g}{row.bar:>6g}"
        )
    cosine = "-" if result.min_cosine is None else f"{result.min_cosine:.6f}"
    lines.append(f"  parity: {result.parity_pairs} pairs, {result.parity_bad} bad, min cosine {cosine}")
    return lines


def _warm_up(result: Result) -> list[str]:
    lines = ["Warm-up"]
    for name, warm in result.warm_up.items():
        cache = {"cold": "cold cache", "warm": "warm cache", "none": "nothing to compile"}[warm.cache]
        text = f"{result.labels[name]}: {warm.buckets} buckets, {warm.seconds:.1f} s, {cache}"
        lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [*lines, f"  canary {result.canary_s:.0f} s, all together {result.duration_s:.0f} s"]


def _journal(result: Result) -> list[str]:
    lines = ["Journal"]
    start = result.journal[0].at if result.journal else 0.0
    for line in result.journal:
        lead = f"  {line.at - start:6.1f} s  {line.kind:<10} "
        lines += textwrap.wrap(line.text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead)) or [lead]
    return lines
