"""Carries the rollout: one event at a time through the table, then routing, store and journal in the safe order.

The order depends on the direction. Less candidate traffic is routed first and written after, so that a lost store
delays no rollback. More candidate traffic is written first and routed after, so that a lost store allows no advance.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

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
from gateway.core.identity import check_identity
from gateway.core.plan import Plan
from gateway.core.rollout import GATEWAY, transition
from gateway.core.run import ADVANCING, JUDGED, OPEN, ROUTED, Arms, NotNow, Rollout, State
from gateway.core.snapshot import ArmSnapshot, Snapshot
from gateway.core.types import Role
from gateway.ports import ArmHealth, Clock, EvidenceStore, Store, StoreUnavailable
from gateway.runtime.alarm import Alarm
from gateway.runtime.analyst import IDLE_WINDOW_S, Analyst, tripped
from gateway.runtime.ledger import Entry, Ledger
from gateway.runtime.record import Record
from gateway.runtime.replica import Replica

log = logging.getLogger("gateway.conductor")

ACKNOWLEDGE_WITHIN_S = 5.0
ANSWER_WITHIN_S = 1.0
"""How long the answer to a rollback waits for the journal; the rollback itself does not."""
MOVE_AGAIN_S = 1.0
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
class Rolled:
    """A rollback that is routed. ``ended``: it is the one that ended the run."""

    rollout: Rollout
    version: int
    decided: float
    text: str
    ended: bool


class Conductor:
    """Owns the rollout of this replica."""

    def __init__(
        self,
        *,
        clock: Clock,
        store: Store,
        evidence: EvidenceStore,
        replica: Replica,
        analyst: Analyst,
        arms: dict[Role, ArmSnapshot],
        new_run_id: Callable[[], str],
        secret_of: Callable[[str], bytes],
    ) -> None:
        self.clock, self.store, self.replica, self.analyst = clock, store, replica, analyst
        self._arms, self._evidence = arms, evidence
        self._new_run_id, self._secret_of = new_run_id, secret_of
        self._commands = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._moving: asyncio.Task[None] | None = None
        self._measuring: asyncio.Task[None] | None = None
        self._move_after = 0.0
        self.ledger = Ledger(store)
        self._unkept = ""
        self._alarm = Alarm()
        self.record = Record(store, analyst)
        self.rollout = Rollout()
        self.health: dict[str, ArmHealth] = {arm.name: UNKNOWN for arm in arms.values()}
        self.baseline_seen_ready = False
        self.candidate_was_ready = False
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
        if health.ready and name == self.arm(Role.CANDIDATE).name and self.rollout.state in ROUTED:
            self.candidate_was_ready = True
        self._route()

    # -- start and restart ------------------------------------------------------------------------------------------

    async def restore(self) -> None:
        """Reads the rollout and goes on where the last process stopped, on fresh evidence."""
        self.rollout, checkpoint = await self.store.load()
        now = self.clock.wall()
        self.analyst.observe(epoch=self.rollout.epoch, now=now, window_s=self._window_s())
        self.rollout, effects = transition(self.rollout, Restarted(arms=self._configured()), now)
        self.candidate_was_ready = self.rollout.state in ROUTED  # validation saw it ready, in this epoch
        self.record.keep(_lines(effects))
        self._apply_effects(effects, now, checkpoint)
        await self.store.save(self.rollout, _lines(effects), now)
        self._log(_lines(effects))
        self._route()

    def _configured(self) -> Arms:
        baseline, candidate = self._arms[Role.BASELINE], self._arms[Role.CANDIDATE]
        return _named(baseline), _named(candidate)

    # -- commands ---------------------------------------------------------------------------------------------------

    async def start(self, plan: Plan, plan_digest: str, *, who: str, reason: str) -> Applied:
        """Opens a run. Raises NotNow while one is open, StoreUnavailable when it cannot be written."""
        event = Start(
            run_id=self._new_run_id(),
            plan=plan,
            plan_digest=plan_digest,
            who=who,
            reason=reason,
            arms=self._configured(),
        )
        return await self._command(event)

    async def pause(self, *, who: str, reason: str) -> Applied:
        return await self._command(Pause(who=who, reason=reason))

    async def resume(self, *, who: str, reason: str) -> Applied:
        return await self._command(Resume(who=who, reason=reason))

    async def promote(self, *, who: str, reason: str, override: bool) -> Applied:
        return await self._command(Promote(who=who, reason=reason, override=override), of=self.rollout)

    async def finish(self, *, who: str, reason: str) -> Applied:
        """Makes the candidate the baseline. Raises NotNow also while it is not ready."""
        candidate = self.arm(Role.CANDIDATE)
        if not self.health[candidate.name].ready:
            detail = self.health[candidate.name].detail
            raise NotNow("finish", self.rollout.state, f"the candidate {candidate.name} is not ready: {detail}")
        return await self._command(Finish(who=who, reason=reason))

    async def roll_back(self, *, who: str, reason: str) -> Applied:
        """Accepted in every state. Waits for the workers' acknowledgement, for no other command, and for no store."""
        applied = await self._measure(self._less_traffic(RollBack(who=who, reason=reason), self.analyst.verdict))
        try:
            await self.ledger.settle(ANSWER_WITHIN_S)
        except StoreUnavailable:
            pass  # it stays owed; the answer does not wait for it
        return applied

    async def _command(self, event: Event, *, of: Rollout | None = None) -> Applied:
        """``of``: the event is about this rollout. Where it has moved on while the event waited, NotNow: what passes
        one step must never pass the one after it.
        """
        async with self._commands:
            if of is not None and self.rollout is not of:
                raise NotNow("this command", self.rollout.state, "another command came first")
            return await self._more_traffic(event)

    async def close(self) -> None:
        """Ends what is under way and writes what is owed, as far as the store allows."""
        await self.settled()
        try:
            await self.ledger.settle(ACKNOWLEDGE_WITHIN_S)
        except StoreUnavailable as error:
            log.error("left unwritten", extra={"fields": {"event": "left_unwritten", "detail": str(error)}})
        try:
            async with asyncio.timeout(ACKNOWLEDGE_WITHIN_S):
                await self.analyst.tape.write(self._evidence)
        except TimeoutError:
            log.error("not recorded", extra={"fields": {"event": "left_unwritten", "detail": "the recording's end"}})

    async def settled(self) -> None:
        """Returns when nothing that a tick began is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # -- the tick ---------------------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Validates, judges, obeys. Called a few times a second; awaits nothing, so that nothing can hold it up."""
        if self.rollout.state is State.VALIDATING and (event := self._validated()) is not None:
            self._begin(event)
        verdict = self.analyst.look(self.clock.wall())
        if (worker := self.analyst.tripped_by) and self.rollout.state in ROUTED:
            verdict = verdict if _rolls_back(verdict) else tripped(worker, self.analyst.trip, verdict)
        if verdict is not None and self.rollout.state in ROUTED:
            self._obey(verdict)
        if (line := self._alarm.changed(verdict if self.rollout.state in ROUTED else None)) is not None:
            log.error("alarm", extra={"fields": {"event": "alarm", "detail": line}})

    def _obey(self, verdict: Verdict) -> None:
        match verdict.name:
            case VerdictName.ROLL_BACK:
                self.analyst.acts()
                rolled = self._less_traffic(Judged(verdict=verdict), verdict)
                self.analyst.verdict = verdict
                self._measuring = self._spawn(self._measured(rolled))
            case VerdictName.ADVANCE if reason := self._freeze():
                text = f"The evidence is complete, but nothing advances: {reason}."
                self.analyst.verdict = replace(verdict, name=VerdictName.HOLD, reason="frozen", text=text)
            case VerdictName.ADVANCE | VerdictName.INCONCLUSIVE:
                self._begin(Judged(verdict=verdict))
            case VerdictName.HOLD:
                return

    def _freeze(self) -> str | None:
        """Why no advance is allowed now, whatever the evidence says."""
        if silent := self.replica.silent():
            return f"no word from worker {', '.join(silent)} for ten seconds"
        if not self.replica.workers:
            return "no data worker is running"
        return "the store is not written" if self.ledger.is_behind else None

    def _validated(self) -> Event | None:
        """Gate 1, as soon as both arms are ready and say what they are; None until then."""
        baseline, candidate = (self.health[self.arm(role).name] for role in (Role.BASELINE, Role.CANDIDATE))
        if not (baseline.ready and candidate.ready and baseline.identity and candidate.identity):
            return None
        assert self.rollout.run is not None, "a validating rollout has a run"
        plan = self.rollout.run.plan
        found = check_identity(
            _comparable(baseline.identity),
            _comparable(candidate.identity),
            kind=plan.kind,
            declared=plan.declared_differences,
        )
        if found.problems:
            return Invalid(problems=found.problems)
        strict = candidate.identity.get("strict")
        return Validated(
            differences=tuple(str(difference) for difference in found.differences),
            strict=strict if isinstance(strict, bool) else None,
        )

    def _begin(self, event: Event) -> None:
        """One step by the gateway itself at a time; while one is being written the next verdict waits."""
        if (self._moving is None or self._moving.done()) and self.clock.monotonic() >= self._move_after:
            if isinstance(event, Judged) and self.rollout.state in ADVANCING:  # elsewhere nothing follows from it
                self.analyst.acts()
            self._moving = self._spawn(self._move(event, self.rollout))

    async def _move(self, event: Event, of: Rollout) -> None:
        try:
            await self._command(event, of=of)
        except StoreUnavailable:  # the ledger says why; the evidence is still there at the next try
            self._move_after = self.clock.monotonic() + MOVE_AGAIN_S
        except NotNow as error:  # a rollback or a person came in between
            log.info("overtaken", extra={"fields": {"event": "overtaken", "detail": str(error)}})

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def waiting_for(self) -> str | None:
        """What validation still waits for; None in every other state."""
        if self.rollout.state is not State.VALIDATING:
            return None
        return "; ".join(f"{arm}: {detail}" for arm, detail in self.unready()) or "the arms' identities"

    def unready(self) -> list[tuple[str, str]]:
        """Arms that are not ready, as ``candidate NAME``, with what their last poll found."""
        arms = [(role, self.arm(role).name) for role in Role]
        return [(f"{role} {name}", self.health[name].detail) for role, name in arms if not self.health[name].ready]

    # -- applying ---------------------------------------------------------------------------------------------------

    async def _more_traffic(self, event: Event) -> Applied:
        """Write, then route. The caller holds the command lock; a rollback may still come first and wins."""
        before, now = self.rollout, self.clock.wall()
        after, effects = transition(before, event, now, self._rate(event, now))
        if after == before and not effects:
            return Applied(after, "", [], [])
        judged = event.verdict if isinstance(event, Judged) else self.analyst.verdict
        lines = self.record.numbered(_lines(effects), judged, now)
        await self.ledger.write(Entry(after, lines, now))
        if self.rollout.epoch != before.epoch:
            # A rollback, the only event that does not wait for the command lock. Its state is queued behind ours in the
            # store, so the last state written is the rollback.
            raise NotNow("this command", self.rollout.state, "a rollback came first")
        self.rollout = after
        if isinstance(event, Start | Validated):
            self.candidate_was_ready = isinstance(event, Validated)
        self.record.keep(lines)
        self._apply_effects(effects, now, None)
        self._route()
        self._log(lines)
        return Applied(after, lines[0].text if lines else "", sorted(self.replica.workers), [])

    def _rate(self, event: Event, now: float) -> float | None:
        """Judged requests a second of late, as the rule of the run counts that; None where it is not known."""
        run = self.rollout.run
        plan = event.plan if isinstance(event, Start) else run.plan if run is not None else None
        return self.analyst.traffic.rate(now, plan.rule) if plan is not None else None

    def _less_traffic(self, event: Event, verdict: Verdict | None) -> Rolled:
        """Route, then owe the write: done when this returns, whatever workers and store do.

        ``verdict`` is for the journal alone. Everything that is counted for it is counted after routing.
        """
        before, now = self.rollout, self.clock.wall()
        decided = self.clock.monotonic()
        self.rollout, effects = transition(before, event, now)
        version = self._route()
        lines = self.record.numbered(_lines(effects), verdict, now)
        run = self.rollout.run
        ended = run is not before.run
        if run is not None and ended:
            live, since = self.record.live()
            counted = replace(run, live_candidate_requests=live, live_counted_from=since)
            self.rollout = replace(self.rollout, run=counted)
            self.record.keep(lines)
        self._apply_effects(effects, now, None)  # voids what was counted
        self.ledger.owe(Entry(self.rollout, lines, now))
        self._log(lines)
        return Rolled(self.rollout, version, decided, lines[0].text, ended=ended)

    async def _measure(self, rolled: Rolled) -> Applied:
        """Time to zero: decision to the last live worker's acknowledgement, journalled as a line of its own."""
        acknowledged, missing = await self.replica.acknowledged(rolled.version, ACKNOWLEDGE_WITHIN_S)
        took = None if missing else self.clock.monotonic() - rolled.decided
        self.last_time_to_zero_s = took
        measured = rolled.rollout
        if measured.run is not None and rolled.ended:
            run = replace(measured.run, time_to_zero_s=took, acknowledged=len(acknowledged), unconfirmed=tuple(missing))
            measured = replace(measured, run=run)
        if self.rollout is rolled.rollout:
            self.rollout = measured
        text = f"not acknowledged within {ACKNOWLEDGE_WITHIN_S:g} s by {', '.join(missing)}"
        if took is not None:
            text = (
                f"zero after {took * 1000:.1f} ms, acknowledged by {', '.join(acknowledged) or 'no worker: none runs'}"
            )
        line = JournalEntry(kind="zero", who=GATEWAY, text=text, data={"time_to_zero_s": took, "missing": missing})
        self.ledger.owe(Entry(measured, [line], self.clock.wall()))
        self._log([line])
        return Applied(measured, rolled.text, acknowledged, missing, took)

    async def _measured(self, rolled: Rolled) -> None:
        await self._measure(rolled)

    def _apply_effects(self, effects: tuple[Effect, ...], now: float, checkpoint: dict[str, Any] | None) -> None:
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
                        sticky=self.replica.snapshot.key_header is not None,
                    )
                case StopJudging():
                    self.analyst.stop(epoch=rollout.epoch, now=now, window_s=self._window_s())
                case JournalEntry():
                    continue

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
        copies = run.copies_share if judged and run is not None else 0
        return self.replica.publish(
            epoch=rollout.epoch,
            run_id=run.run_id if run is not None and serving else "",
            secret=self._secret_of(run.run_id if run is not None else ""),
            window_s=self._window_s(),
            weight=rollout.routed_weight,
            copies=copies,
            reverse_copies=run.plan.copies if judged and run is not None and rollout.weight else 0,
            lat_limits_ms=run.plan.latency_limits_ms() if judged and run is not None else (None, None, None),
            stream_limits_ms=run.plan.stream_limits_ms() if judged and run is not None else (None, None),
            baseline=replace(baseline, role=Role.BASELINE, ready=self.health[baseline.name].ready),
            candidate=replace(candidate, role=Role.CANDIDATE, ready=self.health[candidate.name].ready),
            candidate_was_ready=self.candidate_was_ready,
            judging=serving,
            strata=run.plan.strata if serving and run is not None else (),
            # Followed by the next poll of an arm when the floor has what it wants.
            noise_copies=self.analyst.noise_copies if judged and run is not None and run.step == 0 else 0,
        )

    @property
    def store_detail(self) -> str:
        """How the last writes to the store went: of decisions, and of what a restart would go on from; ``ok``."""
        decisions = self.ledger.detail
        return self._unkept if self._unkept and decisions == "ok" else decisions

    async def keep_checkpoint(self) -> None:
        """Stores the judge's state, so that a restart carries the evidence against the candidate on.

        What was recorded goes first: a state that is gone on from has its beginning in the recording.
        """
        state, epoch = None if self.ledger.is_behind else self.analyst.checkpoint(), self.rollout.epoch
        await self.analyst.tape.write(self._evidence)
        if state is None:
            return
        try:
            await self.store.checkpoint(epoch, state)
            self._unkept = ""
        except StoreUnavailable as error:
            self._unkept = f"the judge's state is not stored: {error}"
            log.error("no checkpoint", extra={"fields": {"event": "store_unavailable", "detail": str(error)}})

    def _log(self, lines: list[JournalEntry]) -> None:
        for line in lines:
            fields = {"event": line.kind, "epoch": self.rollout.epoch, "weight": self.rollout.weight, "who": line.who}
            log.info(line.text, extra={"fields": fields})


def _lines(effects: tuple[Effect, ...]) -> list[JournalEntry]:
    return [effect for effect in effects if isinstance(effect, JournalEntry)]


def _named(arm: ArmSnapshot) -> str:
    """An arm by what makes it another arm when it changes."""
    return f"{arm.name} http://{arm.host}:{arm.port}{arm.base_path}"


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
