"""The labelled facts: what was seen, the limit, the baseline's number, the samples, the rule."""

from collections.abc import Iterator

from gateway.core.explain.case import NOT_MEASURED, Case, Fact, events, is_bad, ms, quoted, seconds
from gateway.core.figures import Figures
from gateway.core.findings import BreakerCounts, CompileCounts, MetricRow, compiles_text, percent, shapes_text, share_of
from gateway.core.plan import LATENCY, MetricId


def of_row(case: Case, row: MetricRow) -> Iterator[Fact]:
    """Seen, limit, baseline and samples of one metric in the present step."""
    what = events(row.metric)
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
            return f"At most {allowed} may."
        case MetricId.REFUSED:
            return f"At most {allowed} may be."
        case MetricId.PARITY:
            return f"At most {allowed} of the pairs may. {_tolerance(case)}"
        case _:
            return f"At most {allowed} may take longer than {row.limit_ms or 0.0:g} ms."


def _tolerance(case: Case) -> str:
    policy = case.run.plan.parity
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
        case _:
            own = f"{share_of(row.k_b, row.n_b)} took longer." if row.n_b else "None counted."
            return f"{own} {_both_p95(case.figures)}"


def _both_p95(figures: Figures | None) -> str:
    if figures is None:
        return f"p95 of both arms: {NOT_MEASURED}."
    candidate, baseline = figures.candidate, figures.baseline
    return (
        f"p95 since judging began: candidate {ms(candidate.total.p95)}, baseline {ms(baseline.total.p95)};"
        f" in the last {seconds(figures.recent_s)}: candidate {ms(candidate.recent.p95)},"
        f" baseline {ms(baseline.recent.p95)}."
    )


def _samples(case: Case, row: MetricRow) -> str:
    window_s = case.run.plan.rule.window_s
    baseline = "" if row.metric is MetricId.PARITY else f", {row.n_b:,} of the baseline"
    windows = f"{row.windows} window{'' if row.windows == 1 else 's'} of {window_s:g} s"
    lanes = "" if row.metric is MetricId.PARITY else " (live and copied)"
    return f"{row.n_c:,} {events(row.metric)}{lanes} in {windows}{baseline}. {step_age(case)}"


def step_age(case: Case) -> str:
    """``Step 2 of 4, 14 s after it began.``"""
    run = case.run
    until = case.now if run.decided_at is None else run.decided_at
    return f"Step {run.step + 1} of {len(run.plan.steps)}, {seconds(until - run.step_since)} after it began."


def of_breaker(case: Case, seen: BreakerCounts) -> Iterator[Fact]:
    """The same of a breaker, which looks at the last seconds alone."""
    (n_b, k_b), (n_c, k_c) = seen.baseline, seen.candidate
    yield Fact(label="Seen", text=f"{share_of(k_c, n_c)} candidate attempts failed; breaker score {seen.scores[1]:g}.")
    limit = f"A breaker score of {seen.bar:g}. It rises only while more than half of the attempts fail."
    yield Fact(label="Limit", text=limit)
    yield Fact(label="Baseline", text=f"{share_of(k_b, n_b)} attempts failed; breaker score {seen.scores[0]:g}.")
    samples = f"{n_c:,} candidate attempts, {n_b:,} of the baseline in the last {seen.seconds} s. {step_age(case)}"
    yield Fact(label="Samples", text=samples)


def of_compiles(case: Case, seen: CompileCounts) -> Iterator[Fact]:
    """The same of the stop rule for compiles."""
    met = f"Answers of the candidate met {compiles_text(seen.compiles)} on the request path{shapes_text(seen.shapes)}."
    yield Fact(label="Seen", text=met)
    yield Fact(label="Limit", text=f"{seen.allowed} in a step, once the candidate is ready.")
    no_number = "Not compared: once an arm is ready no request may wait for a compile, whatever the other arm does."
    yield Fact(label="Baseline", text=no_number)
    where = "in the step before this one" if seen.answered is None else f"among {seen.answered:,} answers of this step"
    yield Fact(label="Samples", text=f"{compiles_text(seen.compiles)} {where}. {step_age(case)}")


def unknown(case: Case) -> Iterator[Fact]:
    """The same when the numbers are not at hand: what the run itself remembers."""
    told = quoted(case.run.text) or NOT_MEASURED
    yield Fact(label="Seen", text=told)


