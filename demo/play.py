"""The play: start everything, warm up, open the run, break what the scenario breaks, wait for the verdict, clean up."""

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import msgspec

from demo import cache, documents, load_view, probes, sizing
from demo.decode import decode
from demo.documents import BASELINE, CANDIDATE
from demo.failures import DemoFailed
from demo.options import Options
from demo.processes import ChildDied, Crew
from demo.referee import FaultTimer, has_figures, outcome_of
from demo.result import Result, build
from demo.scenarios import Outcome
from demo.scene import Scene
from demo.view import View
from demo.weights import MODEL
from wire.admin import Ports, Status

_TICK_S: Final = 0.25
_START_LIMIT_S: Final = 30.0
_LOAD_LIMIT_S: Final = 60.0
_SETTLE_S: Final = 2.0  # traffic after the decision, so that clients are seen to be fine afterwards, too
_GRACE_S: Final = 12.0
_LOAD_GRACE_S: Final = 45.0
_FOLDER: Final = Path(__file__).resolve().parent.parent

Found = TypeVar("Found")


class Play:
    """One demo. ``run`` may be cancelled at any time; ``close`` leaves nothing running.

    ``work`` is an empty private folder for what the processes are told and tell.
    """

    def __init__(self, options: Options, weights: Path, view: View, *, work: Path) -> None:
        self._options = options
        self._weights = weights
        self._view = view
        self._zero = time.monotonic()
        self._work = work
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONUNBUFFERED": "1"}
        environment.pop("CANARY_ALLOW_EMULATOR", None)
        self._crew = Crew(options.results / "logs", folder=_FOLDER, environment=environment)
        self.scene = Scene(options.scenario)
        self._timer = FaultTimer(options.scenario)
        self._fault_began: float | None = None

    async def run(self) -> Result:
        """From nothing to the outcome. Raises DemoFailed and OSError."""
        async with probes.client() as http:
            proxy = await self._start_servers(http)
            self.scene.sizing = self._size(await self._bucket_shares())
            gateway, before = await self._start_gateway(http)
            await self._start_load(gateway, self.scene.sizing)
            opened = self._now()
            plan = documents.plan(limit_ms=self.scene.sizing.limit_ms, step_scale=self._options.step_scale)
            await gateway.start(plan, f"demo scenario {self._options.scenario.name}")
            outcome = await self._canary(gateway, proxy)
            decided = self._now()
            status = await self._settle(gateway)
            load = await self._stop_load()
            journal = await gateway.history()
        return build(
            scenario=self._options.scenario,
            outcome=outcome,
            status=status,
            arms=before.arms,
            load=load,
            sizing=self.scene.sizing,
            health=self.scene.health,
            journal=journal,
            step_scale=self._options.step_scale,
            fault_began=self._fault_began,
            canary_s=decided - opened,
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
        for arm in documents.ARMS:
            self._phase(f"{arm.role} warm-up")
            listening[arm.role] = await self._start_server(arm)
            await self._warm_up(arm.role, probes.Server(http, listening[arm.role].admin))
        proxy_file = self._work / "proxy.ports.json"
        upstream = f"127.0.0.1:{listening[CANDIDATE.role].data}"
        command = _python("demo.fault_proxy", "--upstream", upstream, "--ports-file", str(proxy_file))
        self._crew.start("fault-proxy", command)
        proxy = await self._listening("fault-proxy", proxy_file)
        self.scene.urls = {
            "baseline": f"http://127.0.0.1:{listening[BASELINE.role].data}",
            "candidate": f"http://127.0.0.1:{proxy.data} (through the fault proxy)",
        }
        self._candidate_url = f"http://127.0.0.1:{proxy.data}"
        return proxy

    async def _start_server(self, arm: documents.Arm) -> Ports:
        ports_file = self._work / f"{arm.role}.ports.json"
        document = documents.server(
            arm,
            weights=self._weights,
            cache_dir=self._options.cache_dir,
            ports_file=ports_file,
            access_log=self._options.results / "logs" / f"{arm.role}-access.log",
        )
        config = self._write(f"{arm.role}.yaml", document)
        allowed = {"CANARY_ALLOW_EMULATOR": "1"} if arm is CANDIDATE else {}
        self._crew.start(arm.role, _python("server", "--config", str(config)), environment=allowed)
        return await self._listening(arm.role, ports_file)

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

    async def _start_gateway(self, http: httpx.AsyncClient) -> tuple[probes.Gateway, Status]:
        """The gateway, and its status once both arms are ready and have said what they are."""
        self._phase("gateway")
        ports_file = self._work / "gateway.ports.json"
        state_dir = self._work / "state"
        state_dir.mkdir(mode=0o700)
        document = documents.gateway(
            baseline_url=self.scene.urls["baseline"],
            candidate_url=self._candidate_url,
            state_dir=state_dir,
            ports_file=ports_file,
            access_log=self._options.results / "logs" / "gateway-access.log",
        )
        self._crew.start("gateway", _python("gateway", "--config", str(self._write("gateway.yaml", document))))
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
        out = self._options.results / "load"
        words = ["run", "--host", gateway.data_url, "--rate", str(sized.rate), "--seconds", str(seconds)]
        words += ["--seed", str(self._options.seed), "--model", MODEL, "--out", str(out)]
        words += ["--reference", self.scene.urls["baseline"]]
        self._crew.start("load", _python("loadtest", *words))

        async def answered() -> bool | None:
            self.scene.load = load_view.read(out / "live.json")
            return True if self.scene.load is not None and self.scene.load.answered > 0 else None

        await self._until(answered, _LOAD_LIMIT_S, "the first answer to the load")

    async def _canary(self, gateway: probes.Gateway, proxy: Ports) -> Outcome:
        self._phase("canary")

        async def decided() -> Outcome | None:
            status = await self._look(gateway)
            if status is None or status.run is None:
                return None
            outcome = outcome_of(status)
            if outcome is None:
                await self._break_if_due(status.weight, status.run.live_candidate_requests, proxy)
            return outcome

        return await self._until(decided, self._options.limit_s, "an outcome")

    async def _break_if_due(self, weight: int, live: int, proxy: Ports) -> None:
        mode = self._timer.due(weight=weight, live=live, now=self._now())
        if mode is not None:
            await probes.switch_fault(proxy.admin, mode)
            # Stamped only now: a decision that the fault has caused cannot be older.
            self._fault_began, self.scene.fault_at = time.time(), self._now()

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
        self.scene.load = load_view.read(self._options.results / "load" / "live.json") or self.scene.load
        return status

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
        told = self._work / "mix.json"
        command = _python("loadtest", "mix", "--seed", str(self._options.seed), "--catalogue", documents.CATALOGUE)
        self._crew.start("mix", command, output=told, may_end=True)
        code = await self._ended("mix", _START_LIMIT_S)
        if code != 0:
            raise ChildDied("mix", code, self._crew.log("mix"))
        return decode(told.read_bytes(), dict[str, float], "the load generator's mix")

    def _size(self, shares: dict[str, float]) -> sizing.Sizing:
        health = {arm.name: self.scene.health[arm.role] for arm in documents.ARMS}
        try:
            return sizing.size(health, shares=shares, largest=documents.LARGEST)
        except ValueError as unmeasured:
            raise DemoFailed(f"limit and rate cannot be set: {unmeasured}") from unmeasured

    def _write(self, name: str, document: dict[str, Any]) -> Path:
        path = self._work / name
        path.write_bytes(msgspec.json.format(msgspec.json.encode(document)))
        return path

    def _phase(self, name: str) -> None:
        self.scene.phase = name
        self._draw()

    def _draw(self) -> None:
        self.scene.now = self._now()
        self._view.show(self.scene)

    def _now(self) -> float:
        return time.monotonic() - self._zero


def _python(module: str, *words: str) -> list[str]:
    return [sys.executable, "-m", module, *words]
