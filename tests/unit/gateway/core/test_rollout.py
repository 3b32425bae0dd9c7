"""The life of a run, every state against every event."""

from dataclasses import replace

import pytest

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
from gateway.core.plan import MetricId, MetricLimit, Plan
from gateway.core.rollout import transition
from gateway.core.run import ADVANCING, JUDGED, OPEN, ROUTED, NotNow, Outcome, Rollout, Run, State
from gateway.core.verdict import Verdict, VerdictName

PLAN = Plan(
    rollout="r",
    steps=(0, 1000, 10_000),
    metrics=(MetricLimit(metric=MetricId.ERROR, allowed=0.05),),
    copies=5000,
    control_at_full=False,
)


def verdict(name: VerdictName) -> Verdict:
    metric = MetricId.ERROR if name is VerdictName.ROLL_BACK else None
    return Verdict(
        name=name, reason="why", text="because", metric=metric, rule="evidence" if metric else None,
        evidence=1.0, bar=20.0, rows=(), missing=(), notes=(),
    )  # fmt: skip


ARMS = ("gpu http://a:1", "tpu http://b:2")
START = Start(run_id="run1", plan=PLAN, plan_digest="d", who="me", reason="go", arms=ARMS)
EVENTS: dict[str, Event] = {
    "start": START,
    "validated": Validated(differences=("dtype",)),
    "invalid": Invalid(problems=("revision",)),
    "pause": Pause(who="me", reason="wait"),
    "resume": Resume(who="me", reason="go on"),
    "rollback": RollBack(who="me", reason="no"),
    "promote": Promote(who="me", reason="yes", override=True),
    "plain promote": Promote(who="me", reason="yes", override=False),
    "finish": Finish(who="me", reason="end"),
    "restarted": Restarted(arms=ARMS),
    **{str(name): Judged(verdict=verdict(name)) for name in VerdictName},
}


def rollout_in(state: State, step: int = 1) -> Rollout:
    """A rollout that stands in ``state``."""
    run = Run(run_id="run1", plan=PLAN, plan_digest="d", started_at=0.0, who="me", reason="go", step=step, arms=ARMS)
    weight = {State.STEPPING: 1000, State.PAUSED: 1000, State.HELD: 1000, State.BAKING: 10_000, State.DONE: 10_000}
    if state in (State.PAUSED, State.HELD):
        run = replace(run, paused_from=State.STEPPING)
    if state in (State.BAKING, State.DONE):
        run = replace(run, step=2)
    return Rollout(state=state, epoch=5, weight=weight.get(state, 0), run=None if state is State.IDLE else run)


def attempt(rollout: Rollout, event: Event) -> tuple[Rollout, tuple[Effect, ...]] | NotNow:
    try:
        return transition(rollout, event, 10.0)
    except NotNow as refused:
        return refused


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("name", list(EVENTS))
def test_every_state_takes_or_refuses_every_event(state: State, name: str) -> None:
    """Any event in any state leads to a legal state or is refused and changes nothing."""
    before = rollout_in(state)
    result = attempt(before, EVENTS[name])
    if isinstance(result, NotNow):
        assert str(state) in str(result)
        assert before == rollout_in(state)
        return
    after, effects = result
    assert after.epoch >= before.epoch
    assert (after.weight == 0) or after.state in ROUTED
    if after.state not in ROUTED:
        assert not any(isinstance(e, StartJudging) for e in effects)
    if after != before:
        assert any(isinstance(e, JournalEntry) for e in effects) or name == "restarted"


@pytest.mark.parametrize("state", list(State))
def test_a_person_can_roll_back_in_every_state(state: State) -> None:
    """Rollback is accepted everywhere, sets weight 0 and voids the epoch."""
    after, effects = transition(rollout_in(state), RollBack(who="me", reason="no"), 10.0)
    assert (after.state, after.weight, after.epoch) == (State.ROLLED_BACK, 0, 6)
    assert any(isinstance(e, StopJudging) for e in effects)


