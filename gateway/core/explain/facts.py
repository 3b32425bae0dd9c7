"""The labelled facts of a judged metric: what was seen, the limit, the baseline's number, the samples, the rule."""

from collections.abc import Iterator
from typing import Final

from gateway.core.explain.case import NOT_MEASURED, Case, Fact, events, is_bad, ms, plain, quoted, request_id, seconds
from gateway.core.figures import ArmFigures, PairFigures, Percentiles
from gateway.core.findings import (
    BreakerCounts,
    CompileCounts,
    MetricRow,
    Verdict,
    gate_sentence,
    percent,
    share_of,
    waited_text,
)
from gateway.core.plan import HAS_CONTROL, LATENCY, MetricId, Plan
from gateway.core.types import Phase


def of_row(case: Case, row: MetricRow) -> Iterator[Fact]:
    """Seen, limit, baseline and samples of one metric in the present step."""
    what = events(row.metric) + case.where(row.metric)
    if row.n_c:
        yield Fact(label="Seen", text=f"{share_of(row.k_c, row.n_c)} {what} {is_bad(row)}.")
    else:
        before = "; what weighs was counted in the steps before" if case.run.rule == "evidence" else ""
        yield Fact(label="Seen", text=f"No {what} counted in this step{before}.")
    yield Fact(label="Limit", text=_limit(case, row))
    yield Fact(label="Baseline", text=_baseline(case, row))
    yield Fact(label="Samples", text=_samples(case, row))


def _limit(case: Case, row: MetricRow) -> str:
    allowed = percent(row.allowed)
    match row.metric:
        case MetricId.ERROR:
            limit = f"At most {allowed} may fail or find it unavailable."
        case MetricId.REFUSED:
            limit = f"At most {allowed} may be refused."
        case MetricId.PARITY:
            limit = f"At most {allowed} of the pairs may disagree. {_tolerance(case)}"
        case MetricId.STREAM_BROKEN:
            limit = f"At most {allowed} may be broken off."
        case MetricId.TTFT:
            limit = f"At most {allowed} may have their first event later than {row.limit_ms or 0.0:g} ms."
        case MetricId.ITL:
            limit = f"At most {allowed} may have more than 5 % of their gaps longer than {row.limit_ms or 0.0:g} ms."
        case _:
            limit = f"At most {allowed} may take longer than {row.limit_ms or 0.0:g} ms."
    if not is_controlled(case, row):
        return limit
    limit += gate_sentence(case.run.plan.rule.relative)
    if row.n_b and row.k_b / row.n_b > row.allowed:
        return f"{limit} The baseline is above that itself, which raises what the candidate is held to."
    return limit


def is_controlled(case: Case, row: MetricRow) -> bool:
    """The candidate is compared with the baseline in this metric."""
    return HAS_CONTROL[row.metric] and case.run.has_control


def _tolerance(case: Case) -> str:
    plan = case.run.plan
    if plan.policy is not None:
        kinds = ", ".join(kind for kind, _ in plan.policy.kinds)
        return (
            f"A pair disagrees when a field breaks its rule in the plan's `compare` ({kinds}), or when one arm answers"
            " and the other refuses."
        )
    policy = plan.parity
    if policy is None:
        return "The plan says not when a pair disagrees."
    max_abs = "" if policy.max_abs is None else f", above a difference of {policy.max_abs:g}"
    return (
        f"A pair disagrees below cosine {policy.cosine_min:g}{max_abs}, or when one arm answers and the other refuses."
    )


def _baseline(case: Case, row: MetricRow) -> str:
    match row.metric:
        case MetricId.PARITY:
            return "None of its own: its answers are what the candidate's are compared with."
        case MetricId.REFUSED:
            return "0, by definition: only what the baseline then served counts as refused."
        case MetricId.ERROR:
            return f"{share_of(row.k_b, row.n_b)} failed." if row.n_b else "None counted."
        case MetricId.STREAM_BROKEN:
            return f"{share_of(row.k_b, row.n_b)} were broken off." if row.n_b else "None counted."
        case MetricId.TTFT:
            return f"{share_of(row.k_b, row.n_b)} began later." if row.n_b else "None counted."
        case MetricId.ITL:
            return f"{share_of(row.k_b, row.n_b)} had more." if row.n_b else "None counted."
        case _:
            own = f"{share_of(row.k_b, row.n_b)} took longer." if row.n_b else "None counted."
            return f"{own} {_both_p95(case)}"


def _both_p95(case: Case) -> str:
    figures = case.figures
    if figures is None:
        return f"p95 of both arms: {NOT_MEASURED}."
    candidate, baseline = figures.candidate, figures.baseline
    return (
        f"p95 of successful answers {case.since}: candidate {ms(candidate.total.p95)}, baseline"
        f" {ms(baseline.total.p95)}; in the last {seconds(figures.recent_s)}: candidate {ms(candidate.recent.p95)},"
        f" baseline {ms(baseline.recent.p95)}."
    )


