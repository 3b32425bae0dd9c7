"""Gathers what is known of the rollout for its explanation: from memory, and from the journal after a restart."""

from gateway.core.explain import Case
from gateway.core.figures import read_figures, read_verdict
from gateway.core.rollout import JournalEntry
from gateway.core.run import Rollout, State
from gateway.core.types import Role
from gateway.runtime.analyst import Analyst
from gateway.runtime.conductor import Conductor
from gateway.runtime.figures import figures

ENDED = frozenset({State.ROLLED_BACK, State.DONE})
_KINDS = {
    State.ROLLED_BACK: frozenset({"rollback", "refused"}),
    State.DONE: frozenset({"done"}),
    State.PAUSED: frozenset({"pause"}),
    State.HELD: frozenset({"inconclusive"}),
}


async def present_case(conductor: Conductor, analyst: Analyst) -> Case:
    """The rollout of now. An ended run is told by the numbers of its end, which the journal keeps."""
    record = await conductor.recall() if conductor.rollout.state in _KINDS else None
    rollout, now = conductor.rollout, conductor.clock.wall()
    arms = conductor.arm(Role.BASELINE).name, conductor.arm(Role.CANDIDATE).name
    if record is not None and record.kind not in _KINDS.get(rollout.state, frozenset()):
        record = None  # the state moved on while the journal was read, or the line is of an earlier moment
    if rollout.state in ENDED:
        return _ended(rollout, now, arms, record)
    return Case(
        rollout=rollout,
        now=now,
        arms=arms,
        verdict=analyst.verdict,
        figures=figures(analyst, now) if rollout.run is not None else None,
        who=record.who if record else "",
        reason=str(record.data.get("reason", "")) if record and record.kind == "pause" else "",
        waiting_for=conductor.waiting_for(),
    )


def _ended(rollout: Rollout, now: float, arms: tuple[str, str], record: JournalEntry | None) -> Case:
    run = rollout.run
    data = record.data if record else {}
    judged = data.get("judged") if data.get("rule") == "person" else data
    return Case(
        rollout=rollout,
        now=now,
        arms=arms,
        verdict=read_verdict(judged, run.text if run else ""),
        figures=read_figures(data.get("figures")),
        who=record.who if record else "",
        left=str(data.get("state", "")),
        problems=tuple(str(problem) for problem in data.get("problems", ())),
        overridden=str(data.get("override", "")),
        journal_read=record is not None,
    )
