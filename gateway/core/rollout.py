"""The life of a run as a table: (state, event, now) -> (state, effects).

What lives here: which state follows which, what the weight and the epoch become, what the journal says. What never
may: a clock, the store, the workers. An event that is not allowed raises NotNow and changes nothing.

Rules above the table:

* Rollback is accepted in every state and wins over everything.
* Only ``Judged(ADVANCE)`` and an override raise the weight. No event that stands for missing data, a crashed judge
  or a lost store does.
* The epoch rises at a start, a rollback and a finish; it voids every request and every count of the epoch before.

    idle ── start ──> validating ── validated ──> shadowing | stepping ── ADVANCE ──> stepping ... last step = baking
     ^                    │                           │  ^                                                        │
     │                    └── refused ──> rolled_back │  └── resume ── paused | held <── pause, INCONCLUSIVE       │
     └──────── finish ── done <───────────────────────┴───────────────────────────── ADVANCE ───────────────────┘
"""

from dataclasses import replace

from gateway.core.events import (
    Effect,
    Event,
    Finish,
    Invalid,
    JournalEntry,
    Judged,
    Pause,
    Promote,
    Restarted,
    Resume,
    RollBack,
    Start,
    StartJudging,
    StopJudging,
    Validated,
)
from gateway.core.findings import Verdict, VerdictName
from gateway.core.outlook import expect, residual, stretched_s, told
from gateway.core.run import ADVANCING, JUDGED, OPEN, ROUTED, NotNow, Outcome, Override, Rollout, Run, State
from gateway.core.types import FULL_WEIGHT

GATEWAY = "gateway"


def transition(
    rollout: Rollout, event: Event, now: float, rate: float | None = None
) -> tuple[Rollout, tuple[Effect, ...]]:
    """What ``event`` makes of ``rollout`` at wall time ``now``; NotNow when it does not fit.

    rate: judged requests a second at present, None: not known. A run and a step that begin keep what follows from it.
    """
    match event:
        case Start():
            return _start(rollout, event, now, rate)
        case Validated() | Invalid():
            return _validated(rollout, event, now, rate)
        case Judged():
            return _judged(rollout, event, now, rate)
        case Pause():
            return _pause(rollout, event)
        case Resume():
            return _resume(rollout, event, now)
        case RollBack():
            return _roll_back(rollout, event.who, event.reason, now, metric=None, rule="person")
        case Promote():
            return _promote(rollout, event, now, rate)
        case Finish():
            return _finish(rollout, event, now)
        case Restarted():
            return _restarted(rollout, event, now)


def _open_run(rollout: Rollout) -> Run:
    assert rollout.run is not None, "an open state always has a run"
    return rollout.run


def _start(rollout: Rollout, event: Start, now: float, rate: float | None) -> tuple[Rollout, tuple[Effect, ...]]:
    if rollout.state in OPEN:
        raise NotNow("start", rollout.state, f"roll back run {_open_run(rollout).run_id} first, or let it end")
    if rollout.swapped:
        raise NotNow(
            "start",
            rollout.state,
            "the finished run keeps its old arm as rollback target; configure the new arms first",
        )
    run = Run(
        run_id=event.run_id,
        plan=event.plan,
        plan_digest=event.plan_digest,
        started_at=now,
        who=event.who,
        reason=event.reason,
        step_since=now,
        arms=event.arms,
    )
    outlook = expect(run, rate)
    run = replace(run, plan=replace(event.plan, horizon_s=outlook.horizon_s), outlook=outlook)
    line = JournalEntry(
        kind="start",
        who=event.who,
        text=f"run {event.run_id} started: {event.reason.rstrip('.')}. {told(run)}",
        data={
            "plan_digest": event.plan_digest,
            "steps": list(event.plan.steps),
            "preset": event.plan.preset,
            "rate": outlook.rate,
            "expected_s": list(outlook.step_s),
            "horizon_s": outlook.horizon_s,
        },
    )
    return Rollout(state=State.VALIDATING, epoch=rollout.epoch + 1, weight=0, run=run), (line, StopJudging())


def _validated(
    rollout: Rollout, event: Validated | Invalid, now: float, rate: float | None
) -> tuple[Rollout, tuple[Effect, ...]]:
    if rollout.state is not State.VALIDATING:
        raise NotNow("validation", rollout.state, "only a run that is validating can be validated")
    run = _open_run(rollout)
    if isinstance(event, Invalid):
        text = "gate 1 (compatibility): " + "; ".join(event.problems)
        ended = replace(
            run,
            outcome=Outcome.REFUSED,
            rule="gate",
            text=text,
            decided_weight=0,
            decided_at=now,
            ended_at=now,
            live_candidate_requests=0,
        )
        line = JournalEntry(kind="refused", who=GATEWAY, text=text, data={"problems": list(event.problems)})
        refused = replace(rollout, state=State.ROLLED_BACK, epoch=rollout.epoch + 1, weight=0, run=ended)
        return refused, (line, StopJudging())
    differs = ", ".join(event.differences) or "nothing"
    line = JournalEntry(
        kind="validated",
        who=GATEWAY,
        text=f"gate 1 (compatibility) passed; the arms differ in: {differs}",
        data={"differences": list(event.differences)},
    )
    judged = replace(run, step=0, judged_from=now, candidate_strict=event.strict)
    entered, effects = _enter_step(rollout, judged, now, rate, fresh=True)
    return entered, (line, *effects)


