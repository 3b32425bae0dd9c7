"""Headline, facts and next step for every state."""

from typing import Final

from gateway.core.explain.case import NOT_MEASURED, ROLLBACK, START, Case, Explained, Fact, explained, name, weight
from gateway.core.explain.ended import rolled_back, weakest
from gateway.core.explain.facts import detail, evidence, of_row
from gateway.core.explain.outcome import clients, overridden
from gateway.core.explain.underway import running, validating
from gateway.core.findings import VerdictName
from gateway.core.run import Outcome, Run, State
from gateway.core.types import FULL_WEIGHT

FINISH: Final = '`canaryctl finish --reason "..."`'


def explain(case: Case) -> Explained:
    """Why the rollout stands where it stands. Never raises for what is missing: it says so."""
    rollout = case.rollout
    run = rollout.run
    match rollout.state:
        case State.IDLE:
            return _idle(case)
        case State.ROLLED_BACK if run is not None and run.outcome in (Outcome.ROLLED_BACK, Outcome.REFUSED):
            return rolled_back(case, run)
        case State.ROLLED_BACK:
            headline = f"Rolled back while no run was open: {case.arms[0]} serves everything, as it did before."
            return explained(headline, (), f"Nothing. To begin a run: {START}")
        case State.VALIDATING:
            return validating(case)
        case State.DONE:
            return _done(case)
        case _:
            return running(case)


def _done(case: Case) -> Explained:
    run, at, judged = case.run, weight(case.rollout.weight), case.verdict
    found: list[Fact] = []
    if run.is_passed_by_override:
        by = name(run.overrides[-1].who)
        said = (
            f"the judge said {judged.name} ({judged.reason}) then" if judged else f"what the judge said: {NOT_MEASURED}"
        )
        headline = f"Promoted by override: the last step, at {at}, was passed by {by}, without evidence."
        found.append(Fact(label="Rule", text=f"override: passed by {by}, not by the judge; {said}."))
    elif judged is None or judged.name is not VerdictName.ADVANCE:
        headline = f"Promoted: the last step passed at {at}."
        found.append(Fact(label="Seen", text=f"The numbers behind the pass: {NOT_MEASURED}."))
    elif run.overrides:
        headline = f"Promoted by override: the last step passed at {at}, on evidence.{overridden(case)}"
    else:
        headline = f"Promoted: the last step passed at {at}, on evidence."
    if (row := weakest(case)) is not None:
        found += of_row(case, row)
    if row is not None and not run.is_passed_by_override:
        rule = evidence(case, row.metric)
        found.append(Fact(label="Rule", text=f"{rule.text}{overridden(case)}"))
    found += [*detail(case, None), *clients(case, None)]
    return explained(headline, found, _after_done(case, run))


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
        return explained(headline, (), then)
    headline = f"Idle: no run is open, {case.arms[0]} serves everything and is measured only."
    return explained(headline, (), f"Nothing has to be done. To begin a run: {START}")