@pytest.mark.parametrize("state", sorted(ROUTED))
def test_the_judge_rolls_back_wherever_the_candidate_may_have_traffic(state: State) -> None:
    """A ROLL_BACK verdict is obeyed in every state with a candidate, and names its metric and rule."""
    after, _ = transition(rollout_in(state), EVENTS["ROLL_BACK"], 10.0)
    assert after.weight == 0
    assert after.run is not None
    assert (after.run.outcome, after.run.metric, after.run.rule) == (Outcome.ROLLED_BACK, "error", "evidence")


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("name", list(EVENTS))
def test_only_an_advance_or_an_override_raises_the_weight(state: State, name: str) -> None:
    """No other event, in no state, leads to more candidate traffic."""
    before = rollout_in(state)
    try:
        after, _ = transition(before, EVENTS[name], 10.0)
    except NotNow:
        return
    if after.weight > before.weight:
        assert name in ("ADVANCE", "promote")
        assert name == "promote" or before.state in ADVANCING


def test_a_good_run_goes_through_its_steps_in_order() -> None:
    """Shadow, each step, bake, done: no step is skipped."""
    seen = []
    now, rollout = 0.0, Rollout()
    for event in (START, EVENTS["validated"], *[EVENTS["ADVANCE"]] * 3):
        rollout, _ = transition(rollout, event, now)
        seen.append((rollout.state, rollout.weight))
    assert seen == [
        (State.VALIDATING, 0),
        (State.SHADOWING, 0),
        (State.STEPPING, 1000),
        (State.BAKING, 10_000),
        (State.DONE, 10_000),
    ]
    assert rollout.run is not None
    assert rollout.run.outcome is Outcome.PROMOTED
    assert (rollout.run.judged_from, rollout.run.promoted_at) == (0.0, 0.0)
    undone, _ = transition(rollout, EVENTS["rollback"], 99.0)
    assert undone.run is not None
    assert (undone.run.promoted_at, undone.run.decided_at) == (0.0, 99.0)


def test_an_inconclusive_step_keeps_its_weight_and_waits_for_a_person() -> None:
    """INCONCLUSIVE holds the run; a later advance is not obeyed until somebody resumes."""
    held, _ = transition(rollout_in(State.STEPPING), EVENTS["INCONCLUSIVE"], 10.0)
    assert (held.state, held.weight) == (State.HELD, 1000)
    still, effects = transition(held, EVENTS["ADVANCE"], 11.0)
    assert (still, effects) == (held, ())
    resumed, effects = transition(held, EVENTS["resume"], 12.0)
    assert resumed.state is State.STEPPING
    assert any(isinstance(e, StartJudging) and not e.fresh for e in effects)


def test_a_restart_keeps_step_and_epoch_but_begins_the_evidence_again() -> None:
    """After a crash the same step goes on, on fresh evidence, and the journal says so."""
    before = rollout_in(State.STEPPING)
    after, effects = transition(before, Restarted(arms=ARMS), 50.0)
    assert (after.state, after.weight, after.epoch) == (before.state, before.weight, before.epoch)
    assert after.run is not None
    assert after.run.step_since == 50.0
    assert [type(e) for e in effects] == [JournalEntry, StartJudging]


def test_a_failed_validation_ends_the_run_before_any_traffic() -> None:
    """Gate 1 refuses: the outcome says so, the weight never rose."""
    after, _ = transition(rollout_in(State.VALIDATING, step=0), EVENTS["invalid"], 10.0)
    assert (after.state, after.weight) == (State.ROLLED_BACK, 0)
    assert after.run is not None
    assert (after.run.outcome, after.run.rule) == (Outcome.REFUSED, "gate")


def test_finish_makes_the_candidate_the_baseline_and_rollback_undoes_it() -> None:
    """After finish the roles are swapped; the old arm is the rollback target."""
    finished, _ = transition(rollout_in(State.DONE), EVENTS["finish"], 10.0)
    assert (finished.state, finished.swapped, finished.weight) == (State.IDLE, True, 0)
    back, _ = transition(finished, EVENTS["rollback"], 11.0)
    assert (back.state, back.swapped) == (State.ROLLED_BACK, False)
    with pytest.raises(NotNow, match="rollback target"):
        transition(finished, START, 11.0)