def _enter_step(
    rollout: Rollout, run: Run, now: float, rate: float | None, *, fresh: bool = False
) -> tuple[Rollout, tuple[Effect, ...]]:
    weight = run.step_weight
    run = replace(
        run,
        step_since=now,
        paused_from=None,
        max_step_s=stretched_s(run, rate),
        residual=residual(run.plan, rate) if weight == FULL_WEIGHT else None,
    )
    state = State.BAKING if run.is_last_step else State.STEPPING if weight else State.SHADOWING
    traffic = f"{weight / 100:g} % of live traffic" if weight else "copies only, no live traffic"
    bake = f"; the bake: at least {run.plan.bake_s:g} s" if run.is_last_step else ""
    line = JournalEntry(
        kind="step",
        who=GATEWAY,
        text=f"step {run.step + 1} of {len(run.plan.steps)}: {traffic} to the candidate{bake}{_kept(run)}",
        data={"step": run.step, "weight": weight, "rate": rate, "max_step_s": run.max_step_s, "kept": run.residual},
    )
    return replace(rollout, state=state, weight=weight, run=run), (line, StartJudging(fresh=fresh))


def _kept(run: Run) -> str:
    """What the baseline keeps at 100 %, in words; empty below it."""
    if run.residual is None:
        return ""
    if run.residual:
        return f"; the baseline keeps {run.residual / 100:g} % as control"
    return "; control off: the baseline keeps nothing to compare with"


def _judged(rollout: Rollout, event: Judged, now: float, rate: float | None) -> tuple[Rollout, tuple[Effect, ...]]:
    verdict = event.verdict
    if rollout.state not in ROUTED:
        raise NotNow("a verdict", rollout.state, "only a run with a candidate is judged")
    match verdict.name:
        case VerdictName.ROLL_BACK:
            metric = str(verdict.metric) if verdict.metric else None
            return _roll_back(rollout, GATEWAY, verdict.text, now, metric=metric, rule=verdict.rule or "evidence")
        case VerdictName.ADVANCE if rollout.state in ADVANCING:
            return _advance(rollout, verdict, now, rate)
        case VerdictName.INCONCLUSIVE if rollout.state in ADVANCING:
            return _hold(rollout, verdict)
        case _:
            return rollout, ()


def _advance(rollout: Rollout, verdict: Verdict, now: float, rate: float | None) -> tuple[Rollout, tuple[Effect, ...]]:
    line = JournalEntry(kind="advance", who=GATEWAY, text=verdict.text, data={})
    moved, effects = _next(rollout, _open_run(rollout), now, rate)
    return moved, (line, *effects)


def _next(rollout: Rollout, run: Run, now: float, rate: float | None) -> tuple[Rollout, tuple[Effect, ...]]:
    """One step up; from the last, which is the bake, to done."""
    if not run.is_last_step:
        return _enter_step(rollout, replace(run, step=run.step + 1), now, rate)
    ended = replace(
        run,
        outcome=Outcome.PROMOTED,
        decided_weight=rollout.weight,
        decided_at=now,
        ended_at=now,
        promoted_at=now,
        paused_from=None,
    )
    line = JournalEntry(
        kind="done",
        who=GATEWAY,
        text=f"bake passed at {rollout.weight / 100:g} %: promoted; `finish` makes the candidate the baseline",
        data={"weight": rollout.weight},
    )
    return replace(rollout, state=State.DONE, run=ended), (line, StopJudging())


def _hold(rollout: Rollout, verdict: Verdict) -> tuple[Rollout, tuple[Effect, ...]]:
    run = _open_run(rollout)
    line = JournalEntry(
        kind="inconclusive",
        who=GATEWAY,
        text=f"{verdict.text} The weight stays at {rollout.weight / 100:g} %; a person decides.",
        data={"weight": rollout.weight},
    )
    return replace(rollout, state=State.HELD, run=replace(run, paused_from=rollout.state)), (line,)


def _pause(rollout: Rollout, event: Pause) -> tuple[Rollout, tuple[Effect, ...]]:
    if rollout.state not in ADVANCING:
        raise NotNow("pause", rollout.state, "only a run that is shadowing, stepping or baking can be paused")
    run = replace(_open_run(rollout), paused_from=rollout.state)
    text = f"paused at {rollout.weight / 100:g} %: {event.reason}; rollback stays armed"
    line = JournalEntry(kind="pause", who=event.who, text=text, data={"weight": rollout.weight, "reason": event.reason})
    return replace(rollout, state=State.PAUSED, run=run), (line,)


