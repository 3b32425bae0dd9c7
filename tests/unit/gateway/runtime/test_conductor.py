"""Routing, store and journal in the safe order, whatever comes in between."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from fakes.control import PLAN, READY_B, READY_C, Stage, play, seconds, started, tick
from fakes.gateway import FakeStore

from gateway.adapters.asgi.views import status
from gateway.core.run import NotNow, Outcome, Rollout, State
from gateway.core.snapshot import Ack, Snapshot
from gateway.core.verdict import Judge, VerdictName
from gateway.ports import ArmHealth, StoreUnavailable


def test_a_healthy_candidate_is_promoted_on_evidence_and_never_before_it() -> None:
    """No traffic, no step; with clean traffic the steps, the bake and the end follow."""

    async def scenario(s: Stage) -> None:
        await started(s)
        assert (s.conductor.rollout.state, s.worker.last_snapshot().weight) == (State.STEPPING, 1000)
        for _ in range(40):
            s.clock.advance(1.0)
            await tick(s)
        assert s.conductor.rollout.weight == 1000
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.reason == "no_data"

    assert play(scenario).conductor.rollout.weight == 1000

    async def good(s: Stage) -> None:
        await started(s)
        await seconds(s, 120)

    done = play(good)
    assert done.conductor.rollout.state is State.DONE
    assert done.conductor.rollout.run is not None
    assert done.conductor.rollout.run.outcome is Outcome.PROMOTED
    assert [line.kind for line in done.store.lines] == [
        "start", "validated", "step", "advance", "step", "advance", "done",
    ]  # fmt: skip
    assert done.worker.last_snapshot().weight == 10_000


def test_a_failing_candidate_is_rolled_back_and_the_journal_has_the_numbers() -> None:
    """Failures roll back by evidence or breaker; weight 0 is routed, the epoch raised, metric and rule kept."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 6)
        await seconds(s, 8, failed=15)

    s = play(scenario)
    rollout = s.conductor.rollout
    assert rollout.state is State.ROLLED_BACK
    assert rollout.run is not None
    assert (rollout.run.metric, rollout.run.decided_weight) == ("error", 1000)
    assert rollout.run.live_candidate_requests > 0
    assert rollout.run.time_to_zero_s == 0.0
    assert (s.worker.last_snapshot().weight, s.worker.last_snapshot().judging) == (0, False)
    line, measured = s.store.lines[-2:]
    assert (line.kind, measured.kind, measured.data["missing"]) == ("rollback", "zero", [])
    assert line.data["judged"]["metrics"]["error"]["candidate"][1] > 0
    assert s.store.rollout.state is State.ROLLED_BACK


def test_no_advance_while_the_store_is_away_and_traffic_goes_on() -> None:
    """A lost store freezes the canary at its weight; when it is back the run goes on."""

    async def scenario(s: Stage) -> None:
        await started(s)
        s.store.down = True
        await seconds(s, 40)
        assert s.conductor.rollout.weight == 1000
        assert s.worker.last_snapshot().weight == 1000
        assert "down" in s.conductor.ledger.detail
        s.store.down = False
        await seconds(s, 2)
        assert s.conductor.rollout.weight == 10_000
        assert s.conductor.ledger.detail == "ok"

    play(scenario)


def test_rollback_works_without_a_store_and_is_written_when_it_is_back() -> None:
    """Routing first: weight 0 at once, one journal line later."""

    async def scenario(s: Stage) -> None:
        await started(s)
        s.store.down = True
        applied = await s.conductor.roll_back(who="me", reason="3 a.m.")
        assert applied.acknowledged == ["w0"]
        assert s.worker.last_snapshot().weight == 0
        assert s.store.rollout.state is State.STEPPING
        s.store.down = False
        await tick(s)
        assert s.store.rollout.state is State.ROLLED_BACK
        assert [line.kind for line in s.store.lines].count("rollback") == 1

    play(scenario)