def test_a_second_start_is_refused_while_a_run_is_open() -> None:
    """One gateway carries one run; the refusal names it."""
    for state in OPEN:
        with pytest.raises(NotNow, match="run1"):
            transition(rollout_in(state), START, 10.0)


def test_state_sets_nest() -> None:
    """Advancing states are judged, judged ones are open or routed."""
    assert ADVANCING < JUDGED < OPEN
    assert JUDGED < ROUTED


def test_at_full_weight_the_baseline_keeps_a_residual_as_control() -> None:
    """Where the baseline is the control, 100 % leaves it a residual; the demo gives it up."""
    run = Run(
        run_id="r",
        plan=replace(PLAN, control_at_full=True, residual=100),
        plan_digest="d",
        started_at=0,
        who="",
        reason="",
    )
    assert Rollout(state=State.STEPPING, weight=10_000, run=run).routed_weight == 9_900
    assert rollout_in(State.BAKING).routed_weight == 10_000


def test_what_was_not_proven_at_full_weight_cannot_be_finished() -> None:
    """A run that ends at 10 % promotes to 10 %; everything needs a run whose last step is 100 %."""
    done = replace(rollout_in(State.DONE), weight=1000)
    with pytest.raises(NotNow, match="proved 10 %"):
        transition(done, EVENTS["finish"], 10.0)


@pytest.mark.parametrize("state", sorted(OPEN | ROUTED))
def test_other_arms_in_the_configuration_roll_an_open_run_back(state: State) -> None:
    """What was judged is not what is configured now: no traffic goes on to it."""
    after, _ = transition(rollout_in(state), Restarted(arms=(ARMS[0], "tpu http://other:3")), 10.0)
    assert (after.state, after.weight, after.epoch) == (State.ROLLED_BACK, 0, 6)
    assert after.run is not None
    assert after.run.rule == "configuration"


def test_the_promoted_arm_serves_only_while_it_is_the_configured_candidate() -> None:
    """After finish a restart keeps the swap; with new arms in the configuration the roles are as configured."""
    finished, _ = transition(rollout_in(State.DONE), EVENTS["finish"], 10.0)
    same, _ = transition(finished, Restarted(arms=ARMS), 11.0)
    assert same.swapped
    promoted, newer = ARMS[1], "tpu2 http://c:3"
    rearmed, effects = transition(finished, Restarted(arms=(promoted, newer)), 11.0)
    assert not rearmed.swapped
    assert any(isinstance(e, JournalEntry) and e.kind == "rearmed" for e in effects)
    assert transition(rearmed, replace(START, arms=(promoted, newer)), 12.0)[0].state is State.VALIDATING


def test_copies_stay_within_the_next_step_unless_the_plan_soaks() -> None:
    """Live and copied traffic together reach the next step's weight or 10 %, whichever is more."""
    plan = replace(PLAN, steps=(0, 100, 500, 5000, 10_000), copies=5000)
    run = Run(run_id="r", plan=plan, plan_digest="d", started_at=0, who="", reason="")
    shares = [replace(run, step=step).copies_share for step in range(5)]
    assert shares == [1000, 909, 4736, 5000, 5000]
    assert all(
        w + s * (10_000 - w) / 10_000 <= max(following, 1000)
        for w, s, following in zip((0, 100, 500, 5000), shares, (100, 500, 5000, 10_000), strict=False)
    )
    assert replace(run, plan=replace(plan, soak=True)).copies_share == 5000


CONTROLLED = replace(PLAN, control_at_full=True, stretch_s=86_400.0, horizon_s=9000.0)


