"""The play: start everything, warm up, open the run, break what the scenario breaks, wait for the verdict, clean up."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import msgspec

from demo import cache, documents, load_view, probes, sizing
from demo.documents import BASELINE, CANDIDATE
from demo.options import Options
from demo.processes import Crew
from demo.referee import FaultTimer, outcome_of
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


class DemoFailed(Exception):
    """The demo could not come to an outcome. The text says where and why."""


class Play:
    """One demo. ``run`` may be cancelled at any time; ``close`` leaves nothing behind."""

    def __init__(self, options: Options, weights: Path, view: View) -> None:
        self._options = options
        self._weights = weights
        self._view = view
        self._zero = time.monotonic()
        self._work = Path(tempfile.mkdtemp(prefix="canary-demo-"))
        environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PYTHONUNBUFFERED": "1"}
        environment.pop("CANARY_ALLOW_EMULATOR", None)
        self._crew = Crew(options.results / "logs", folder=_FOLDER, environment=environment)
        self.scene = Scene(options.scenario)
        self._timer = FaultTimer(options.scenario)
        # The last status with figures, and the most live requests: a gateway drops them when judging ends.
        self._judged: Status | None = None
        self._live = 0

    async def run(self) -> Result:
        """From nothing to the outcome. Raises DemoFailed, ChildDied, CommandFailed."""
        async with probes.client() as http:
            proxy = await self._start_servers(http)
            self.scene.sizing = self._size(self._bucket_shares())
            gateway = await self._start_gateway(http)
            await self._start_load(gateway, self.scene.sizing)
            opened = self._now()
            plan = documents.plan(limit_ms=self.scene.sizing.limit_ms, step_scale=self._options.step_scale)
            await gateway.start(plan, f"demo scenario {self._options.scenario.name}")
            outcome, decided = await self._canary(gateway, proxy)
            status = await self._settle(gateway)
            load = self._stop_load()
            journal = await gateway.history()
        fault_s = None
        if self._timer.begun_at is not None and outcome == "ROLLED_BACK":
            fault_s = round(decided - self._timer.begun_at, 2)
        return build(
            scenario=self._options.scenario,
            outcome=outcome,
            status=status,
            judged=self._judged or status,
            live_candidate_requests=self._live,
            load=load,
            sizing=self.scene.sizing,
            health=self.scene.health,
            journal=journal,
            step_scale=self._options.step_scale,
            fault_to_decision_s=fault_s,
            canary_s=decided - opened,
            duration_s=self._now(),
        )

    def close(self) -> None:
        """Stop every process, remove the temporary folder. Bounded; may be called in any state."""
        try:
            self._crew.stop_all(grace_s=_GRACE_S)
        finally:
            shutil.rmtree(self._work, ignore_errors=True)

    async def _start_servers(self, http: httpx.AsyncClient) -> Ports:
        """Both servers warm, one after the other: limit and rate follow from medians that nobody else disturbed."""
        self._phase("starting")
        cache.prepare(self._options.cache_dir, cold=self._options.cold)
        listening = {}
        for arm in documents.ARMS:
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
        self._crew.start(arm.role, _python("server", "--config", str(config)), **allowed)
        return await self._listening(arm.role, ports_file)

    async def _warm_up(self, role: str, server: probes.Server) -> None:
        self._phase("warm-up")

        async def ready() -> bool | None:
            body = await server.health()
            if body is None:
                return None
            self.scene.health[role] = body
            if body.state == "failed":
                raise DemoFailed(f"the {role} server failed: {body.detail} (log: {role}.log)")
            return True if body.state == "ready" else None

        await self._until(ready, self._options.warm_up_limit_s, f"the {role} server to be warm")

    async def _start_gateway(self, http: httpx.AsyncClient) -> probes.Gateway:
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

        async def both_ready() -> bool | None:
            status = await gateway.status() if await gateway.ready() else None
            return True if status is not None and all(arm.ready for arm in status.arms) else None

        await self._until(both_ready, _START_LIMIT_S, "the gateway to see both arms ready")
        return gateway

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

    async def _canary(self, gateway: probes.Gateway, proxy: Ports) -> tuple[Outcome, float]:
        self._phase("canary")

        async def decided() -> Outcome | None:
            status = await gateway.status()
            if status is None:
                return None
            self._look(status)
            mode = self._timer.due(status.weight, self._now())
            if mode is not None:
                await probes.switch_fault(proxy.admin, mode)
                self.scene.fault_at = self._timer.begun_at
            return outcome_of(status)

        outcome: Outcome = await self._until(decided, self._options.limit_s, "an outcome")
        return outcome, self._now()

    async def _settle(self, gateway: probes.Gateway) -> Status:
        """The last status, once every worker has acknowledged a rollback and clients were served a while longer."""
        self._phase("decided")
        deadline = self._now() + _SETTLE_S

        async def settled() -> Status | None:
            status = await gateway.status()
            if status is None:
                return None
            self._look(status)
            run = status.run
            pending = run is not None and run.outcome == "ROLLED_BACK" and run.time_to_zero_ms is None
            return status if not pending and self._now() >= deadline else None

        return await self._until(settled, _START_LIMIT_S, "the workers to acknowledge")

    def _stop_load(self) -> load_view.Load:
        self._phase("stopping load")
        self._crew.stop("load", grace_s=_LOAD_GRACE_S)
        load = load_view.read(self._options.results / "load" / "stats.json")
        if load is None:
            raise DemoFailed("the load generator left no statistics (log: load.log)")
        self.scene.load = load
        return load

    def _look(self, status: Status) -> None:
        self.scene.status = status
        if status.verdict is not None and status.verdict.metrics:
            self._judged = status
        if status.run is not None:
            self._live = max(self._live, status.run.live_candidate_requests)
        self.scene.load = load_view.read(self._options.results / "load" / "live.json") or self.scene.load

    async def _listening(self, name: str, ports_file: Path) -> Ports:
        async def ports() -> Ports | None:
            return probes.read_ports(ports_file)

        return await self._until(ports, _START_LIMIT_S, f"{name} to listen")

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

    def _bucket_shares(self) -> dict[str, float]:
        command = _python("loadtest", "mix", "--seed", str(self._options.seed), "--catalogue", documents.CATALOGUE)
        done = subprocess.run(command, cwd=_FOLDER, capture_output=True, timeout=_START_LIMIT_S)
        if done.returncode != 0:
            raise DemoFailed(f"the load generator cannot tell its mix: {done.stderr.decode('utf-8', 'replace')}")
        return msgspec.json.decode(done.stdout, type=dict[str, float])

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
