"""Gathers what is known of the rollout for its explanation: from memory, and from the journal after a restart."""

from gateway.core.explain import Case
from gateway.core.recorded import read_figures, read_verdict
from gateway.core.run import Rollout, State
from gateway.core.types import Role
from gateway.runtime.analyst import Analyst
from gateway.runtime.conductor import Conductor
from gateway.runtime.figures import figures
from gateway.runtime.record import Recalled, numbers_of

ENDED = frozenset({State.ROLLED_BACK, State.DONE})


async def present_case(conductor: Conductor, analyst: Analyst) -> Case:
    """The rollout of now. An ended run is told by the numbers of its end, which the journal keeps."""
    asked = conductor.rollout
    recalled = await conductor.record.recall(asked)
    rollout, now = conductor.rollout, conductor.clock.wall()
    if (rollout.state, rollout.epoch) != (asked.state, asked.epoch):
        recalled = conductor.record.at_hand(rollout)  # it moved on meanwhile, and the line of that is in memory
    arms = conductor.arm(Role.BASELINE).name, conductor.arm(Role.CANDIDATE).name
    sticky = conductor.replica.snapshot.key_header is not None
    if rollout.state in ENDED:
        return _ended(rollout, now, arms, recalled, sticky=sticky)
    pause = recalled.line
    return Case(
        rollout=rollout,
        now=now,
        arms=arms,
        verdict=analyst.verdict,
        figures=figures(analyst, now) if rollout.run is not None else None,
        who=pause.who if pause else "",
        reason=str(pause.data.get("reason", "")) if pause else "",
        unready=tuple(conductor.unready()) if rollout.state is State.VALIDATING else (),
        gap=recalled.gap,
        sticky=sticky,
    )


def _ended(rollout: Rollout, now: float, arms: tuple[str, str], recalled: Recalled, *, sticky: bool) -> Case:
    line, numbers = recalled.line, numbers_of(recalled)
    data = line.data if line else {}
    problems = data.get("problems")
    return Case(
        rollout=rollout,
        now=now,
        arms=arms,
        verdict=read_verdict(numbers.get("judged")),
        figures=read_figures(numbers.get("figures")),
        who=line.who if line else "",
        left=str(data.get("state", "")),
        problems=tuple(str(problem) for problem in problems) if isinstance(problems, list | tuple) else (),
        gap=recalled.gap,
        sticky=sticky,
    )