def outside_percentiles(case: Case, row: MetricRow | None) -> bool:
    """More events took too long than the percentiles of successful answers allow: those came late by never coming."""
    if row is None or row.limit_ms is None or case.figures is None or not row.n_c:
        return False
    share, candidate = row.k_c / row.n_c, case.figures.candidate
    return any(
        all(_is_within(value, row.limit_ms) for value in at_quantile)
        for quantile, at_quantile in (
            (0.05, (candidate.total.p95, candidate.recent.p95)),
            (0.5, (candidate.total.p50, candidate.recent.p50)),
        )
        if share > quantile
    )


def _is_within(value: float | None, limit_ms: float) -> bool:
    return value is None or value <= limit_ms


def _samples(case: Case, row: MetricRow) -> str:
    window_s = case.run.plan.rule.window_s
    baseline = "" if row.metric is MetricId.PARITY else f", {row.n_b:,} of the baseline"
    windows = f"{row.windows} window{'' if row.windows == 1 else 's'} of {window_s:g} s"
    lanes = "" if row.metric is MetricId.PARITY else f" ({_lanes(case)})"
    what = f"{events(row.metric)}{case.where(row.metric)}"
    return f"{row.n_c:,} {what}{lanes} in {windows}{baseline}. {step_age(case)}"


def _lanes(case: Case) -> str:
    run = case.run
    return " and ".join([*(["live"] if run.step_weight else []), *(["copied"] if run.copies_share else [])])


def step_age(case: Case) -> str:
    """``Step 2 of 4; evidence counted for 14 s.`` A resume or a restart begins the evidence again."""
    run = case.run
    until = run.promoted_at or run.decided_at or case.now
    return f"Step {run.step + 1} of {len(run.plan.steps)}; evidence counted for {seconds(until - run.step_since)}."


def of_breaker(case: Case, seen: BreakerCounts) -> Iterator[Fact]:
    """The same of a breaker, which looks at the last seconds alone, and of one worker where it is a worker's own."""
    (n_b, k_b), (n_c, k_c) = seen.baseline, seen.candidate
    yield Fact(
        label="Seen",
        text=f"{share_of(k_c, n_c)} candidate attempts failed{seen.where}; breaker score {seen.scores[1]:g}.",
    )
    limit = f"A breaker score of {seen.bar:g}. It rises only while more than half of the attempts fail."
    yield Fact(label="Limit", text=limit)
    yield Fact(label="Baseline", text=f"{share_of(k_b, n_b)} attempts failed; breaker score {seen.scores[0]:g}.")
    counted = f"{n_c:,} candidate attempts, {n_b:,} of the baseline{seen.where} in the last {seen.seconds} s."
    yield Fact(label="Samples", text=f"{counted} {step_age(case)}")


def of_compiles(case: Case, seen: CompileCounts) -> Iterator[Fact]:
    """The same of the stop rule for compiles."""
    yield Fact(label="Seen", text=f"{waited_text(seen)}.")
    yield Fact(label="Limit", text=f"{seen.allowed} in a step, once the candidate is ready.")
    no_number = "Not compared: once an arm is ready no request may wait for a compile, whatever the other arm does."
    yield Fact(label="Baseline", text=no_number)
    where = "in the step before this one"
    if seen.answered is not None:
        where = f"in this step, which has {seen.answered:,} successful answers"
    yield Fact(label="Samples", text=f"{seen.met:,} {where}. {step_age(case)}")


def unknown(case: Case) -> Iterator[Fact]:
    """The same when the numbers are not at hand: what the run itself remembers."""
    yield Fact(label="Seen", text=plain(case.run.text) or NOT_MEASURED)


def evidence(case: Case, metric: str | None) -> Fact:
    """The rule that counts evidence, with its bar in words."""
    verdict = case.verdict
    if verdict is None or not verdict.bar:
        return Fact(label="Rule", text=f"evidence: {NOT_MEASURED}.")
    row = case.row(metric)
    part = f" {metric} alone contributes {row.evidence:.3g}." if row is not None else ""
    often = f"at most 1 healthy candidate in {verdict.bar:.3g} ever gets there, however often one looks"
    if case.sticky:
        often = f"for a split by request {often}; this split is by key, for which that does not hold"
    return Fact(
        label="Rule", text=f"evidence {verdict.evidence:.3g} against a bar of {verdict.bar:.3g}: {often}.{part}"
    )