def evidence(case: Case, metric: str | None) -> Fact:
    """The rule that counts evidence, with its bar in words."""
    verdict = case.verdict
    if verdict is None or not verdict.bar:
        return Fact(label="Rule", text=f"evidence: {NOT_MEASURED}.")
    row = case.row(metric)
    part = f" {metric} alone contributes {row.evidence:.3g}." if row is not None else ""
    return Fact(
        label="Rule",
        text=(
            f"evidence {verdict.evidence:.3g} against a bar of {verdict.bar:g}: at most 1 healthy candidate in"
            f" {verdict.bar:g} ever gets there, however often one looks.{part}"
        ),
    )


def detail(case: Case, metric: str | None) -> Iterator[Fact]:
    """What else belongs to the metric, what is declared to differ, and what the judge noted."""
    parts = [*_of_metric(case, metric)]
    if not case.journal_read:
        parts.append("The numbers behind this are not at hand: the store did not give the run's journal.")
    if declared := case.run.plan.declared_differences:
        parts.append(f"Declared to differ: {', '.join(declared)}.")
    if case.verdict is not None and case.verdict.notes:
        parts.append(f"Noted: {'; '.join(quoted(note) for note in case.verdict.notes)}.")
    if parts:
        yield Fact(label="Detail", text=" ".join(parts))


def _of_metric(case: Case, metric: str | None) -> Iterator[str]:
    figures = case.figures
    if figures is None:
        return
    if metric == MetricId.ERROR:
        arm = figures.candidate
        yield f"Since judging began {arm.failed:,} failed and {arm.unavailable:,} found the candidate unavailable."
    elif metric == "recompile":
        shapes = case.verdict.compiles.shapes if case.verdict and case.verdict.compiles else figures.shapes
        yield f"Compiled: {', '.join(shapes)}." if shapes else "The candidate does not name the shapes."
    elif metric == MetricId.PARITY:
        pairs = figures.pairs
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in pairs.kinds)
        bad = f"{pairs.bad:,} disagree ({kinds})" if kinds else "none disagrees"
        cosine = NOT_MEASURED if pairs.min_cosine is None else f"{pairs.min_cosine:.6g}"
        yield f"Of all {pairs.pairs:,} pairs since judging began {bad}; smallest cosine {cosine}."
        if pairs.worst:
            yield f"Worst: request {quoted(pairs.worst_id, 80)}: {quoted(pairs.worst)}."
    elif metric in LATENCY:
        candidate, baseline = figures.candidate.total, figures.baseline.total
        yield f"p50 since judging began: candidate {ms(candidate.p50)}, baseline {ms(baseline.p50)}."


def clients(case: Case, metric: str | None) -> Iterator[Fact]:
    """Who answered in the candidate's place, and what clients saw."""
    run, figures = case.run, case.figures
    if figures is None:
        yield Fact(label="Clients", text=f"{run.live_candidate_requests:,} live requests had gone to the candidate.")
        return
    seen = figures.clients
    parts = [f"{figures.candidate.live:,} live requests went to the candidate."]
    if seen.failed_over:
        parts.append(f"The baseline answered {seen.failed_over:,} in its place.")
    if seen.spared:
        parts.append(f"The baseline served {seen.spared:,} that it refused.")
    parts.append(f"In all, clients got {seen.answered:,} answers and {seen.failed:,} failures.")
    only_refused = [kind for kind, _ in figures.pairs.kinds] == ["status"]
    if metric == MetricId.PARITY and seen.by_candidate and not only_refused:
        parts.append(f"{seen.by_candidate:,} of the answers were the candidate's: any of them may be wrong.")
    yield Fact(label="Clients", text=" ".join(parts))


def zero(case: Case) -> Fact:
    """Time from the decision to weight 0 in every worker."""
    run = case.run
    if run.time_to_zero_s is None:
        return Fact(label="Zero", text=f"Time to zero: {NOT_MEASURED}; `canaryctl history` names who did not confirm.")
    took = ms(run.time_to_zero_s * 1000.0)
    return Fact(label="Zero", text=f"{took} after the decision every worker had confirmed: nothing to the candidate.")


def missing(case: Case) -> Iterator[Fact]:
    """What promotion still needs; metrics that lack the same are named together."""
    together: dict[str, list[str]] = {}
    for gap in case.verdict.missing if case.verdict else ():
        head, colon, rest = gap.partition(": ")
        is_metric = bool(colon) and head in set(MetricId)
        together.setdefault(rest if is_metric else gap, []).extend([head] if is_metric else [])
    gaps = [f"{', '.join(metrics)}: {gap}" if metrics else gap for gap, metrics in together.items()]
    if gaps:
        yield Fact(label="Missing", text=f"{'; '.join(quoted(gap) for gap in gaps)}.")
