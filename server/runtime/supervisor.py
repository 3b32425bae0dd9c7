"""Owns the worker process and the server's life.

Every health answer is read from ``life``, which is a value in memory: a probe never waits for the device.
"""

import asyncio
from collections.abc import Callable

from server.core.lifecycle import SILENCE_LIMIT_S, Event, Life, State, silent_too_long
from server.core.types import EngineFacts
from server.ports.clock import Clock
from server.ports.telemetry import Log, Telemetry
from server.ports.worker import (
    Beat,
    BucketBegan,
    BucketWarm,
    Failed,
    Finished,
    Loaded,
    RunFailed,
    Start,
    Warmed,
    WorkerEvent,
    WorkerLink,
)
from server.runtime.batcher import Batcher, Landed

WATCH_S = 1.0
# After a stall of this process a timer may run before the words that wait in the socket are read.
READ_S = 0.1
BATCH_LIMIT_S = 60.0
# Of a shape that has not run yet: as long as a bucket may take in the warm-up.
FIRST_BATCH_LIMIT_S = SILENCE_LIMIT_S[State.WARMING]
# One request can fail its batch; a device that fails so many in a row answers nobody. Only shapes count that have run
# here: an undeclared one that fails at once says nothing about the device, and is not tried again.
FAILED_BATCHES_LIMIT = 5


class Supervisor:
    """Starts the worker, follows it, and closes the batcher the moment it is gone."""

    def __init__(
        self,
        start: Start,
        link: WorkerLink,
        batcher: Batcher,
        clock: Clock,
        telemetry: Telemetry,
        log: Log,
        on_facts: Callable[[EngineFacts], None],
    ) -> None:
        self._start = start
        self._link = link
        self._batcher = batcher
        self._clock = clock
        self._telemetry = telemetry
        self._log = log
        self._on_facts = on_facts
        self._heard = clock.monotonic()
        self._watch: asyncio.Task[None] | None = None
        self._failed_batches = 0
        self.life = Life(since=self._heard, buckets=len(start.buckets))
        self.facts: EngineFacts | None = None

    async def start(self) -> None:
        """Spawns the worker; the rest arrives as events."""
        self._telemetry.life_changed(self.life)
        self._heard = self._clock.monotonic()
        self._watch = asyncio.create_task(self._watch_silence(), name="worker-watch")
        try:
            await self._link.spawn(self._start, self.receive, self.lost)
        except OSError as error:
            self.fail(f"worker: could not be started: {error}")
            return
        if self.life.state is State.STARTING:
            self._step(Event.SPAWNED)

    def receive(self, event: WorkerEvent) -> None:
        """One word from the worker."""
        self._heard = self._clock.monotonic()
        match event:
            case Beat():
                pass
            case Finished():
                self._failed_batches = 0
                self._tell_compiles(self._batcher.finished(event), event.compiles)
            case RunFailed():
                self._run_failed(event)
            case Failed(reason):
                self.fail(reason)
            case _ if self.life.state not in (State.STARTING, State.LOADING, State.WARMING):
                pass  # Progress that was on its way when the server began to drain or failed.
            case Loaded(facts):
                self._loaded(facts)
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
        self.fail(f"worker: {reason}")

    def fail(self, reason: str) -> None:
        """Not ready from this moment; the reason stays readable until the process ends."""
        if self.life.state in (State.FAILED, State.STOPPED):
            return
        self._step(Event.FAIL, reason)
        self._batcher.close(reason)
        self._log.error("failed", reason=reason)

    def drain(self) -> bool:
        """Not ready from this moment, still serving; False when there is nothing to finish."""
        served = self.life.ready
        if self.life.state in (State.STARTING, State.LOADING, State.WARMING, State.READY):
            self._step(Event.DRAIN)
        return served

    def give_up_waiting(self, reason: str) -> int:
        """Who still waits is refused with ``reason``, and so is who comes later. How many were waiting."""
        return self._batcher.close(reason)

    async def stop(self) -> None:
        """Ends the worker."""
        if self._watch is not None:
            self._watch.cancel()
        if self.life.state is not State.STOPPED:
            self._step(Event.STOP)
        self._batcher.close("server: stopped")
        await self._link.kill()

    def _run_failed(self, event: RunFailed) -> None:
        self._log.error("batch_failed", number=event.number, error=event.error)
        landed = self._batcher.run_failed(event)
        self._tell_compiles(landed, event.compiles)
        if landed is not None and landed.first:
            self._log.error("shape_refused", bucket=str(landed.batch.bucket), error=event.error)
            return
        self._failed_batches += 1
        if self._failed_batches >= FAILED_BATCHES_LIMIT:
            self.fail(f"worker: {self._failed_batches} batches in a row failed, the last one with {event.error}")

    def _tell_compiles(self, landed: Landed | None, compiles: int) -> None:
        if landed is not None and compiles:
            self._log.info(
                "compiled_on_request_path",
                bucket=str(landed.batch.bucket),
                compiles=compiles,
                seconds=round(landed.seconds, 3),
            )

    def _loaded(self, facts: EngineFacts) -> None:
        self.facts = facts
        self._on_facts(facts)
        if self.life.state is State.STARTING:
            self._step(Event.SPAWNED)
        self._step(Event.LOADED)
        self._log.info("loaded", revision=facts.revision, acceptance=facts.acceptance, emulated=facts.emulated)

    def _warmed(self) -> None:
        assert self.facts is not None, "the worker reports its facts before it warms"
        self._step(Event.WARMED)
        self._batcher.open(self.facts.dim, compiled=self.facts.compiled)
        self._log.info("ready", after_s=round(self.life.ready_after_s or 0.0, 3), summary=self.life.summary)

    def _step(self, event: Event, reason: str = "") -> None:
        self._become(self.life.after(event, self._clock.monotonic(), reason=reason))

    def _become(self, life: Life) -> None:
        self.life = life
        self._telemetry.life_changed(life)

    async def _watch_silence(self) -> None:
        while True:
            await asyncio.sleep(WATCH_S)
            if self._given_up() is None:
                continue
            await asyncio.sleep(READ_S)
            reason = self._given_up()
            if reason is not None:
                self.fail(reason)
                await self._link.kill()

    def _given_up(self) -> str | None:
        """Why the worker counts as dead, if it does."""
        now = self._clock.monotonic()
        silent, running, compiling = now - self._heard, self._batcher.running_s(now), self._batcher.may_compile
        if silent_too_long(self.life, silent, compiling=compiling):
            return f"worker: nothing heard for {silent:.0f} s"
        if running > (FIRST_BATCH_LIMIT_S if compiling else BATCH_LIMIT_S):
            return f"worker: a batch has been on the device for {running:.0f} s"
        return None
