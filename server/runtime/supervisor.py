"""Owns the worker process and the server's life.

Every health answer is read from ``life``, which is a value in memory: a probe never waits for the device.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from server.core.lifecycle import Event, Life, State
from server.core.outlook import refusal
from server.core.restart import RestartRule
from server.core.types import EngineFacts, NotReady, differences
from server.core.watch import StuckRule
from server.ports.clock import Clock
from server.ports.telemetry import Log, Telemetry
from server.ports.worker import (
    Beat,
    BucketBegan,
    BucketWarm,
    Failed,
    Finished,
    Loaded,
    Profiled,
    RunFailed,
    Start,
    Warmed,
    WorkerEvent,
    WorkerLink,
)
from server.runtime.batcher import Batcher, Landed
from server.runtime.heard import Heard

WATCH_S = 1.0
# After a stall of this process a timer may run before the words that wait in the socket are read.
READ_S = 0.1
# One request can fail its batch; a device that fails so many in a row answers nobody. Only shapes count that have run
# here: an undeclared one that fails at once says nothing about the device, and is not tried again.
FAILED_BATCHES_LIMIT = 5
WARMING_UP: Final = (State.STARTING, State.LOADING, State.WARMING)


@dataclass(frozen=True, slots=True)
class Rules:
    """What the supervisor goes by."""

    stuck: StuckRule = field(default_factory=StuckRule)
    restart: RestartRule = field(default_factory=RestartRule)


class Supervisor:
    """Starts the worker, follows it, closes the batcher the moment it is gone or stuck, and starts it again."""

    def __init__(
        self,
        start: Start,
        link: WorkerLink,
        batcher: Batcher,
        clock: Clock,
        telemetry: Telemetry,
        log: Log,
        on_facts: Callable[[EngineFacts], None],
        rules: Rules = Rules(),
    ) -> None:
        self._start = start
        self._link = link
        self._batcher = batcher
        self._clock = clock
        self._telemetry = telemetry
        self._log = log
        self._on_facts = on_facts
        self._rules = rules
        self._heard = Heard(clock, batcher, rules.stuck)
        self._ready_at: float | None = None
        self._watch: asyncio.Task[None] | None = None
        self._restart: asyncio.Task[None] | None = None
        self._took_s: float | None = None
        self._losses = 0
        self._failed_batches = 0
        self.life = Life(since=self._heard.spawned, buckets=len(start.buckets))
        self.facts: EngineFacts | None = None

    async def start(self) -> None:
        """Spawns the worker; the rest arrives as events."""
        self._telemetry.life_changed(self.life)
        self._watch = asyncio.create_task(self._watch_worker(), name="worker-watch")
        try:
            await self._spawn()
        except OSError as error:
            self.fail(f"worker: could not be started: {error}")

    def receive(self, event: WorkerEvent) -> None:
        """One word from the worker."""
        self._heard.word(event)
        if isinstance(event, Failed):
            self._gave_up(event.reason)
            return
        if self.life.state is State.STUCK:
            self._look_again()
        match event:
            case Beat(memory):
                if memory is not None:
                    self._telemetry.memory_changed(memory)
            case Profiled():
                pass  # Nobody waits for this window any more.
            case Finished():
                self._failed_batches = 0
                self._tell_compiles(self._batcher.finished(event), event.compiles)
            case RunFailed():
                self._run_failed(event)
            case _ if self.life.state not in WARMING_UP:
                pass  # A compile in service, or progress that was on its way when the server began to drain or failed.
            case Loaded():
                self._loaded(event)
            case BucketBegan(bucket):
                self._become(self.life.began(bucket))
            case BucketWarm(timing):
                self._become(self.life.finished(timing))
                self._log.info(
                    "bucket_warm",
                    bucket=str(timing.bucket),
                    first_s=round(timing.first_s, 4),
                    warm_s=round(timing.warm_s, 5),
                    calls=timing.calls,
                    source=timing.source,
                    tier=timing.tier,
                )
            case Warmed():
                self._warmed()

    def lost(self, reason: str) -> None:
        """The worker is gone unasked."""
        bucket = self._batcher.abandon()
        if bucket is not None:
            self._log.error("shape_refused", bucket=str(bucket), error=f"worker: {reason}")
        self._replace(reason)

    def _replace(self, reason: str) -> None:
        """Nobody is served from this moment, and the worker is started again while that helps."""
        if self.life.state is State.DRAINING:
            self.fail(f"worker: {reason}")
        if self.life.state in (State.FAILED, State.STOPPED) or self._restart is not None:
            return
        now = self._clock.monotonic()
        ready_s = 0.0 if self._ready_at is None else now - self._ready_at
        self._losses = self._rules.restart.in_a_row(self._losses, ready_s)
        self._ready_at = None
        pause_s = self._rules.restart.pause_s(self._losses)
        if pause_s is None:
            self.fail(
                f"worker: {reason}; it is not started again after {self._losses - 1} restarts in a row, "
                "the limit (restart.limit)"
            )
            return
        self._step(Event.LOST, f"worker: {reason}")
        if self._took_s is not None:
            self._become(replace(self.life, due=now + pause_s + self._took_s))
        self._batcher.close(f"worker: {reason}; it is being restarted", self._refusal)
        self._log.error("worker_lost", reason=reason, restart=self.life.restarts, pause_s=pause_s)
        self._restart = asyncio.create_task(self._start_again(pause_s), name="worker-restart")

    def fail(self, reason: str) -> None:
        """Not ready from this moment; the reason stays readable until the process ends."""
        if self.life.state in (State.FAILED, State.STOPPED):
            return
        self._step(Event.FAIL, reason)
        self._end_restart()
        self._batcher.close(reason, self._refusal)
        self._log.error("failed", reason=reason)

    def drain(self) -> bool:
        """Not ready from this moment, still serving; False when there is nothing to finish."""
        if self.life.state not in (State.DRAINING, State.FAILED, State.STOPPED):
            self._step(Event.DRAIN)
            self._end_restart()
        return self.life.serves

    def give_up_waiting(self, reason: str) -> int:
        """Who still waits is refused with ``reason``, and so is who comes later. How many were waiting."""
        return self._batcher.close(reason, self._refusal)

    async def stop(self) -> None:
        """Ends the worker."""
        tasks = [task for task in (self._watch, self._restart) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self.life.state is not State.STOPPED:
            self._step(Event.STOP)
        self._batcher.close("server: stopped", self._refusal)
        await self._link.kill()

    async def _spawn(self) -> None:
        """Raises OSError."""
        self._heard.anew()
        self._failed_batches = 0
        await self._link.spawn(self._start, self.receive, self.lost)
        if self.life.state is State.STARTING:
            self._step(Event.SPAWNED)

    async def _start_again(self, pause_s: float) -> None:
        """The old worker is ended first: only one may have the device."""
        await self._link.kill()
        await asyncio.sleep(pause_s)
        try:
            await self._spawn()
        except OSError as error:
            self._restart = None
            self._replace(f"could not be started: {error}")
        except Exception as error:  # nobody awaits this task: what went wrong must show in the health answers
            self.fail(f"worker: {type(error).__name__}: {error}")
            raise
        else:
            self._restart = None

    def _end_restart(self) -> None:
        if self._restart is not None:
            self._restart.cancel()

    def _gave_up(self, reason: str) -> None:
        """What stopped the first load or warm-up stops it again. After it was ready once, a new process may help."""
        if self.life.was_ready:
            self._replace(reason)
        else:
            self.fail(reason)

    def _look_again(self) -> None:
        """A stuck worker said something: it may go on where it was."""
        if self._heard.goes_on(self.life):
            self._step(Event.RECOVERED)
            self._log.info("recovered", state=str(self.life.state))
            if self.life.ready:
                self._batcher.reopen()

    def _run_failed(self, event: RunFailed) -> None:
        self._log.error("batch_failed", number=event.number, error=event.error)
        landed = self._batcher.run_failed(event)
        self._tell_compiles(landed, event.compiles)
        if landed is not None and landed.first:
            self._log.error("shape_refused", bucket=str(landed.batch.bucket), error=event.error)
            return
        self._failed_batches += 1
        if self._failed_batches >= FAILED_BATCHES_LIMIT:
            self._replace(f"{self._failed_batches} batches in a row failed, the last one with {event.error}")

    def _tell_compiles(self, landed: Landed | None, compiles: int) -> None:
        if landed is not None and compiles:
            self._log.info(
                "compiled_on_request_path",
                bucket=str(landed.batch.bucket),
                compiles=compiles,
                seconds=round(landed.seconds, 3),
            )

    def _loaded(self, event: Loaded) -> None:
        facts = event.facts
        changed = [] if self.facts is None else differences(self.facts, facts)
        if changed:
            self.fail(f"model: {', '.join(changed)}: it changed while it was served, which needs a new server")
            return
        self.facts = facts
        self._on_facts(facts)
        if self.life.state is State.STARTING:
            self._step(Event.SPAWNED)
        self._step(Event.LOADED)
        if self.life.due is None and event.warm_up_s is not None:
            self._become(replace(self.life, due=self._heard.at + event.warm_up_s))
        self._log.info("loaded", revision=facts.revision, acceptance=facts.acceptance, emulated=facts.emulated)

    def _warmed(self) -> None:
        assert self.facts is not None, "the worker reports its facts before it warms"
        self._step(Event.WARMED)
        self._ready_at = self._heard.at
        self._took_s = self._heard.at - self._heard.spawned
        self._batcher.open(
            compiled=self.facts.compiled, exact=not self.facts.signature.takes_tokens, timings=self.life.warmed
        )
        self._log.info("ready", after_s=round(self._took_s, 3), summary=self.life.summary)

    def _refusal(self, reason: str) -> NotReady:
        return refusal(self.life, self._clock.monotonic(), reason)

    def _step(self, event: Event, reason: str = "") -> None:
        self._become(self.life.after(event, self._clock.monotonic(), reason=reason))

    def _become(self, life: Life) -> None:
        self.life = life
        self._telemetry.life_changed(life)

    async def _watch_worker(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            if self._newly_stalled() is None:
                continue
            await asyncio.sleep(READ_S)
            reason = self._newly_stalled()
            if reason is not None:
                self._stick(reason)

    def _stick(self, reason: str) -> None:
        """The worker stays as it is: it may come back, and a new process is the orchestrator's to start."""
        self._heard.owes()
        self._step(Event.STALLED, reason)
        self._batcher.close(reason, self._refusal)
        self._log.error("stuck", reason=reason)

    def _newly_stalled(self) -> str | None:
        return None if self.life.state is State.STUCK else self._heard.stalled(self.life)