def _resume(rollout: Rollout, event: Resume, now: float) -> tuple[Rollout, tuple[Effect, ...]]:
    if rollout.state not in (State.PAUSED, State.HELD):
        raise NotNow("resume", rollout.state, "only a paused or held run can be resumed")
    run = _open_run(rollout)
    assert run.paused_from is not None, "a paused run remembers where it came from"
    line = JournalEntry(
        kind="resume",
        who=event.who,
        text=f"resumed at {rollout.weight / 100:g} %: {event.reason}; the step's evidence begins again",
        data={"weight": rollout.weight},
    )
    resumed = replace(rollout, state=run.paused_from, run=replace(run, paused_from=None, step_since=now))
    return resumed, (line, StartJudging(fresh=False))


def _roll_back(
    rollout: Rollout, who: str, reason: str, now: float, *, metric: str | None, rule: str
) -> tuple[Rollout, tuple[Effect, ...]]:
    run = rollout.run
    if run is not None and (rollout.state in OPEN | ROUTED or rollout.swapped):
        run = replace(
            run,
            outcome=Outcome.ROLLED_BACK,
            metric=metric,
            rule=rule,
            text=reason,
            decided_weight=rollout.weight,
            decided_at=now,
            ended_at=now,
            paused_from=None,
        )
    line = JournalEntry(
        kind="rollback",
        who=who,
        text=f"rolled back from {rollout.weight / 100:g} % ({rollout.state}): {reason}",
        data={"weight": rollout.weight, "state": str(rollout.state), "metric": metric, "rule": rule},
    )
    rolled = Rollout(state=State.ROLLED_BACK, epoch=rollout.epoch + 1, weight=0, run=run)
    return rolled, (line, StopJudging())


def _promote(rollout: Rollout, event: Promote, now: float, rate: float | None) -> tuple[Rollout, tuple[Effect, ...]]:
    if rollout.state not in JUDGED:
        raise NotNow("promote", rollout.state, "only an open run past validation can be promoted")
    if not event.override:
        raise NotNow("promote", rollout.state, "no manual gate is open; --override goes up without evidence")
    run = _open_run(rollout)
    line = JournalEntry(
        kind="override",
        who=event.who,
        text=f"promoted by override from {rollout.weight / 100:g} %, without evidence: {event.reason}",
        data={"weight": rollout.weight, "step": run.step},
    )
    passed = replace(run, overrides=(*run.overrides, Override(step=run.step, who=event.who)))
    moved, effects = _next(rollout, passed, now, rate)
    return moved, (line, *effects)


def _finish(rollout: Rollout, event: Finish, now: float) -> tuple[Rollout, tuple[Effect, ...]]:
    if rollout.state is not State.DONE:
        raise NotNow("finish", rollout.state, "only a promoted run (state done) can be finished")
    if rollout.weight != FULL_WEIGHT:
        proven = f"the run proved {rollout.weight / 100:g} %; finish needs a run whose last step is 100 %"
        raise NotNow("finish", rollout.state, proven)
    line = JournalEntry(
        kind="finish",
        who=event.who,
        text=f"finished: the candidate is the baseline now, the old arm stays the rollback target: {event.reason}",
        data={},
    )
    run = replace(_open_run(rollout), ended_at=now)
    finished = Rollout(state=State.IDLE, epoch=rollout.epoch + 1, weight=0, serving=run.arms[1], run=run)
    return finished, (line, StopJudging())


def _restarted(rollout: Rollout, event: Restarted, now: float) -> tuple[Rollout, tuple[Effect, ...]]:
    """Goes on where the last process stopped, unless the configuration now names other arms than those judged."""
    if rollout.swapped and rollout.serving != event.arms[1]:
        text = f"the configured arms changed: {event.arms[0]} is the baseline, {rollout.serving} served before"
        line = JournalEntry(kind="rearmed", who=GATEWAY, text=text, data={"arms": list(event.arms)})
        return replace(rollout, serving=None, epoch=rollout.epoch + 1), (line, StopJudging())
    if rollout.state in OPEN | ROUTED and _open_run(rollout).arms != event.arms:
        text = f"the configuration names other arms ({' and '.join(event.arms)}) than the run was opened with"
        return _roll_back(rollout, GATEWAY, text, now, metric=None, rule="configuration")
    if rollout.state not in JUDGED:
        return rollout, ()
    line = JournalEntry(
        kind="restart",
        who=GATEWAY,
        text=f"control process restarted at {rollout.weight / 100:g} % ({rollout.state}); evidence begins again",
        data={"weight": rollout.weight, "state": str(rollout.state), "epoch": rollout.epoch},
    )
    run = replace(_open_run(rollout), step_since=now)
    return replace(rollout, run=run), (line, StartJudging(fresh=False))
