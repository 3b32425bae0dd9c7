"""The play: start everything, warm up, open the run, break what the scenario breaks, wait for the verdict, clean up."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import httpx

from demo import cache, documents, load_view, probes, sizing
from demo.cast import Cast
from demo.chart import Sample
from demo.decode import decode
from demo.failures import DemoFailed
from demo.options import Options
from demo.processes import ChildDied
from demo.referee import FaultTimer, has_figures, outcome_of
from demo.result import Result, build
from demo.scenarios import Outcome
from demo.scene import Scene
from demo.view import View
from demo.weights import Weights
from wire.admin import Ports, Status

_TICK_S: Final = 0.25
_SAMPLE_S: Final = 1.0
_START_LIMIT_S: Final = 30.0
_LOAD_LIMIT_S: Final = 60.0
_SETTLE_S: Final = 2.0  # traffic after the decision, so that clients are seen to be fine afterwards, too
_GRACE_S: Final = 12.0
_LOAD_GRACE_S: Final = 45.0

Found = TypeVar("Found")


class Play:
    """One demo. ``run`` may be cancelled at any time; ``close`` leaves nothing running.

    ``work`` is an empty private folder for what the processes are told and tell.
    """

    def __init__(self, options: Options, weights: Weights, view: View, *, work: Path) -> None:
        self._options = options
        self._view = view
        self._zero = time.monotonic()
        self._cast = Cast(options, weights, work=work)
        self._crew = self._cast.crew
        self.scene = Scene(options.scenario, options.arms, turn=options.turn)
        self._timer = FaultTimer(options.scenario)
        self._fault_began: float | None = None
        self._opened = 0.0
        self._series: list[Sample] = []

    async def run(self) -> Result:
        """From nothing to the outcome. Raises DemoFailed and OSError."""
        async with probes.client() as http:
            proxy = await self._start_servers(http)
            self.scene.sizing = self._size(await self._bucket_shares())
            gateway, before = await self._start_gateway(http, self.scene.sizing)
            await self._start_load(gateway, self.scene.sizing)
            await self._open_run(gateway, self.scene.sizing)
            outcome = await self._canary(gateway, proxy, self.scene.sizing)
            decided, decided_at = self._now(), time.time()
            status = await self._settle(gateway)
            struck = await self._struck(proxy, self.scene.sizing)
            load = await self._stop_load()
            explanation = await gateway.explain()
            journal = await gateway.history()
        return build(
            scenario=self._options.scenario,
            outcome=outcome,
            status=status,
            cast=self._options.arms,
            arms=before.arms,
            load=load,
            sizing=self.scene.sizing,
            health=self.scene.health,
            journal=journal,
            explanation=explanation,
            series=self._series,
            step_scale=self._options.step_scale,
            fault_began=load.switched_at if self._options.scenario.fault == "traffic" else self._fault_began,
            fault_struck=struck,
            decided_at=decided_at,
            fault_at_s=None if self.scene.fault_at is None else self.scene.fault_at - self._opened,
            canary_s=decided - self._opened,
            duration_s=self._now(),
        )

    def close(self) -> None:
        """Stop every process. Bounded; may be called in any state."""
        self._crew.stop_all(grace_s=_GRACE_S)

    async def _start_servers(self, http: httpx.AsyncClient) -> Ports:
        """Both servers warm, one after the other: limit and rate follow from medians that nobody else disturbed."""
        self._phase("starting")
        cache.prepare(self._options.cache_dir, cold=self._options.cold)
        listening = {}
        for arm in self._options.arms.both:
            self._phase(f"{arm.role} warm-up")
            listening[arm.role] = await self._listening(arm.role, self._cast.server(arm))
            await self._warm_up(arm.role, probes.Server(http, listening[arm.role].admin))
        proxy = await self._listening("fault-proxy", self._cast.proxy(port=listening["candidate"].data))
        self._baseline_url, self._candidate_url = (
            f"http://127.0.0.1:{port}" for port in (listening["baseline"].data, proxy.data)
        )
        self.scene.urls = {
            "baseline": self._baseline_url,
            "candidate": f"{self._candidate_url} (through the fault proxy)",
        }
        return proxy

    async def _warm_up(self, role: str, server: probes.Server) -> None:
        async def ready() -> bool | None:
            body = await server.health()
            if body is None:
                return None
            self.scene.health[role] = body
            if body.state == "failed":
                raise DemoFailed(f"the {role} server failed: {body.detail} (log: {role}.log)")
            return True if body.state == "ready" else None

        await self._until(ready, self._options.warm_up_limit_s, f"the {role} server to be warm")

    async def _start_gateway(self, http: httpx.AsyncClient, sized: sizing.Sizing) -> tuple[probes.Gateway, Status]:
        """The gateway, and its status once both arms are ready and have said what they are."""
        self._phase("gateway")
        ports_file = self._cast.gateway(baseline_url=self._baseline_url, candidate_url=self._candidate_url, sized=sized)
        gateway = probes.Gateway(http, await self._listening("gateway", ports_file))
        self.scene.urls |= {"gateway": gateway.data_url, "gateway admin": f"{gateway.url}/v1/status"}

        async def both_ready() -> Status | None:
            status = await gateway.status() if await gateway.ready() else None
            known = status is not None and all(arm.ready and arm.emulated is not None for arm in status.arms)
            return status if known else None

        return gateway, await self._until(both_ready, _START_LIMIT_S, "the gateway to know both arms")

    async def _start_load(self, gateway: probes.Gateway, sized: sizing.Sizing) -> None:
        self._phase("load")
        seconds = self._options.limit_s + _LOAD_LIMIT_S
        out = self._cast.load(host=gateway.data_url, reference=self._baseline_url, rate=sized.rate, seconds=seconds)

        async def answered() -> bool | None:
            self.scene.load = load_view.read(out / "live.json")
            return True if self.scene.load is not None and self.scene.load.answered > 0 else None

        await self._until(answered, _LOAD_LIMIT_S, "the first answer to the load")

    async def _open_run(self, gateway: probes.Gateway, sized: sizing.Sizing) -> None:
        scenario = self._options.scenario
        scale = self._options.step_scale
        plan = documents.plan(self._options.arms, scenario, limit_ms=sized.limit_ms, step_scale=scale)
        self._opened = self._now()
        await gateway.start(plan, f"demo scenario {scenario.name}")

    async def _canary(self, gateway: probes.Gateway, proxy: Ports, sized: sizing.Sizing) -> Outcome:
        self._phase("canary")

        async def decided() -> Outcome | None:
            status = await self._look(gateway)
            if status is None or status.run is None:
                return None
            outcome = outcome_of(status)
            live = status.run.live_candidate_requests
            if outcome is None and self._timer.is_due(weight=status.weight, live=live, now=self._now()):
                await self._break(proxy, sized)
            return outcome

        return await self._until(decided, self._options.limit_s, "an outcome")

    async def _break(self, proxy: Ports, sized: sizing.Sizing) -> None:
        """The scenario's fault begins: the proxy misbehaves, or clients begin to send something else."""
        mode = self._options.scenario.mode(limit_ms=sized.limit_ms)
        if mode is None:
            self._cast.new_traffic.touch()
        else:
            await probes.switch_fault(proxy.admin, mode)
        # Stamped only now: a decision that the fault has caused cannot be older.
        self._fault_began, self.scene.fault_at = time.time(), self._now()

    async def _struck(self, proxy: Ports, sized: sizing.Sizing) -> int:
        """How often the fault has met somebody: the proxy counts what it did, the load generator what it changed."""
        mode = self._options.scenario.mode(limit_ms=sized.limit_ms)
        if mode is not None:
            return (await probes.fault_counts(proxy.admin)).struck(mode)
        return int(self.scene.load is not None and self.scene.load.switched_at is not None)

    async def _settle(self, gateway: probes.Gateway) -> Status:
        """The status of the decision, complete with its figures, once clients were served a while longer."""
        self._phase("decided")
        deadline = self._now() + _SETTLE_S

        async def complete() -> Status | None:
            status = await self._look(gateway)
            return status if status is not None and has_figures(status) else None

        async def served() -> bool | None:
            await self._look(gateway)
            return True if self._now() >= deadline else None

        status = await self._until(complete, _START_LIMIT_S, "the workers to acknowledge")
        await self._until(served, _START_LIMIT_S, "the clients to be served on")
        return status

    async def _stop_load(self) -> load_view.Load:
        self._phase("stopping load")
        self._crew.ask_to_end("load")
        await self._ended("load", _LOAD_GRACE_S)
        load = load_view.read(self._options.results / "load" / "stats.json")
        if load is None:
            raise DemoFailed("the load generator left no statistics (log: load.log)")
        self.scene.load = load
        return load

    async def _look(self, gateway: probes.Gateway) -> Status | None:
        status = await gateway.status()
        self.scene.status = status or self.scene.status
        if status is not None and status.run is not None:
            self._sample(status)
        self.scene.load = load_view.read(self._options.results / "load" / "live.json") or self.scene.load
        return status

    def _sample(self, status: Status) -> None:
        at = self._now() - self._opened
        if self._series and at - self._series[-1].at < _SAMPLE_S:
            return
        p95 = {arm.role: arm.recent.p95 for arm in status.arms}
        self._series.append(
            Sample(
                at=round(at, 1),
                weight=status.weight / 100,
                baseline_p95_ms=p95.get("baseline"),
                candidate_p95_ms=p95.get("candidate"),
            )
        )

    async def _listening(self, name: str, ports_file: Path) -> Ports:
        async def ports() -> Ports | None:
            return probes.read_ports(ports_file)

        return await self._until(ports, _START_LIMIT_S, f"{name} to listen")

    async def _ended(self, name: str, limit_s: float) -> int:
        async def code() -> int | None:
            return self._crew.ended(name)

        return await self._until(code, limit_s, f"{name} to end")

    async def _until(self, look: Callable[[], Awaitable[Found | None]], limit_s: float, what: str) -> Found:
        """Look at every tick until there is something. Raises DemoFailed after ``limit_s``, ChildDied at once."""
        deadline = self._now() + limit_s
        while True:
            self._crew.check()
            found = await look()
            self._draw()
            if found is not None:
                return found
            if self._now() > deadline:
                raise DemoFailed(f"waited {limit_s:.0f} s for {what}")
            await asyncio.sleep(_TICK_S)

    async def _bucket_shares(self) -> dict[str, float]:
        """What the load generator will send, by bucket. Raises ChildDied when it cannot tell."""
        self._phase("sizing")
        told = self._cast.mix()
        code = await self._ended("mix", _START_LIMIT_S)
        if code != 0:
            raise ChildDied("mix", code, self._crew.log("mix"))
        return decode(told.read_bytes(), dict[str, float], "the load generator's mix")

    def _size(self, shares: dict[str, float]) -> sizing.Sizing:
        both = self._options.arms.both
        health = {arm.name: self.scene.health[arm.role] for arm in both}
        try:
            largest = {arm.name: documents.largest(arm, self._options.scenario) for arm in both}
            sized = sizing.size(health, shares=shares, largest=largest)
            self._options.scenario.mode(limit_ms=sized.limit_ms)
        except ValueError as unusable:
            raise DemoFailed(f"limit, rate or fault cannot be set: {unusable}") from unusable
        return sized

    def _phase(self, name: str) -> None:
        self.scene.phase = name
        self._draw()

    def _draw(self) -> None:
        self.scene.now = self._now()
        self._view.show(self.scene)

    def _now(self) -> float:
        return time.monotonic() - self._zero
