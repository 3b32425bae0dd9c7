"""A run that was rolled back or refused: by a rule of the judge, by gate 1, by a person, by the configuration."""

from collections.abc import Iterator

from gateway.core.explain import facts
from gateway.core.explain.advice import after_rollback
from gateway.core.explain.case import (
    NOT_MEASURED,
    Case,
    Explained,
    Fact,
    clock,
    events,
    explained,
    is_bad,
    name,
    plain,
    quoted,
    weight,
)
from gateway.core.explain.outcome import clients, overridden, zero
from gateway.core.findings import MetricRow, Verdict, VerdictName, percent, share_of, waited_text
from gateway.core.plan import MetricId
from gateway.core.run import Run, State


def rolled_back(case: Case, run: Run) -> Explained:
    """Headline, facts and advice of a run that has ended."""
    if run.rule == "gate":
        return explained(_gate_headline(case), _gate_facts(case), after_rollback(case))
    if run.rule in ("person", "configuration"):
        return explained(_outside_headline(case, run), _outside_facts(case, run), after_rollback(case))
    found = [*_judged_facts(case), *facts.detail(case, run.metric), *clients(case, run.metric), zero(case)]
    shapes = case.figures.shapes if case.figures else ()
    if case.verdict and case.verdict.compiles:
        shapes = case.verdict.compiles.shapes
    return explained(_judged_headline(case, run), found, after_rollback(case), shapes)


def weakest(case: Case) -> MetricRow | None:
    """The metric that is farthest from its proof; of a pass, among those that were required for it."""
    verdict = case.verdict
    rows = verdict.rows if verdict else ()
    if verdict is not None and verdict.name is VerdictName.ADVANCE:
        rows = tuple(row for row in rows if row.passes) or rows
    return min(rows, key=lambda row: (row.passes, (row.proof or 0.0) / (row.proof_bar or 1.0)), default=None)


def _judged_headline(case: Case, run: Run) -> str:
    verdict, row = case.verdict, case.row(run.metric)
    start = f"Rolled back {_origin(run)} for {run.metric or 'no metric'}"
    if verdict is not None and verdict.breaker is not None and run.rule == "breaker":
        seen = verdict.breaker
        failed = f"{share_of(seen.candidate[1], seen.candidate[0])} candidate attempts failed{seen.where}"
        return f"{start}: {failed} within {seen.seconds} s, and the breaker fired."
    if verdict is not None and verdict.compiles is not None:
        return f"{start}: {waited_text(verdict.compiles)}, {verdict.compiles.allowed} may."
    if row is None or not row.n_c or run.rule != "evidence":
        return f"{start} by the rule {run.rule}."
    may = "may be" if row.metric is MetricId.REFUSED else "may"
    share = percent(row.k_c / row.n_c)
    what = f"{events(row.metric)}{case.where(row.metric)}"
    return f"{start}: {share} of the {what} {is_bad(row)}, {percent(row.allowed)} {may}{_but_for_the_gate(case, row)}."


def _but_for_the_gate(case: Case, row: MetricRow) -> str:
    """Why a share within the limit is too much."""
    gate = case.run.plan.rule.relative
    if gate is None or not row.n_b or row.k_c > row.allowed * row.n_c or not facts.is_controlled(case, row):
        return ""
    return f", but no more than {gate:g} times the baseline's {percent(row.k_b / row.n_b)} (relative gate)"


def _origin(run: Run) -> str:
    return f"from {weight(run.decided_weight)}" if run.decided_weight else "before any live traffic"


def _judged_facts(case: Case) -> Iterator[Fact]:
    run, verdict = case.run, case.verdict
    row = case.row(run.metric)
    if run.rule == "breaker" and verdict is not None and verdict.breaker is not None:
        yield from facts.of_breaker(case, verdict.breaker)
        rule = "breaker: for the case where most of everything fails; it waits for no evidence."
    elif run.rule == "recompile" and verdict is not None and verdict.compiles is not None:
        yield from facts.of_compiles(case, verdict.compiles)
        rule = "recompile: a stop rule, counted and not weighed; one answer too many is enough."
    elif run.rule == "evidence" and row is not None:
        yield from facts.of_row(case, row)
        rule = facts.evidence(case, run.metric).text
    else:
        yield from facts.unknown(case)
        rule = f"{run.rule}: its numbers are {NOT_MEASURED}."
    yield Fact(label="Rule", text=f"{rule}{overridden(case)}")


def _gate_headline(case: Case) -> str:
    n = len(case.problems)
    count = f"{n} thing{'' if n == 1 else 's'}" if n else "something"
    return f"Refused before any traffic: gate 1 (compatibility) found {count} that must not be."


def _gate_facts(case: Case) -> Iterator[Fact]:
    found = [quoted(problem) for problem in case.problems] or [quoted(case.run.text)]
    yield Fact(label="Seen", text=f"{'; '.join(found)}.")
    kind = "exactly one declared field may differ" if case.run.plan.kind == "upgrade" else "declared fields may differ"
    limit = f"Revision, tokenizer, truncation and output must be equal and known; of the rest, {kind}."
    yield Fact(label="Limit", text=limit)
    yield Fact(
        label="Baseline", text="It is what the candidate is compared with; where they differ both values stand above."
    )
    yield Fact(label="Samples", text="No requests: gate 1 compares what the two arms say of themselves.")
    yield Fact(label="Rule", text="gate: arms that differ in more than was declared are not compared at all.")
    yield from facts.detail(case, None)


def _outside_headline(case: Case, run: Run) -> str:
    if run.rule == "configuration":
        return f"Rolled back {_origin(run)}: {plain(run.text)}."
    by = name(case.who)
    if case.left == State.IDLE:
        return f"The finished run was undone by {by}: {quoted(run.text)}. The old baseline serves again."
    return f"Rolled back {_origin(run)} by {by}: {quoted(run.text)}."


def _outside_facts(case: Case, run: Run) -> Iterator[Fact]:
    verdict = case.verdict
    if run.rule == "person":
        yield Fact(label="Seen", text=f"No rule had fired; the reason given was {quoted(run.text)}.")
        yield Fact(label="Samples", text=facts.step_age(case))
    else:
        yield Fact(label="Seen", text=plain(run.text))
    yield Fact(label="Limit", text=_no_limit(case, verdict))
    yield Fact(label="Rule", text=f"{run.rule}: no rule of the judge; {_said(run, verdict)}.{overridden(case)}")
    yield from facts.detail(case, None)
    yield from clients(case, None)
    yield zero(case)


def _no_limit(case: Case, verdict: Verdict | None) -> str:
    if verdict is None or not verdict.bar:
        return f"{NOT_MEASURED}."
    return f"Evidence was {verdict.evidence:.3g}; a rollback by it needs {facts.needed(verdict, case.run.plan)}."


def _said(run: Run, verdict: Verdict | None) -> str:
    when = "at that time" if run.promoted_at is None else f"at the promotion, at {clock(run.promoted_at)}"
    if verdict is None:
        return f"what the judge said {when}: {NOT_MEASURED}"
    return f"the judge said {verdict.name} ({verdict.reason}) {when}"
