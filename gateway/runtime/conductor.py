"""Carries the rollout: one event at a time through the table, then routing, store and journal in the safe order.

The order depends on the direction. Less candidate traffic is routed first and written after, so that a lost store
delays no rollback. More candidate traffic is written first and routed after, so that a lost store allows no advance.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gateway.core.identity import check_identity
from gateway.core.plan import Plan
from gateway.core.rollout import (
    JUDGED,
    OPEN,
    ROUTED,
    Effect,
    Event,
    Finish,
    Invalid,
    JournalEntry,
    Judged,
    NotNow,
    Pause,
    Promote,
    Restarted,
    Resume,
    RollBack,
    Rollout,
    Start,
    StartJudging,
    State,
    StopJudging,
    Validated,
    transition,
)
from gateway.core.snapshot import ArmSnapshot, Snapshot
from gateway.core.types import Role
from gateway.core.verdict import Verdict, VerdictName
from gateway.ports import ArmHealth, Clock, Store, StoreUnavailable
from gateway.runtime.analyst import IDLE_WINDOW_S, Analyst, hold, live_requests, tripped
from gateway.runtime.replica import Replica

log = logging.getLogger("gateway.conductor")

ACKNOWLEDGE_WITHIN_S = 5.0
IDENTITY_DIGEST = "identity_digest"
UNKNOWN = ArmHealth(ready=False, detail="not polled yet")


@dataclass(frozen=True, slots=True)
class Applied:
    """What a command did. ``missing`` workers did not acknowledge weight 0 in time."""

    rollout: Rollout
    text: str
    acknowledged: list[str]
    missing: list[str]
    time_to_zero_s: float | None = None


@dataclass(frozen=True, slots=True)
class Unsaved:
    """A state that is routed and not yet written."""

    rollout: Rollout
    lines: list[JournalEntry]
    at: float


class Conductor:
    """Owns the rollout of this replica."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        replica: Replica,
        analyst: Analyst,
        arms: dict[Role, ArmSnapshot],
        new_run_id: Callable[[], str],
        secret_of: Callable[[str], bytes],
    ) -> None:
        self.clock, self.store, self.replica, self.analyst = clock, store, replica, analyst
        self._arms = arms
        self._new_run_id, self._secret_of = new_run_id, secret_of
        self._commands, self._writing = asyncio.Lock(), asyncio.Lock()
        self._unsaved: list[Unsaved] = []
        self.rollout = Rollout()
        self.health: dict[str, ArmHealth] = {arm.name: UNKNOWN for arm in arms.values()}
        self.baseline_seen_ready = False
        self.candidate_was_ready = False
        self.store_detail = "ok"
        self.last_time_to_zero_s: float | None = None

    # -- the arms in their roles ------------------------------------------------------------------------------------

    def arm(self, role: Role) -> ArmSnapshot:
        """The arm that plays ``role`` now: after a finish the configured candidate serves."""
        return self._arms[role.other if self.rollout.swapped else role]

    def arm_health(self, name: str, health: ArmHealth) -> None:
        """Takes what a readiness poll found and routes by it."""
        self.health[name] = health
        if health.ready and name == self.arm(Role.BASELINE).name:
            self.baseline_seen_ready = True
        if health.ready and name == self.arm(Role.CANDIDATE).name and self.rollout.state in JUDGED:
            self.candidate_was_ready = True
        self._route()

    # -- start and restart ------------------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Reads the rollout and goes on where the last process stopped, on fresh evidence."""
        self.rollout, checkpoint = await self.store.load()
        now = self.clock.wall()
        self.rollout, effects = transition(self.rollout, Restarted(), now)
        lines = self._apply_effects(effects, now, checkpoint)
        if not lines:
            self.analyst.observe(epoch=self.rollout.epoch, now=now)
        await self.store.save(self.rollout, lines, now)
        self._route()

    # -- commands ---------------------------------------------------------------------------------------------------

    async def start(self, plan: Plan, plan_digest: str, *, who: str, reason: str) -> Applied:
        """Opens a run. Raises NotNow while one is open, StoreUnavailable when it cannot be written."""
        event = Start(run_id=self._new_run_id(), plan=plan, plan_digest=plan_digest, who=who, reason=reason)
        self.candidate_was_ready = False
        return await self._command(event)

    async def pause(self, *, who: str, reason: str) -> Applied:
        return await self._command(Pause(who=who, reason=reason))

    async def resume(self, *, who: str, reason: str) -> Applied:
        return await self._command(Resume(who=who, reason=reason))

    async def promote(self, *, who: str, reason: str, override: bool) -> Applied:
        return await self._command(Promote(who=who, reason=reason, override=override))

    async def finish(self, *, who: str, reason: str) -> Applied:
        return await self._command(Finish(who=who, reason=reason))

    async def roll_back(self, *, who: str, reason: str) -> Applied:
        """Accepted in every state, waits for no other command and for no store."""
        return await self._less_traffic(RollBack(who=who, reason=reason))

    async def _command(self, event: Event) -> Applied:
        async with self._commands:
            await self._flush()
            return await self._more_traffic(event)

    # -- the tick ---------------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Validates, judges, obeys. Called a few times a second; never raises for what arms or store do."""
        now = self.clock.wall()
        if self._unsaved:
            try:
                await self._flush()
            except StoreUnavailable as error:
                self._store_lost(error)
        if self.rollout.state is State.VALIDATING:
            await self._validate()
        verdict = self.analyst.look(now)
        if (worker := self.analyst.tripped_by) and self.rollout.state in ROUTED:
            verdict = verdict if _rolls_back(verdict) else tripped(worker, verdict)
        if verdict is not None and self.rollout.state in ROUTED:
            await self._obey(verdict)

    async def _obey(self, verdict: Verdict) -> None:
        if verdict.name is VerdictName.ROLL_BACK:
            await self._less_traffic(Judged(verdict=verdict))
            self.analyst.verdict = verdict
            return
        if verdict.name is VerdictName.ADVANCE and (reason := self._freeze()):
            self.analyst.verdict = hold("frozen", f"The evidence is complete, but nothing advances: {reason}.")
            return
        try:
            async with self._commands:
                await self._flush()
                await self._more_traffic(Judged(verdict=verdict))
        except StoreUnavailable as error:
            self._store_lost(error)
        except NotNow as error:  # a rollback came in between
            log.info("verdict overtaken", extra={"fields": {"event": "verdict_overtaken", "detail": str(error)}})

    def _freeze(self) -> str | None:
        """Why no advance is allowed now, whatever the evidence says."""
        if silent := self.replica.silent():
            return f"no word from worker {', '.join(silent)} for ten seconds"
        if not self.replica.workers:
            return "no data worker is running"
        return "the store is not written" if self._unsaved else None

    async def _validate(self) -> None:
        """Gate 1, as soon as both arms are ready and say what they are."""
        baseline, candidate = (self.health[self.arm(role).name] for role in (Role.BASELINE, Role.CANDIDATE))
        if not (baseline.ready and candidate.ready and baseline.identity and candidate.identity):
            return
        assert self.rollout.run is not None, "a validating rollout has a run"
        plan = self.rollout.run.plan
        found = check_identity(
            _comparable(baseline.identity),
            _comparable(candidate.identity),
            kind=plan.kind,
            declared=plan.declared_differences,
        )
        differences = tuple(str(difference) for difference in found.differences)
        event: Event = Invalid(problems=found.problems) if found.problems else Validated(differences=differences)
        self.candidate_was_ready = not found.problems
        try:
            async with self._commands:
                await self._more_traffic(event)
        except StoreUnavailable as error:
            self._store_lost(error)
        except NotNow:
            return

    def waiting_for(self) -> str | None:
        """What validation still waits for; None in every other state."""
        if self.rollout.state is not State.VALIDATING:
            return None
        waits = [
            f"{role} {self.arm(role).name}: {self.health[self.arm(role).name].detail}"
            for role in Role
            if not self.health[self.arm(role).name].ready
        ]
        return "; ".join(waits) or "the arms' identities"

    # -- applying ---------------------------------------------------------------------------------------------------

    async def _more_traffic(self, event: Event) -> Applied:
        """Write, then route. The caller holds the command lock; a rollback may still come first and wins."""
        before, now = self.rollout, self.clock.wall()
        after, effects = transition(before, event, now)
        lines = [e for e in effects if isinstance(e, JournalEntry)]
        if after == before and not lines:
            return Applied(after, "", [], [])
        await self.store.save(after, lines, now)
        self.store_detail = "ok"
        if self.rollout is not before:
            # Its state is queued behind ours in the store, so the last state written is the rollback.
            raise NotNow("this command", self.rollout.state, "a rollback came first")
        self.rollout = after
        self._apply_effects(effects, now, None)
        self._route()
        self._log(lines)
        return Applied(after, lines[0].text if lines else "", sorted(self.replica.workers), [])

    async def _less_traffic(self, event: Event) -> Applied:
        """Route, then write. Time to zero: decision to the last live worker's acknowledgement."""
        decided, now = self.clock.monotonic(), self.clock.wall()
        live = live_requests(self.analyst.evidence, Role.CANDIDATE)
        self.rollout, effects = transition(self.rollout, event, now)
        version = self._route()
        self._apply_effects(effects, now, None)
        rolled_back = self.rollout
        acknowledged, missing = await self.replica.acknowledged(version, ACKNOWLEDGE_WITHIN_S)
        took = None if missing else self.clock.monotonic() - decided
        self.last_time_to_zero_s = took
        measured = rolled_back
        if rolled_back.run is not None:
            run = replace(rolled_back.run, time_to_zero_s=took, live_candidate_requests=live)
            measured = replace(rolled_back, run=run)
        if self.rollout is rolled_back:
            self.rollout = measured
        data = {"time_to_zero_s": took, "missing": missing, "live_candidate_requests": live}
        lines = [replace(e, data={**e.data, **data}) for e in effects if isinstance(e, JournalEntry)]
        self._unsaved.append(Unsaved(measured, lines, now))
        self._log(lines)
        try:
            await self._flush()
        except StoreUnavailable as error:
            self._store_lost(error)
        return Applied(measured, lines[0].text, acknowledged, missing, took)

    def _apply_effects(
        self, effects: tuple[Effect, ...], now: float, checkpoint: dict[str, Any] | None
    ) -> list[JournalEntry]:
        rollout = self.rollout
        for effect in effects:
            match effect:
                case StartJudging():
                    assert rollout.run is not None, "only a run is judged"
                    self.analyst.judge(
                        rollout.run,
                        epoch=rollout.epoch,
                        now=now,
                        fresh=effect.fresh,
                        resume=checkpoint,
                    )
                case StopJudging():
                    self.analyst.stop(epoch=rollout.epoch, now=now, window_s=self._window_s())
                case JournalEntry():
                    continue
        return [e for e in effects if isinstance(e, JournalEntry)]

    async def _flush(self) -> None:
        """Writes what is routed and not yet written, oldest first. Raises StoreUnavailable."""
        async with self._writing:
            while self._unsaved:
                oldest = self._unsaved[0]
                await self.store.save(oldest.rollout, oldest.lines, oldest.at)
                self._unsaved.pop(0)
        self.store_detail = "ok"

    def _store_lost(self, error: StoreUnavailable) -> None:
        self.store_detail = str(error)
        log.error("store unavailable", extra={"fields": {"event": "store_unavailable", "detail": str(error)}})

    def _window_s(self) -> float:
        run = self.rollout.run
        return run.plan.rule.window_s if run is not None and self.rollout.state in OPEN | ROUTED else IDLE_WINDOW_S

    def _route(self) -> int:
        """Publishes the snapshot that the present rollout and the arms' health call for."""
        rollout = self.rollout
        baseline, candidate = self.arm(Role.BASELINE), self.arm(Role.CANDIDATE)
        run = rollout.run
        judged = rollout.state in JUDGED and run is not None
        serving = rollout.state in ROUTED and run is not None
        copies = run.plan.copies if judged and run is not None else 0
        return self.replica.publish(
            epoch=rollout.epoch,
            run_id=run.run_id if run is not None and serving else "",
            secret=self._secret_of(run.run_id if run is not None else ""),
            window_s=self._window_s(),
            weight=rollout.routed_weight,
            copies=copies,
            reverse_copies=copies if rollout.weight else 0,
            lat_limits_ms=run.plan.latency_limits_ms() if judged and run is not None else (None, None, None),
            baseline=replace(baseline, role=Role.BASELINE, ready=self.health[baseline.name].ready),
            candidate=replace(candidate, role=Role.CANDIDATE, ready=self.health[candidate.name].ready),
            candidate_was_ready=self.candidate_was_ready,
            judging=serving,
        )

    async def keep_checkpoint(self) -> None:
        """Stores the judge's state, so that a restart carries the evidence against the candidate on."""
        state = self.analyst.checkpoint()
        if state is None or self._unsaved:
            return
        try:
            await self.store.checkpoint(self.rollout.epoch, state)
        except StoreUnavailable as error:
            self._store_lost(error)

    def _log(self, lines: list[JournalEntry]) -> None:
        for line in lines:
            fields = {"event": line.kind, "epoch": self.rollout.epoch, "weight": self.rollout.weight, "who": line.who}
            log.info(line.text, extra={"fields": fields})


def _rolls_back(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.name is VerdictName.ROLL_BACK


def _comparable(identity: dict[str, Any]) -> dict[str, Any]:
    """The digest sums up the other fields; comparing it would only say twice that they differ."""
    return {name: value for name, value in identity.items() if name != IDENTITY_DIGEST}


def initial_snapshot(arms: dict[Role, ArmSnapshot], *, model: str, key_header: str | None, secret: bytes) -> Snapshot:
    """Everything to the baseline, nothing judged: where a replica begins."""
    return Snapshot(
        version=1,
        epoch=0,
        run_id="",
        secret=secret,
        window_s=IDLE_WINDOW_S,
        weight=0,
        copies=0,
        reverse_copies=0,
        lat_limits_ms=(None, None, None),
        baseline=arms[Role.BASELINE],
        candidate=arms[Role.CANDIDATE],
        candidate_was_ready=False,
        model=model,
        key_header=key_header,
        judging=False,
    )
