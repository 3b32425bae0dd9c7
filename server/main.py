"""The composition root: the whole object graph, and the order in which it starts and ends."""

import asyncio
import importlib.metadata
import os
import signal
import socket
from pathlib import Path

import msgspec
import uvloop

from server.adapters.access_log import AccessLogFile
from server.adapters.asgi.admin import AdminView, admin_app
from server.adapters.asgi.data import data_app
from server.adapters.asgi.exchange import Exchange
from server.adapters.asgi.health import Served, health_body, identity_of
from server.adapters.asgi.hosts import HostGuard
from server.adapters.asgi.listen import UvicornListener, bind
from server.adapters.asgi.view import DataView
from server.adapters.clock import SystemClock
from server.adapters.log import JsonLog
from server.adapters.prom import PromTelemetry
from server.adapters.statistics import Statistics
from server.adapters.tokenizer import FolderTokenizer, TokenizerFailed
from server.adapters.worker.link import ProcessLink
from server.config import Settings
from server.core.catalog import Catalogue
from server.core.lifecycle import State
from server.core.restart import RestartRule
from server.core.types import EngineFacts
from server.core.warmup import StabilityRule
from server.core.watch import StuckRule
from server.ports.worker import Lenient, Start
from server.runtime.batcher import Batcher
from server.runtime.drain import DrainRule, drain
from server.runtime.last_call import LastCall
from server.runtime.predict import Predictor
from server.runtime.supervisor import Rules, Supervisor
from wire.admin import Ports
from wire.health import Identity

# How long an open connection may still bring a request after the data port was closed.
LINGER_S = 0.5
# Together below the 1,024 open files that a process usually has.
DATA_CONNECTIONS = 768
ADMIN_CONNECTIONS = 64


def run(settings: Settings, *, emulator_allowed: bool) -> int:
    """Serves until a signal. 0: drained; 1: the server had failed, a port or file could not be opened, or the drain
    cut off requests or lost the worker.
    """
    log = JsonLog()
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
        return runner.run(Server(settings, log, data, admin, emulator_allowed=emulator_allowed).serve())


class Server:
    """Every object of the front process."""

    def __init__(
        self,
        settings: Settings,
        log: JsonLog,
        data: socket.socket,
        admin: socket.socket,
        *,
        emulator_allowed: bool,
    ) -> None:
        self._settings = settings
        self._log = log
        self._clock = SystemClock()
        self._telemetry = PromTelemetry()
        statistics = Statistics(self._telemetry, self._clock)
        self._identity: Identity | None = None
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
        self._tokenizer = FolderTokenizer(settings.model.path)
        self._link = ProcessLink(log)
        self._batcher = Batcher(
            catalogue,
            settings.queue.max_rows,
            self._link.run,
            self._clock,
            statistics,
            max_wait_s=settings.queue.max_wait_ms / 1000,
        )
        self._supervisor = Supervisor(
            start_command(settings, catalogue, emulator_allowed=emulator_allowed),
            self._link,
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
        self._bodies = LastCall()
        exchange = Exchange(
            lambda: self._identity, self._clock, statistics, self._access_log, log, last_call=self._bodies
        )
        self._data = UvicornListener(
            data_app(
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
            linger_s=LINGER_S,
        )
        health_port = admin_app(
            AdminView(
                life=lambda: self._supervisor.life,
                health=lambda: health_body(self._supervisor.life, self._supervisor.facts, self._clock.monotonic()),
                metrics=self._telemetry.exposition,
                metrics_type=self._telemetry.content_type,
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
        return 1 if failed or not kept else 0

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
        self._telemetry.set_identity(self._identity)
        self._log.info("identity", digest=self._identity.digest(), **msgspec.to_builtins(self._identity))


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
