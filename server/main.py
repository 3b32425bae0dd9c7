"""The composition root: the whole object graph, and the order in which it starts and ends."""

import asyncio
import gc
import importlib.metadata
import os
import secrets
import signal
import socket
from pathlib import Path

import msgspec
import uvloop

from server.adapters.access_log import AccessLogFile
from server.adapters.asgi.admin import AdminView, admin_app
from server.adapters.asgi.data import DataApp
from server.adapters.asgi.exchange import Exchange
from server.adapters.asgi.health import Served, health_body, identity_of
from server.adapters.asgi.hosts import HostGuard
from server.adapters.asgi.listen import UvicornListener, bind
from server.adapters.asgi.view import DataView
from server.adapters.clock import SystemClock
from server.adapters.log import JsonLog
from server.adapters.profile_folder import ProfileFolder
from server.adapters.prom import PromTelemetry
from server.adapters.statistics import Statistics
from server.adapters.tokenizer import FolderTokenizer, TokenizerFailed
from server.adapters.worker.link import ProcessLink
from server.config import TEXT_FORMATS, Settings
from server.core.catalog import Catalogue
from server.core.lifecycle import State
from server.core.restart import RestartRule
from server.core.types import EngineFacts
from server.core.warmup import StabilityRule
from server.core.watch import StuckRule
from server.ports.tracer import Tracer
from server.ports.worker import Lenient, Start
from server.runtime.batcher import Batcher
from server.runtime.drain import DrainRule, drain
from server.runtime.last_call import LastCall
from server.runtime.predict import Predictor
from server.runtime.profile import ProfileWindows
from server.runtime.supervisor import Rules, Supervisor
from wire.admin import Ports
from wire.health import Identity
from wire.metrics import SECONDS_EDGES

# How long an open connection may still bring a request after the data port was closed.
LINGER_S = 0.5
# For the spans that are left at the end; a collector that is gone holds nobody longer.
LAST_SPANS_S = 1.0
# Together below the 1,024 open files that a process usually has.
DATA_CONNECTIONS = 768
ADMIN_CONNECTIONS = 64


def run(settings: Settings, *, emulator_allowed: bool) -> int:
    """Serves until a signal. 0: drained; 1: the server had failed, a port or file could not be opened, or the drain
    cut off requests or lost the worker.
    """
    run_id = secrets.token_hex(6)
    log = JsonLog(SystemClock().wall, run_id)
    log.know(model=settings.model.name, device=settings.device, dtype=settings.dtype)
    log.take_over()
    opened = []
    for field, section in (("listen", settings.listen), ("admin", settings.admin)):
        try:
            opened.append(bind(section.host, section.port))
        except OSError as error:
            log.error("port", detail=f"{field}: got {section.host}:{section.port}, cannot be opened: {error}")
            return 1
    data, admin = opened
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(Server(settings, run_id, log, data, admin, emulator_allowed=emulator_allowed).serve())