def test_a_rollback_during_the_write_of_a_step_wins() -> None:
    """While an advance is being written a rollback comes: nothing raises the weight afterwards."""

    async def scenario(s: Stage) -> None:
        await started(s)
        writing, release = asyncio.Event(), asyncio.Event()
        save = s.store.save

        async def slow_save(rollout: Rollout, lines: Any, at: float) -> None:
            if rollout.weight == 10_000:
                writing.set()
                await release.wait()
            await save(rollout, lines, at)

        s.store.save = slow_save  # type: ignore[method-assign]  # the fake's save, made to wait
        task = asyncio.create_task(seconds(s, 40))
        await writing.wait()
        s.store.save = save  # type: ignore[method-assign]  # the rollback itself writes at once
        await s.conductor.roll_back(who="me", reason="now")
        release.set()
        await task
        assert s.conductor.rollout.state is State.ROLLED_BACK
        assert s.worker.last_snapshot().weight == 0

    play(scenario)


def _save_that_waits(s: Stage, kind: str) -> tuple[asyncio.Event, asyncio.Event]:
    """(it is being written, let it through) of the next journal line of this kind."""
    writing, release = asyncio.Event(), asyncio.Event()
    save = s.store.save

    async def slow_save(rollout: Rollout, lines: Any, at: float) -> None:
        if any(line.kind == kind for line in lines):
            writing.set()
            await release.wait()
        await save(rollout, lines, at)

    s.store.save = slow_save  # type: ignore[method-assign]  # the fake's save, made to wait
    return writing, release


def test_a_verdict_that_waits_behind_an_override_does_not_pass_the_step_after_it() -> None:
    """The evidence of one step passes that step alone: the bake is neither entered nor left on it."""

    async def scenario(s: Stage) -> None:
        await started(s)
        while not (s.analyst.verdict and s.analyst.verdict.reason == "too_young"):
            await seconds(s, 1)
        writing, release = _save_that_waits(s, "override")
        override = asyncio.create_task(s.conductor.promote(who="me", reason="now", override=True))
        await writing.wait()
        s.clock.advance(1.0)
        s.traffic()
        s.conductor.tick()
        assert s.analyst.verdict.name is VerdictName.ADVANCE
        release.set()
        await override
        await s.conductor.settled()
        assert s.conductor.rollout.state is State.BAKING

    play(scenario)


def test_an_override_that_waits_behind_an_advance_does_not_pass_the_step_after_it() -> None:
    """Whoever overrides one step has not overridden the next: the command is refused, and may be given again."""

    async def scenario(s: Stage) -> None:
        await started(s)
        writing, release = _save_that_waits(s, "advance")
        evidence = asyncio.create_task(seconds(s, 20))
        await writing.wait()
        override = asyncio.create_task(s.conductor.promote(who="me", reason="now", override=True))
        await asyncio.sleep(0)
        release.set()
        with pytest.raises(NotNow, match="another command came first"):
            await override
        assert s.conductor.rollout.state is State.BAKING
        evidence.cancel()

    play(scenario)


def test_a_deaf_worker_is_named_by_the_rollback() -> None:
    """A worker that does not acknowledge in time is missing, and there is no time to zero."""

    async def scenario(s: Stage) -> None:
        await started(s)
        s.worker.deaf = True
        pending = asyncio.create_task(s.conductor.roll_back(who="me", reason="no"))
        await asyncio.sleep(0)
        s.clock.advance(6.0)
        s.replica.acknowledge(Ack(name="w0", version=0, epoch=0, written=0))
        applied = await pending
        assert (applied.missing, applied.time_to_zero_s) == (["w0"], None)

    play(scenario)


def test_arms_that_must_not_differ_end_the_run_before_any_traffic() -> None:
    """Gate 1: another revision, or an undeclared difference, refuses the run with the field."""

    async def scenario(s: Stage) -> None:
        await s.conductor.start(PLAN, "digest", who="me", reason="go")
        s.conductor.arm_health("gpu", READY_B)
        other = {**(READY_C.identity or {}), "revision": "other"}
        s.conductor.arm_health("tpu", replace(READY_C, identity=other))
        await tick(s)

    s = play(scenario)
    run = s.conductor.rollout.run
    assert run is not None
    assert run.outcome is Outcome.REFUSED
    assert "revision" in run.text
    assert all(m.weight == 0 for m in s.worker.sent if isinstance(m, Snapshot))


