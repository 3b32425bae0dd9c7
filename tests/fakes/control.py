"""A control process without processes: conductor, analyst, replica, one obedient worker, a clock that waits."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fakes.gateway import FakeClock, FakeStore, FakeWorker, arm

from gateway.core.plan import MetricId, MetricLimit, Plan, RuleParameters
from gateway.core.snapshot import Ack, Pair, Report, Snapshot, ToWorker, WindowCounts
from gateway.core.types import Count, Lane, Role, empty_tally, window_of
from gateway.ports import ArmHealth, StoreUnavailable
from gateway.runtime.analyst import Analyst
from gateway.runtime.conductor import Conductor, initial_snapshot
from gateway.runtime.pairs import Found
from gateway.runtime.replica import Replica

PLAN = Plan(
    rollout="demo",
    steps=(1000, 10_000),
    metrics=(MetricLimit(metric=MetricId.ERROR, allowed=0.05),),
    copies=0,
    min_step_s=15,
    max_step_s=60,
    min_events=80,
    min_windows=12,
    bake_s=15,
    control_at_full=False,
    rule=RuleParameters(window_s=1.0),
    declared_differences=("dtype",),
)
SAME = {"revision": "r", "tokenizer": "t", "truncation": "none", "output": "o"}
READY_B = ArmHealth(ready=True, detail="ready", identity={**SAME, "dtype": "float32", "identity_digest": "1"})
READY_C = ArmHealth(ready=True, detail="ready", identity={**SAME, "dtype": "bfloat16", "identity_digest": "2"})


@dataclass
class ObedientWorker(FakeWorker):
    """Acknowledges each snapshot at once, unless ``deaf``."""

    replica: Replica | None = None
    deaf: bool = False

    def send(self, message: ToWorker) -> None:
        super().send(message)
        if isinstance(message, Snapshot) and self.replica is not None and not self.deaf:
            self.replica.acknowledge(Ack(name=self.name, version=message.version, epoch=message.epoch, written=0))


@dataclass
class Stage:
    clock: FakeClock
    store: FakeStore
    worker: ObedientWorker
    replica: Replica
    analyst: Analyst
    conductor: Conductor

    def traffic(self, *, ok: int = 20, failed: int = 0) -> None:
        """One second of requests on both arms, of which ``failed`` candidate ones failed."""
        self.clock.advance(1.0)
        now = self.clock.wall()
        window = window_of(now, 1.0) - 1
        rows = []
        for role, bad in ((Role.BASELINE, 0), (Role.CANDIDATE, failed)):
            tally = empty_tally()
            tally[Count.OK], tally[Count.FAILED] = ok - bad, bad
            rows.append(WindowCounts(window=window, role=role, lane=Lane.LIVE, tally=tally))
        report = Report(
            name="w0", version=1, epoch=self.conductor.rollout.epoch, at=now, windows=rows, latencies=[],
            open_since=None, breaker=(0.0, 0.0), seconds=[(ok, 0, ok, failed)], tripped=False,
            recent_failovers=failed, in_flight=(0, 0), connections=(0, 0),
        )  # fmt: skip
        self.replica.heard(report)
        self.analyst.report(report)


def no_compare(pair: Pair, plan: Plan, found: Callable[[Found], None]) -> bool:
    found(None)
    return True


def stage(store: FakeStore | None = None, now: float = 1000.0) -> Stage:
    clock, store = FakeClock(now), store or FakeStore()
    runs = itertools.count(1 + len({line.run_id for line in store.lines}))
    arms = {Role.BASELINE: arm(Role.BASELINE, "gpu"), Role.CANDIDATE: arm(Role.CANDIDATE, "tpu")}
    replica = Replica(clock, initial_snapshot(arms, model="m", key_header=None, secret=b"s"))
    analyst = Analyst(no_compare, epoch=0, answer_timeout_s=10.0, now=clock.wall())
    conductor = Conductor(
        clock=clock, store=store, evidence=store, replica=replica, analyst=analyst, arms=arms,
        new_run_id=lambda: f"run{next(runs)}", secret_of=lambda run_id: run_id.encode().ljust(16, b"."),
    )  # fmt: skip
    worker = ObedientWorker("w0", replica=replica)
    replica.attach(worker, 1)
    analyst.attach("w0")
    return Stage(clock, store, worker, replica, analyst, conductor)


def play(scenario: Callable[[Stage], Awaitable[Any]], store: FakeStore | None = None, now: float = 1000.0) -> Stage:
    """Runs a scenario on a restored stage and returns the stage."""

    async def run() -> Stage:
        s = stage(store, now)
        await s.conductor.restore()
        await scenario(s)
        return s

    return asyncio.run(run())


async def tick(s: Stage) -> None:
    """One tick of the control loop and all that it began, as far as the store allows."""
    s.conductor.tick()
    await s.conductor.settled()
    try:
        await s.conductor.ledger.settle(1.0)
    except StoreUnavailable:
        pass


async def started(s: Stage) -> None:
    """A run that has passed validation."""
    await s.conductor.start(PLAN, "digest", who="me", reason="go")
    s.conductor.arm_health("gpu", READY_B)
    s.conductor.arm_health("tpu", READY_C)
    await tick(s)


async def seconds(s: Stage, n: int, **traffic: int) -> None:
    for _ in range(n):
        s.traffic(**traffic)
        await tick(s)