class Server:
    """Every object of the front process."""

    def __init__(
        self,
        settings: Settings,
        run_id: str,
        log: JsonLog,
        data: socket.socket,
        admin: socket.socket,
        *,
        emulator_allowed: bool,
    ) -> None:
        self._settings = settings
        self._log = log
        self._clock = SystemClock()
        self._telemetry = PromTelemetry(settings.queue.max_rows, settings.metrics.edges_s or SECONDS_EDGES)
        statistics = Statistics(self._telemetry, self._clock)
        self._identity: Identity | None = None
        self._digest = ""
        catalogue = settings.shapes()
        self._served = Served(
            model=settings.model.name,
            device=settings.device,
            dtype=settings.dtype,
            matmul_precision=settings.matmul_precision,
            catalogue=str(catalogue),
            strict=settings.strict,
        )
        self._access_log = AccessLogFile(settings.access_log, log)
        self._tokenizer = FolderTokenizer(settings.model.path, optional=settings.model.format not in TEXT_FORMATS)
        self._link = ProcessLink(log)
        self._batcher = Batcher(
            catalogue,
            settings.queue.max_rows,
            self._link.run,
            self._clock,
            statistics,
            max_wait_s=settings.queue.max_wait_ms / 1000,
        )
        profiles = self._profiles_of(run_id)
        self._supervisor = Supervisor(
            start_command(settings, catalogue, emulator_allowed=emulator_allowed),
            self._link if profiles is None else profiles,
            self._batcher,
            self._clock,
            statistics,
            log,
            self._take_facts,
            rules_of(settings),
        )
        predictor = Predictor(
            settings.model.name,
            lambda: self._supervisor.life,
            lambda: self._supervisor.facts,
            catalogue,
            self._tokenizer,
            self._batcher,
            self._clock,
            max_rows=settings.queue.max_rows,
        )
        self._tracer = self._tracer_of(run_id, data.getsockname()[1])
        self._bodies = LastCall()
        exchange = Exchange(
            lambda: self._digest,
            self._clock,
            statistics,
            self._access_log,
            log,
            max_body=settings.listen.max_body,
            last_call=self._bodies,
            tracer=self._tracer,
        )
        self._data = UvicornListener(
            DataApp(
                DataView(
                    model=settings.model.name,
                    version=_version(),
                    life=lambda: self._supervisor.life,
                    facts=lambda: self._supervisor.facts,
                    identity=lambda: self._identity,
                    predictor=predictor,
                    exchange=exchange,
                    statistics=statistics.of,
                    may_shorten=settings.model.shorten,
                )
            ),
            data,
            max_connections=DATA_CONNECTIONS,
            max_body=settings.listen.max_body,
            linger_s=LINGER_S,
        )
        health_port = admin_app(
            AdminView(
                life=lambda: self._supervisor.life,
                health=lambda: health_body(
                    self._supervisor.life, self._supervisor.facts, self._clock.monotonic(), run_id
                ),
                metrics=self._telemetry.exposition,
                metrics_type=self._telemetry.content_type,
                record=None if profiles is None else profiles.record,
            )
        )
        self._admin = UvicornListener(
            HostGuard(health_port, [settings.admin.host]), admin, max_connections=ADMIN_CONNECTIONS
        )

    async def serve(self) -> int:
        """Listens before the model loads; ends after the first signal."""
        stop, hurry = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _on_signal, stop, hurry)
        try:
            self._access_log.open()
        except OSError as error:
            self._log.error("access_log", detail=f"access_log: cannot be opened: {error}")
            return 1
        # Parsing holds the interpreter's lock for tens of milliseconds: before anybody asks, not while they do.
        unusable = self._load_tokenizer()
        # What is there by now stays; the collector need not go through it again and again.
        gc.collect()
        gc.freeze()
        listening = [await self._data.start(), await self._admin.start()]
        ports = Ports(data=self._data.port, admin=self._admin.port, pid=os.getpid())
        if self._settings.ports_file is not None:
            try:
                write_ports(self._settings.ports_file, ports)
            except OSError as error:
                self._log.error("ports_file", detail=f"ports_file: cannot be written: {error}")
                return 1
        self._log.info("listening", data=ports.data, admin=ports.admin, pid=ports.pid, device=self._settings.device)
        loading = asyncio.create_task(self._load(unusable), name="load")
        stopped = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait({stopped, *listening}, return_when=asyncio.FIRST_COMPLETED)
        failed = self._supervisor.life.state in (State.FAILED, State.STUCK) or not stop.is_set()
        loading.cancel()
        stopped.cancel()
        settings = self._settings.drain
        kept = await drain(
            self._supervisor,
            self._data,
            self._admin,
            DrainRule(settings.delay_s, settings.limit_s),
            hurry,
            self._log,
            self._bodies,
        )
        self._tokenizer.close()
        self._access_log.close()
        if self._tracer is not None:
            self._tracer.close(LAST_SPANS_S)
        return 1 if failed or not kept else 0

    def _profiles_of(self, run_id: str) -> ProfileWindows | None:
        if self._settings.profiler is None:
            return None
        folder = ProfileFolder(self._settings.profiler.folder, run_id, self._clock)
        return ProfileWindows(self._link, lambda: self._supervisor.life, folder.next_file)

    def _tracer_of(self, run_id: str, port: int) -> Tracer | None:
        """The SDK is imported where it is used, and nowhere else."""
        settings = self._settings
        if settings.tracing is None:
            return None
        from server.adapters.otel import OtelTracer

        service = {
            "service.name": "canary-server",
            "service.version": _version(),
            "service.instance.id": run_id,
            "canary.model": settings.model.name,
            "canary.device": settings.device,
            "canary.dtype": settings.dtype,
        }
        return OtelTracer(
            settings.tracing.endpoint,
            settings.tracing.ratio,
            service,
            (settings.listen.host, port),
            self._clock,
            self._log,
            self._telemetry.spans_lost,
        )

    def _load_tokenizer(self) -> str | None:
        try:
            self._tokenizer.load()
        except TokenizerFailed as error:
            return str(error)
        return None

    async def _load(self, unusable: str | None) -> None:
        if unusable is not None:
            self._supervisor.fail(unusable)
            return
        try:
            await self._supervisor.start()
        except Exception as error:  # nobody awaits this task: what went wrong must show in the health answers
            self._supervisor.fail(f"worker: {type(error).__name__}: {error}")
            raise

    def _take_facts(self, facts: EngineFacts) -> None:
        self._identity = identity_of(self._served, facts, self._tokenizer.digest)
        self._digest = self._identity.digest()
        self._telemetry.set_identity(self._identity)
        known = msgspec.to_builtins(self._identity)
        self._log.know(**{name: known[name] for name in ("revision", "torch", "torch_tpu", "libtpu", "topology")})
        self._log.info("identity", digest=self._digest, **known)