@pytest.mark.parametrize(("said", "strict"), [({"strict": True}, True), ({"strict": "x"}, None), ({}, None)])
def test_a_run_remembers_whether_its_candidate_is_strict(said: dict[str, Any], strict: bool | None) -> None:
    """As it said at gate 1; what it does not say is not known."""

    async def scenario(s: Stage) -> None:
        await s.conductor.start(replace(PLAN, declared_differences=("dtype", "strict")), "d", who="me", reason="go")
        s.conductor.arm_health("gpu", READY_B)
        s.conductor.arm_health("tpu", replace(READY_C, identity={**(READY_C.identity or {}), **said}))
        await tick(s)

    run = play(scenario).conductor.rollout.run
    assert run is not None
    assert (run.candidate_strict, run.judged_from) == (strict, 1000.0)


def test_validation_waits_for_a_candidate_that_is_not_ready_and_says_so() -> None:
    """A warming candidate gets nothing; the status names what is waited for."""

    async def scenario(s: Stage) -> None:
        await s.conductor.start(PLAN, "digest", who="me", reason="go")
        s.conductor.arm_health("gpu", READY_B)
        s.conductor.arm_health("tpu", ArmHealth(ready=False, detail="warming: bucket 3 of 12"))
        await tick(s)
        assert s.conductor.rollout.state is State.VALIDATING
        assert s.conductor.waiting_for() == "candidate tpu: warming: bucket 3 of 12"

    play(scenario)


def test_a_restart_resumes_the_step_on_fresh_evidence() -> None:
    """Same step, epoch and weight after a crash; what was proven before does not advance it."""
    store = FakeStore()

    async def half(s: Stage) -> None:
        await started(s)
        await seconds(s, 14)
        await s.conductor.keep_checkpoint()

    before = play(half, store).conductor.rollout

    async def after(s: Stage) -> None:
        assert s.conductor.rollout.weight == before.weight
        assert s.conductor.rollout.epoch == before.epoch
        s.conductor.arm_health("gpu", READY_B)
        s.conductor.arm_health("tpu", READY_C)
        await seconds(s, 5)
        assert s.conductor.rollout.weight == before.weight

    resumed = play(after, store, now=2000.0)
    assert [line.kind for line in resumed.store.lines][-1] == "restart"


def test_a_judge_that_raises_holds_and_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crashed judge leads to HOLD judge_failed, never to more traffic."""

    async def scenario(s: Stage) -> None:
        await started(s)

        def broken(*args: Any, **kwargs: Any) -> None:
            raise RuntimeError("boom")

        monkeypatch.setattr(Judge, "close_window", broken)
        await seconds(s, 40)
        assert s.conductor.rollout.weight == 1000
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.reason == "judge_failed"
        await s.conductor.roll_back(who="me", reason="no")
        assert s.worker.last_snapshot().weight == 0

    play(scenario)


def test_a_workers_own_breaker_rolls_the_run_back() -> None:
    """A worker that took the candidate out by itself ends the run, rule breaker."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        s.analyst.tripped_by = "w0"
        await tick(s)

    run = play(scenario).conductor.rollout.run
    assert run is not None
    assert (run.metric, run.rule) == ("error", "breaker")


def test_a_silent_worker_freezes_the_advance() -> None:
    """Evidence may be complete, but with a worker unheard for ten seconds nothing advances."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 10)
        s.replica.workers["w0"].heard_at = -100.0
        for _ in range(30):
            s.traffic()
            s.replica.workers["w0"].heard_at = -100.0
            await tick(s)
        assert s.conductor.rollout.weight == 1000
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.reason == "frozen"

    play(scenario)


def test_commands_that_do_not_fit_change_nothing() -> None:
    """Finish without a promotion, promote without override: refused with the reason."""

    async def scenario(s: Stage) -> None:
        await started(s)
        before = s.conductor.rollout
        with pytest.raises(NotNow, match="promoted"):
            await s.conductor.finish(who="me", reason="x")
        with pytest.raises(NotNow, match="override"):
            await s.conductor.promote(who="me", reason="x", override=False)
        s.store.down = True
        with pytest.raises(StoreUnavailable):
            await s.conductor.pause(who="me", reason="x")
        assert s.conductor.rollout == before

    play(scenario)


def test_finish_swaps_the_arms_and_rollback_swaps_them_back() -> None:
    """After finish the old candidate is the routed baseline."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 120)
        await s.conductor.finish(who="me", reason="good")
        assert s.worker.last_snapshot().baseline.name == "tpu"
        await s.conductor.roll_back(who="me", reason="not good")
        assert s.worker.last_snapshot().baseline.name == "gpu"

    play(scenario)