def climbed(rate: float | None, plan: Plan = CONTROLLED) -> list[Rollout]:
    """The rollout after the start and in each step, all of it at ``rate``."""
    rollout, seen = Rollout(), []
    advances = ["validated", *["ADVANCE"] * (len(plan.steps) - 1)]
    for event in (replace(START, plan=plan), *(EVENTS[name] for name in advances)):
        rollout, _ = transition(rollout, event, 0.0, rate)
        seen.append(rollout)
    return seen


def test_a_start_freezes_what_is_expected_and_the_horizon() -> None:
    """The run's plan has the horizon of the outlook; the answer and the journal say the times."""
    rollout, effects = transition(Rollout(), replace(START, plan=CONTROLLED), 0.0, 50.0)
    run = rollout.run
    assert run is not None
    assert run.outlook is not None
    assert (run.outlook.rate, len(run.outlook.step_s)) == (50.0, 3)
    assert run.plan.horizon_s == run.outlook.horizon_s == 7200.0
    line = next(e for e in effects if isinstance(e, JournalEntry))
    assert line.text.startswith("run run1 started: go. At 50 judged requests a second")
    assert line.data["expected_s"] == list(run.outlook.step_s)
    later = [each.run for each in climbed(50.0)]
    assert all(each is not None and each.outlook == run.outlook and each.plan == run.plan for each in later)


def test_an_unknown_rate_changes_no_number_of_the_plan() -> None:
    """Times are not foretold; horizon and length of the steps are the plan's, and the control stays."""
    seen = [rollout.run for rollout in climbed(None)]
    assert all(run is not None and run.plan == CONTROLLED for run in seen)
    assert [run.max_step_s for run in seen if run is not None] == [None] * 4
    last = climbed(None)[-1]
    assert last.run is not None
    assert (last.routed_weight, last.run.has_control) == (9_500, True)


@pytest.mark.parametrize(("rate", "routed", "control"), [(50.0, 9_900, True), (2.0, 9_666, True), (1.0, 10_000, False)])
def test_the_step_at_full_weight_keeps_what_makes_a_control(rate: float, routed: int, control: bool) -> None:
    """Frozen when the step begins, said in its line; without a control nothing is held back."""
    *_, before, rollout = climbed(rate)
    assert before.run is not None
    assert (before.run.residual, before.routed_weight) == (None, 1000)
    run = rollout.run
    assert run is not None
    assert (rollout.weight, rollout.routed_weight, run.has_control) == (10_000, routed, control)
    _, effects = transition(before, EVENTS["ADVANCE"], 0.0, rate)
    text = next(e.text for e in effects if isinstance(e, JournalEntry) and e.kind == "step")
    assert ("as control" in text, "control off" in text) == (control, not control)


@pytest.mark.parametrize("event", ["restarted", "pause", "resume", "INCONCLUSIVE"])
def test_what_a_step_began_with_holds_until_the_next(event: str) -> None:
    """Neither a restart nor a resume at other traffic moves the residual, the length of the step or the horizon."""
    rollout = climbed(2.0)[-1]
    if event == "resume":
        rollout, _ = transition(rollout, EVENTS["pause"], 5.0, 2.0)
    for rate in (None, 5000.0):
        after, _ = transition(rollout, EVENTS[event], 10.0, rate)
        assert after.run is not None
        assert rollout.run is not None
        kept = ("residual", "max_step_s", "outlook", "plan")
        assert [getattr(after.run, name) for name in kept] == [getattr(rollout.run, name) for name in kept]
        assert after.routed_weight == rollout.routed_weight


def test_a_step_lasts_as_long_as_its_traffic_asks_for() -> None:
    """Each step by the rate at its begin; the bake comes on top."""
    (_, shadow, live, bake) = (rollout.run for rollout in climbed(0.05))
    assert shadow is not None
    assert live is not None
    assert bake is not None
    assert shadow.max_step_s == live.max_step_s == 86_400.0
    assert bake.longest_step_s == (bake.max_step_s or 0.0) + 3600.0
    written = climbed(0.05, replace(CONTROLLED, stretch_s=None))
    assert [rollout.run.longest_step_s for rollout in written if rollout.run] == [3600.0, 3600.0, 3600.0, 7200.0]
