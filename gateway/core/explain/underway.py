"""A run that is open: what it waits for, what was counted so far, what a person may do."""

from collections.abc import Iterator

from gateway.core.explain import facts
from gateway.core.explain.case import ROLLBACK, Case, Explained, Fact, explained, name, quoted, seconds, weight
from gateway.core.explain.ended import weakest
from gateway.core.explain.outcome import clients, missing, overridden
from gateway.core.explain.waiting import RESUME, Waiting, waiting
from gateway.core.findings import VerdictName
from gateway.core.outlook import told
from gateway.core.run import State


def validating(case: Case) -> Explained:
    """What an arm says of itself is quoted, and in no headline."""
    arms = " and ".join(arm for arm, _ in case.unready) or "the comparison of the two arms"
    said = "; ".join(f"{arm}: {quoted(detail)}" for arm, detail in case.unready) or arms
    found = [
        Fact(label="Seen", text="No request of this run yet; the candidate gets none before gate 1 has passed."),
        Fact(label="Rule", text="gate 1: both arms ready, then what they say of themselves is compared."),
        *facts.detail(case, None),
        *_expected(case),
        Fact(label="Missing", text=f"{said}."),
    ]
    then = f"Wait while that comes up, or look at the log of the arm that is named. {ROLLBACK} ends the run."
    return explained(f"Validating: no traffic for the candidate yet; waits for {arms}.", found, then)


def running(case: Case) -> Explained:
    """Shadowing, stepping, baking, paused or held."""
    verdict, state = case.verdict, case.rollout.state
    held = waiting(case)
    row = case.row(verdict.metric if verdict else None) or weakest(case)
    metric = row.metric if row else None
    if row is not None:
        found = [*facts.of_row(case, row)]
    else:
        nothing = Fact(label="Seen", text="Nothing has been judged yet in this step.")
        found = [nothing, Fact(label="Samples", text=facts.step_age(case))]
    found += [_rule(case, held), *facts.detail(case, metric), *clients(case, metric), *_expected(case), *missing(case)]
    shapes = case.figures.shapes if case.figures else ()
    match state:
        case State.PAUSED:
            then = f"{RESUME} begins the step's evidence again; {ROLLBACK} ends it."
            return explained(_paused(case), found, then, shapes)
        case State.HELD:
            return explained(_held(case), found, _after_held(case), shapes)
        case _:
            return explained(f"{_where(case)}: {held.short}.", found, held.then, shapes)


def _expected(case: Case) -> Iterator[Fact]:
    """What the traffic promised when the run was started."""
    if text := told(case.run):
        yield Fact(label="Expected", text=text)


def _rule(case: Case, held: Waiting) -> Fact:
    verdict = case.verdict
    told = ""
    if verdict is not None and verdict.bar:
        needed = facts.needed(verdict, case.run.plan)
        told = f" Evidence against the candidate {verdict.evidence:.3g}; a rollback needs {needed}."
    return Fact(label="Rule", text=f"{held.meaning}{told}{overridden(case)}")


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
    reason = f": {quoted(case.reason)}" if case.reason else ""
    at = weight(case.rollout.weight)
    return f"Paused at {at} by {name(case.who)}{reason}. Nothing advances; rollback stays armed."


def _held(case: Case) -> str:
    run = case.run
    return (
        f"Held at {weight(case.rollout.weight)}: step {run.step + 1} of {len(run.plan.steps)} was not settled within"
        f" {seconds(run.longest_step_s)}. The weight stays until a person decides."
    )


def _after_held(case: Case) -> str:
    proven = case.verdict is not None and case.verdict.name is VerdictName.ADVANCE
    now = "By now the evidence is complete. " if proven else ""
    return (
        f"{now}Decide: {RESUME} gathers this step's evidence again; {ROLLBACK} ends the run;"
        f' `canaryctl promote --override --confirm {case.run.plan.rollout} --reason "..."` goes up without evidence.'
    )