def test_a_store_that_hangs_holds_up_no_rollback_of_the_judge() -> None:
    """While a write hangs for good, ticks go on, evidence is judged and a failing candidate is routed to zero."""

    async def scenario(s: Stage) -> None:
        await started(s)
        hanging = asyncio.Event()

        async def never(*_: Any) -> None:
            await hanging.wait()

        save, s.store.save = s.store.save, never  # type: ignore[method-assign]  # a store that does not answer
        pausing = asyncio.create_task(s.conductor.pause(who="me", reason="wait"))
        await asyncio.sleep(0)
        for _ in range(8):
            s.traffic(failed=18)
            s.conductor.tick()
        assert s.conductor.rollout.state is State.ROLLED_BACK
        assert s.worker.last_snapshot().weight == 0
        s.store.save = save  # type: ignore[method-assign]  # it answers again
        hanging.set()
        with pytest.raises(NotNow, match="rollback"):
            await pausing
        await tick(s)
        assert s.store.rollout.state is State.ROLLED_BACK

    play(scenario)


def test_a_rollback_is_owed_to_the_store_before_any_worker_has_answered() -> None:
    """A deaf worker delays the figures, not the record: a crash now finds the rollback."""

    async def scenario(s: Stage) -> None:
        await started(s)
        s.worker.deaf = True
        pending = asyncio.create_task(s.conductor.roll_back(who="me", reason="no"))
        await asyncio.sleep(0)
        await s.conductor.ledger.settle(1.0)
        assert s.store.rollout.state is State.ROLLED_BACK
        s.clock.advance(6.0)
        s.replica.acknowledge(Ack(name="w0", version=0, epoch=0, written=0))
        assert (await pending).missing == ["w0"]

    play(scenario)


def test_a_second_rollback_keeps_the_record_of_the_first() -> None:
    """On-call rolls back what the gateway rolled back already: metric, live requests and time to zero stay."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 6)
        await seconds(s, 8, failed=15)
        first = s.conductor.rollout.run
        await s.conductor.roll_back(who="me", reason="to be sure")
        assert s.conductor.rollout.run == first
        assert first is not None
        assert first.live_candidate_requests > 0

    play(scenario)


def test_a_refused_start_changes_nothing() -> None:
    """A mistaken start during an open run does not excuse the candidate's absence."""

    async def scenario(s: Stage) -> None:
        await started(s)
        assert s.worker.last_snapshot().candidate_was_ready
        with pytest.raises(NotNow):
            await s.conductor.start(PLAN, "digest", who="me", reason="again")
        s.conductor.arm_health("tpu", ArmHealth(ready=False, detail="gone"))
        assert s.worker.last_snapshot().candidate_was_ready

    play(scenario)


def test_a_restart_with_other_arms_rolls_back_before_anything_is_routed() -> None:
    """The candidate's address changed in the configuration: its successor never sees the run's traffic."""
    store = FakeStore()

    async def half(s: Stage) -> None:
        await started(s)

    play(half, store)
    assert store.rollout.run is not None
    store.rollout = replace(store.rollout, run=replace(store.rollout.run, arms=("gpu http://x:1", "tpu http://y:2")))

    async def after(s: Stage) -> None:
        assert s.conductor.rollout.state is State.ROLLED_BACK
        assert s.worker.last_snapshot().weight == 0

    play(after, store)
    assert store.lines[-1].data["rule"] == "configuration"


