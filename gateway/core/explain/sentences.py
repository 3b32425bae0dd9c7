"""Headline, facts and next step for every state. Labels stand in one order: LABELS."""

from collections.abc import Iterator
from typing import Final

from gateway.core.explain import facts
from gateway.core.explain.advice import START, after_rollback
from gateway.core.explain.case import NOT_MEASURED, Case, Explained, Fact, events, is_bad, quoted, seconds, weight
from gateway.core.explain.waiting import Waiting, waiting
from gateway.core.findings import MetricRow, VerdictName, compiles_text, percent, shapes_text, share_of
from gateway.core.plan import MetricId
from gateway.core.run import Outcome, Run, State
from gateway.core.types import FULL_WEIGHT

LABELS: Final = ("Seen", "Limit", "Baseline", "Samples", "Rule", "Detail", "Clients", "Zero", "Missing")
FINISH: Final = '`canaryctl finish --reason "..."`'
ROLLBACK: Final = '`canaryctl rollback --reason "..."`'
RESUME: Final = '`canaryctl resume --reason "..."`'


def explain(case: Case) -> Explained:
    """Why the rollout stands where it stands. Never raises for what is missing: it says so."""
    rollout = case.rollout
    run = rollout.run
    match rollout.state:
        case State.IDLE:
            return _idle(case)
        case State.ROLLED_BACK if run is not None and run.outcome in (Outcome.ROLLED_BACK, Outcome.REFUSED):
            return _rolled_back(case, run)
        case State.ROLLED_BACK:
            return _nothing_to_roll_back(case)
        case State.VALIDATING:
            return _validating(case)
        case State.DONE:
            return _done(case)
        case _:
            return _running(case)


# -- ended ------------------------------------------------------------------------------------------------------------


def _rolled_back(case: Case, run: Run) -> Explained:
    if run.rule == "gate":
        return _explained(_gate_headline(case), _gate_facts(case), after_rollback(case))
    if run.rule in ("person", "configuration"):
        return _explained(_outside_headline(case, run), _outside_facts(case, run), after_rollback(case))
    found = [*_judged_facts(case), *facts.detail(case, run.metric), *facts.clients(case, run.metric), facts.zero(case)]
    shapes = case.figures.shapes if case.figures else ()
    if case.verdict and case.verdict.compiles:
        shapes = case.verdict.compiles.shapes
    return _explained(_judged_headline(case, run), found, after_rollback(case), shapes)


def _judged_headline(case: Case, run: Run) -> str:
    verdict, row = case.verdict, case.row(run.metric)
    start = f"Rolled back {_origin(run)} for {run.metric or 'no metric'}"
    if verdict is not None and verdict.breaker is not None and run.rule == "breaker":
        attempts, failed = verdict.breaker.candidate
        where = f"within {verdict.breaker.seconds} s"
        return f"{start}: {share_of(failed, attempts)} candidate attempts failed {where}, and the breaker fired."
    if verdict is not None and verdict.compiles is not None:
        seen = verdict.compiles
        met = f"answers of the candidate met {compiles_text(seen.compiles)}{shapes_text(seen.shapes)}"
        return f"{start}: {met}, {seen.allowed} allowed."
    if row is None or not row.n_c or run.rule != "evidence":
        return f"{start} by the rule {run.rule}."
    may = "may be" if row.metric is MetricId.REFUSED else "may"
    share = percent(row.k_c / row.n_c)
    return f"{start}: {share} of the {events(row.metric)} {is_bad(row)}, {percent(row.allowed)} {may}."


def _origin(run: Run) -> str:
    return f"from {weight(run.decided_weight)}" if run.decided_weight else "before any live traffic"


def _judged_facts(case: Case) -> Iterator[Fact]:
    run, verdict = case.run, case.verdict
    row = case.row(run.metric)
    if run.rule == "breaker" and verdict is not None and verdict.breaker is not None:
        yield from facts.of_breaker(case, verdict.breaker)
        yield Fact(label="Rule", text="breaker: for the case where most of everything fails; it waits for no evidence.")
    elif run.rule == "recompile" and verdict is not None and verdict.compiles is not None:
        yield from facts.of_compiles(case, verdict.compiles)
        yield Fact(
            label="Rule", text="recompile: a stop rule, counted and not weighed; one compile too many is enough."
        )
    elif run.rule == "evidence" and row is not None:
        yield from facts.of_row(case, row)
        yield facts.evidence(case, run.metric)
    else:
        yield from facts.unknown(case)
        yield Fact(label="Rule", text=f"{run.rule}: its numbers are {NOT_MEASURED}.")