def rules_of(settings: Settings) -> Rules:
    """When the worker counts as stuck, and how often it is started again."""
    stuck, restart = settings.stuck, settings.restart
    return Rules(
        StuckRule(stuck.times, stuck.floor_s, settings.warm_up.limit_s),
        RestartRule(restart.limit, restart.back_off_s, restart.steady_s),
    )


def start_command(settings: Settings, catalogue: Catalogue, *, emulator_allowed: bool) -> Start:
    """The worker's first command, from the settings."""
    rule = settings.warm_up
    return Start(
        model_path=str(settings.model.path),
        sha256=settings.model.sha256,
        device=settings.device,
        emulator_allowed=emulator_allowed,
        dtype=settings.dtype,
        matmul_precision=settings.matmul_precision,
        compile=settings.compile,
        threads=settings.threads,
        buckets=catalogue.buckets(),
        stability=StabilityRule(rule.stable_change, rule.min_calls, rule.max_calls),
        cache_dir=str(settings.cache_dir),
        front_pid=os.getpid(),
        lenient=None if catalogue.largest is None else Lenient(catalogue.largest, catalogue.programs),
        parallel=rule.parallel,
        model_format=settings.model.format,
        factory=settings.model.factory,
        dimensions=catalogue.names,
        profile=settings.profiler is not None,
    )


def write_ports(path: Path, ports: Ports) -> None:
    """Atomically: whoever sees the file sees all of it."""
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(msgspec.json.encode(ports))
    partial.replace(path)


def _on_signal(stop: asyncio.Event, hurry: asyncio.Event) -> None:
    """The first signal drains, the second one does not wait."""
    if stop.is_set():
        hurry.set()
    stop.set()


def _version() -> str:
    try:
        return importlib.metadata.version("tpu-canary")
    except importlib.metadata.PackageNotFoundError:
        return "0+source"