def test_a_store_that_takes_no_checkpoint_is_told_though_nothing_is_decided() -> None:
    """Whoever looks must not find out with the next decision; when it takes one again all is well."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 3)
        s.store.down = True
        await s.conductor.keep_checkpoint()
        assert s.conductor.ledger.detail == "ok"
        assert s.conductor.store_detail == "the judge's state is not stored: the fake store is down"
        assert status(s.conductor, s.analyst, s.replica, name="r").store == s.conductor.store_detail
        s.store.down = False
        await s.conductor.keep_checkpoint()
        assert s.conductor.store_detail == "ok"

    play(scenario)


def test_a_checkpoint_that_cannot_be_read_begins_the_judge_afresh() -> None:
    """An upgrade with another checkpoint format serves and judges from now on."""
    store = FakeStore()

    async def half(s: Stage) -> None:
        await started(s)
        await seconds(s, 5)

    play(half, store)
    store.judge = {"format": 99}

    async def after(s: Stage) -> None:
        await seconds(s, 3)
        assert s.conductor.rollout.state is State.STEPPING
        assert s.analyst.verdict is not None
        assert s.analyst.verdict.reason != "judge_failed"

    play(after, store, now=2000.0)


def test_finish_needs_a_ready_candidate() -> None:
    """Making an unready arm the baseline is refused with what it says."""

    async def scenario(s: Stage) -> None:
        await started(s)
        await seconds(s, 120)
        s.conductor.arm_health("tpu", ArmHealth(ready=False, detail="warming: bucket 1 of 12"))
        with pytest.raises(NotNow, match="bucket 1 of 12"):
            await s.conductor.finish(who="me", reason="good")

    play(scenario)


def test_a_start_while_a_rollback_is_still_being_measured_is_one_truth() -> None:
    """Workers are slow to answer, the next run is started: memory and store agree on the newer run."""

    async def scenario(s: Stage) -> None:
        await started(s)
        s.worker.deaf = True
        rolling = asyncio.create_task(s.conductor.roll_back(who="me", reason="no"))
        await asyncio.sleep(0)
        writing, release = asyncio.Event(), asyncio.Event()
        save = s.store.save

        async def slow_save(rollout: Rollout, lines: Any, at: float) -> None:
            if rollout.state is State.VALIDATING:
                writing.set()
                await release.wait()
            await save(rollout, lines, at)

        s.store.save = slow_save  # type: ignore[method-assign]  # the fake's save, made to wait
        starting = asyncio.create_task(s.conductor.start(PLAN, "digest", who="me", reason="again"))
        await writing.wait()
        s.replica.acknowledge(Ack(name="w0", version=s.replica.snapshot.version, epoch=9, written=0))
        for _ in range(5):
            await asyncio.sleep(0)  # the measurement is taken while the start is being written
        release.set()
        await starting
        await rolling
        await s.conductor.ledger.settle(1.0)
        assert s.conductor.rollout.state is State.VALIDATING
        assert s.store.rollout.state is State.VALIDATING
        assert s.store.rollout.epoch == s.conductor.rollout.epoch

    play(scenario)


def test_a_run_is_opened_with_what_its_traffic_promises() -> None:
    """The rate of idle decides the expected times; a restart finds the same horizon and residual."""
    plan = replace(PLAN, control_at_full=True, stretch_s=8640.0, bake_s=600.0)

    async def scenario(s: Stage) -> None:
        await seconds(s, 30, ok=10)  # both arms of the stage answer ten a second
        applied = await s.conductor.start(plan, "digest", who="me", reason="go")
        assert "At 20 judged requests a second" in applied.text
        s.conductor.arm_health("gpu", READY_B)
        s.conductor.arm_health("tpu", READY_C)
        await tick(s)
        await seconds(s, 60, ok=10)
        assert s.conductor.rollout.state is State.BAKING
        assert s.worker.last_snapshot().weight == 9_666

    before = play(scenario)
    kept = before.conductor.rollout.run
    assert kept is not None
    assert kept.residual == 334

    async def nothing(s: Stage) -> None:
        assert s.conductor.rollout.run is not None
        assert s.conductor.rollout.run.residual == 334
        assert s.worker.last_snapshot().weight == 9_666
        assert s.conductor.rollout.run.plan == kept.plan

    play(nothing, before.store, now=2000.0)


def test_without_a_minute_of_traffic_nothing_is_promised() -> None:
    """A run that is started at once has the plan's own numbers, and says so."""

    async def scenario(s: Stage) -> None:
        applied = await s.conductor.start(PLAN, "digest", who="me", reason="go")
        assert "No times are foretold: traffic has not been counted for long enough" in applied.text
        assert s.conductor.rollout.run is not None
        assert s.conductor.rollout.run.plan == PLAN

    play(scenario)