def _gate_headline(case: Case) -> str:
    n = len(case.problems)
    count = f"{n} thing{'' if n == 1 else 's'}" if n else "something"
    return f"Refused before any traffic: gate 1 (compatibility) found {count} that must not be."


def _gate_facts(case: Case) -> Iterator[Fact]:
    found = [quoted(problem) for problem in case.problems] or [quoted(case.run.text) or NOT_MEASURED]
    yield Fact(label="Seen", text="; ".join(found))
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
        return f"Rolled back {_origin(run)}: {quoted(run.text)}."
    by = quoted(case.who, 80) or "a person"
    if case.left == State.IDLE:
        return f'The finished run was undone by {by}: "{quoted(run.text)}". The old baseline serves again.'
    return f'Rolled back {_origin(run)} by {by}: "{quoted(run.text)}".'


def _outside_facts(case: Case, run: Run) -> Iterator[Fact]:
    verdict = case.verdict
    if run.rule == "person":
        yield Fact(label="Seen", text=f'Nothing that a rule acts on; the reason given was "{quoted(run.text)}".')
    else:
        yield Fact(label="Seen", text=quoted(run.text))
    if verdict is not None and verdict.bar:
        reached = f"evidence {verdict.evidence:.3g} against a bar of {verdict.bar:g}"
        yield Fact(label="Limit", text=f"None was reached: {reached}.")
        said = f"the judge said {verdict.name} ({verdict.reason}) at that time"
    else:
        yield Fact(label="Limit", text=f"{NOT_MEASURED}.")
        said = f"what the judge said at that time: {NOT_MEASURED}"
    yield Fact(label="Samples", text=facts.step_age(case))
    yield Fact(label="Rule", text=f"{run.rule}: no rule of the judge; {said}.")
    yield from facts.detail(case, None)
    yield from facts.clients(case, None)
    yield facts.zero(case)


def _nothing_to_roll_back(case: Case) -> Explained:
    headline = f"Rolled back while no run was open: {case.arms[0]} serves everything, as it did before."
    return _explained(headline, (), f"Nothing. To begin a run: {START}")


def _done(case: Case) -> Explained:
    run, at = case.run, case.rollout.weight
    start = f"Promoted: the last step passed at {weight(at)}"
    by = quoted(case.overridden, 80)
    headline = f"{start} by override of {by}, without evidence." if by else f"{start}, on evidence."
    found: list[Fact] = []
    if (row := _weakest(case)) is not None:
        found += facts.of_row(case, row)
        found.append(facts.evidence(case, row.metric))
    else:
        said = f"Passed by {by}, not by the judge." if by else f"The numbers behind the pass: {NOT_MEASURED}."
        found.append(Fact(label="Seen", text=said))
    found += [*facts.detail(case, None), *facts.clients(case, None)]
    return _explained(headline, found, _after_done(case, run))


def _after_done(case: Case, run: Run) -> str:
    if case.rollout.weight == FULL_WEIGHT:
        baseline, candidate = case.arms
        return f"{FINISH} makes {candidate} the baseline; {baseline} stays the rollback target. {ROLLBACK} undoes it."
    return (
        f"The plan ended at {weight(run.plan.steps[-1])}, so nothing can be finished: start a plan whose last step is"
        f" 100 %: {START}"
    )


def _idle(case: Case) -> Explained:
    run = case.rollout.run
    if case.rollout.swapped and run is not None:
        headline = f"Idle: run {run.run_id} was finished, {case.arms[0]} is the baseline now and serves everything."
        then = f"Nothing. For the next run configure the new arms and restart; {ROLLBACK} brings the old baseline back."
        return _explained(headline, (), then)
    headline = f"Idle: no run is open, {case.arms[0]} serves everything and is measured only."
    return _explained(headline, (), f"Nothing has to be done. To begin a run: {START}")


# -- under way --------------------------------------------------------------------------------------------------------