def needed(verdict: Verdict, plan: Plan) -> str:
    """What a rollback by evidence needs: the bar, and bad events in several windows."""
    return f"{verdict.bar:.3g} and bad events in {plan.rule.min_bad_windows} windows"


def detail(case: Case, metric: str | None) -> Iterator[Fact]:
    """What else belongs to the metric, who passed a step, what is declared to differ, and what the judge noted."""
    parts = [*_of_metric(case, metric)]
    if case.figures is not None and (latency := case.figures.paired.sentence):
        parts.append(f"Latency of {latency}.")
    if case.gap:
        parts.append(f"The numbers behind this are not at hand: {case.gap}.")
    if declared := case.run.plan.declared_differences:
        parts.append(f"Declared to differ: {', '.join(plain(each) for each in declared)}.")
    if case.verdict is not None and case.verdict.notes:
        parts.append(f"Noted: {'; '.join(plain(note) for note in case.verdict.notes)}.")
    if parts:
        yield Fact(label="Detail", text=" ".join(parts))


def _of_metric(case: Case, metric: str | None) -> Iterator[str]:
    figures = case.figures
    if figures is None:
        return
    if metric == MetricId.ERROR:
        arm, breaker = figures.candidate, case.verdict.breaker if case.verdict else None
        if breaker is None or not breaker.worker:  # counted a window later than a worker's breaker sees it
            yield (
                f"{arm.failed:,} failed{_phases(arm)} and {arm.unavailable:,} found the candidate unavailable"
                f" {case.since}."
            )
    elif metric == "recompile":
        shapes = case.verdict.compiles.shapes if case.verdict and case.verdict.compiles else figures.shapes
        yield f"Compiled: {', '.join(shapes)}." if shapes else "The candidate does not name the shapes."
    elif metric == MetricId.PARITY:
        yield from _of_pairs(case)
    elif metric in LATENCY:
        candidate, baseline = figures.candidate.total, figures.baseline.total
        yield (
            f"p50 of successful answers {case.since}: candidate {_with_count(candidate)}, baseline"
            f" {_with_count(baseline)}."
        )
        if outside_percentiles(case, case.row(metric)):
            yield (
                "More took too long than these percentiles allow: what failed or has not been answered is not in them"
                f" ({figures.candidate.failed:,} failed)."
            )


_HOW_FAR: Final = {
    Phase.CONNECT: "without a connection",
    Phase.FIRST_BYTE: "before the first byte of an answer",
    Phase.BODY: "in mid-answer",
    Phase.STATUS: "with a status of 5xx or 429",
}


def _phases(arm: ArmFigures) -> str:
    """`` (38 without a connection, 2 in mid-answer)``, the most frequent first; empty where nothing is known of it."""
    known = [(n, how) for phase, how in _HOW_FAR.items() for name, n in arm.phases if name == phase]
    told = ", ".join(f"{n:,} {how}" for n, how in sorted(known, key=lambda found: -found[0]))
    return f" ({told})" if told else ""


def _with_count(seen: Percentiles) -> str:
    return f"{ms(seen.p50)} ({seen.count:,} answers)"


def _of_pairs(case: Case) -> Iterator[str]:
    if case.figures is None:
        return
    pairs, policy = case.figures.pairs, case.run.plan.parity
    kinds = ", ".join(f"{n:,} {plain(kind)}" for kind, n in pairs.kinds)
    bad = f"{pairs.bad:,} disagree ({kinds})" if kinds else "none disagrees"
    if policy is None and pairs.min_cosine is None:  # a policy of labels or texts has no cosine to show
        yield f"Of all {pairs.pairs:,} pairs {case.since} {bad}."
    else:
        yield _with_cosine(case, pairs, bad)
    for field in pairs.fields:
        seen = ", ".join(f"{n:,} {plain(kind)}" for kind, n in field.kinds)
        worst = ", ".join(f"{plain(name)} {value:.6g}" for name, value in field.figures)
        yield (
            f"Field {quoted(field.field)} of {plain(field.content)}: {field.bad:,} of {field.pairs:,} pairs disagree"
            f" ({seen}){f', at worst {worst}' if worst else ''}."
        )
    if pairs.worst:
        yield f"Worst: request {request_id(pairs.worst_id)}: {quoted(pairs.worst)}."


def _with_cosine(case: Case, pairs: PairFigures, bad: str) -> str:
    policy = case.run.plan.parity
    cosine = NOT_MEASURED if pairs.min_cosine is None else f"{pairs.min_cosine:.6g}"
    largest = ""
    if policy is not None and policy.max_abs is not None:
        largest = f", largest difference {NOT_MEASURED if pairs.max_abs is None else f'{pairs.max_abs:.3g}'}"
    return f"Of all {pairs.pairs:,} pairs {case.since} {bad}; smallest cosine {cosine}{largest}."