def _validating(case: Case) -> Explained:
    awaited = quoted(case.waiting_for or "") or "the comparison of the two arms"
    found = [
        Fact(label="Seen", text="No request of this run yet; the candidate gets none before gate 1 has passed."),
        Fact(label="Rule", text="gate 1: both arms ready, then what they say of themselves is compared."),
        *facts.detail(case, None),
        Fact(label="Missing", text=f"{awaited}."),
    ]
    then = f"Wait while that comes up, or look at the log of the arm that is named. {ROLLBACK} ends the run."
    return _explained(f"Validating: no traffic for the candidate yet; waits for {awaited}.", found, then)


def _running(case: Case) -> Explained:
    verdict, state = case.verdict, case.rollout.state
    held = waiting(case)
    found: list[Fact] = []
    row = case.row(verdict.metric if verdict else None) or _weakest(case)
    if row is not None:
        found += facts.of_row(case, row)
    else:
        found += [Fact(label="Seen", text="Nothing has been judged yet in this step."), _so_far(case)]
    found.append(_rule(case, held))
    found += facts.detail(case, row.metric if row else None)
    found += facts.clients(case, row.metric if row else None)
    found += facts.missing(case)
    shapes = case.figures.shapes if case.figures else ()
    match state:
        case State.PAUSED:
            return _explained(
                _paused(case), found, f"{RESUME} begins the step's evidence again; {ROLLBACK} ends it.", shapes
            )
        case State.HELD:
            return _explained(_held(case), found, _after_held(case), shapes)
        case _:
            return _explained(f"{_where(case)}: {held.short}.", found, held.then, shapes)


def _so_far(case: Case) -> Fact:
    return Fact(label="Samples", text=facts.step_age(case))


def _rule(case: Case, held: Waiting) -> Fact:
    verdict = case.verdict
    if verdict is None or not verdict.bar:
        return Fact(label="Rule", text=held.meaning)
    told = f"Evidence against the candidate {verdict.evidence:.3g}; a rollback needs {verdict.bar:g}."
    return Fact(label="Rule", text=f"{held.meaning} {told}")


def _where(case: Case) -> str:
    run = case.run
    step = f"Step {run.step + 1} of {len(run.plan.steps)}"
    match case.rollout.state:
        case State.SHADOWING:
            return f"{step}, copies only"
        case State.BAKING:
            return f"{step} (the bake) at {weight(case.rollout.weight)}"
        case _:
            return f"{step} at {weight(case.rollout.weight)}"


def _paused(case: Case) -> str:
    by = quoted(case.who, 80) or "a person"
    reason = f': "{quoted(case.reason)}"' if case.reason else ""
    return f"Paused at {weight(case.rollout.weight)} by {by}{reason}. Nothing advances; rollback stays armed."


def _held(case: Case) -> str:
    run = case.run
    longest = run.plan.max_step_s + (run.plan.bake_s if run.is_last_step else 0.0)
    return (
        f"Held at {weight(case.rollout.weight)}: step {run.step + 1} of {len(run.plan.steps)} was not settled within"
        f" {seconds(longest)}. The weight stays until a person decides."
    )


def _after_held(case: Case) -> str:
    proven = case.verdict is not None and case.verdict.name is VerdictName.ADVANCE
    now = "By now the evidence is complete. " if proven else ""
    return (
        f"{now}Decide: {RESUME} gathers this step's evidence again; {ROLLBACK} ends the run;"
        f' `canaryctl promote --override --confirm {case.run.plan.rollout} --reason "..."` goes up without evidence.'
    )


def _weakest(case: Case) -> MetricRow | None:
    """The metric that is farthest from its proof."""
    rows = case.verdict.rows if case.verdict else ()
    return min(rows, key=lambda row: (row.passes, (row.proof or 0.0) / (row.proof_bar or 1.0)), default=None)


def _explained(
    headline: str, found: "Iterator[Fact] | tuple[Fact, ...] | list[Fact]", then: str, shapes: tuple[str, ...] = ()
) -> Explained:
    ordered = sorted(found, key=lambda fact: LABELS.index(fact.label))  # stable: equal labels stay in their order
    return Explained(headline=headline, facts=tuple(ordered), next=then, shapes=shapes)
