"""The composition root of the control process: the whole object graph, from configuration to exit."""

import asyncio
import hashlib
import logging
import os
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import uvicorn
import uvloop

from gateway.adapters.answers import compare_pair
from gateway.adapters.asgi.admin import Desk, build
from gateway.adapters.asgi.guard import Guard
from gateway.adapters.channel import open_channel
from gateway.adapters.clock import SystemClock
from gateway.adapters.comparing import Comparing
from gateway.adapters.json_lines import JsonLines
from gateway.adapters.plan_document import parse_plan
from gateway.adapters.prom import GatewayCollector, exposition
from gateway.adapters.readiness import OursProbe
from gateway.adapters.state_dir import STORE_FILE, StateDir, require_private_file
from gateway.adapters.store_evidence import DAY_S, SqlEvidence
from gateway.adapters.store_sql import SqlStore
from gateway.adapters.tokens import OperatorToken, split_secret
from gateway.adapters.workers import WorkerProcess, reserve_port
from gateway.config import ArmConfig, ConfigError, GatewayConfig, is_loopback, load
from gateway.core.snapshot import ArmSnapshot, WorkerSetup
from gateway.core.types import Role
from gateway.ports import ReadinessProbe, StateDirError, StoreUnavailable
from gateway.runtime.analyst import Analyst
from gateway.runtime.conductor import Conductor, initial_snapshot
from gateway.runtime.replay import Replayer
from gateway.runtime.replica import Replica
from wire.admin import Ports

log = logging.getLogger("gateway")

TICK_S = 0.25
POLL_S = 0.5
CHECKPOINT_S = 2.0
BEAT_LIMIT_S = 5.0
EXIT_CONFIG = 2
EXIT_START = 1


def run(config_path: Path) -> int:
    """Runs until a signal. Exit codes: 0 drained, 1 cannot start, 2 the configuration is refused."""
    _log_to_stderr()
    try:
        config = load(config_path)
    except ConfigError as error:
        for problem in error.problems:
            print(f"canary-gateway: {error.source}: {problem}", file=sys.stderr)
        return EXIT_CONFIG
    try:
        state = StateDir(config.state_dir)
        exit_code: int = uvloop.run(_serve(config, state))
        return exit_code
    except (StateDirError, StoreUnavailable, OSError) as error:
        print(f"canary-gateway: {error}", file=sys.stderr)
        return EXIT_START


@dataclass(slots=True)
class Loop:
    """The control loop's heartbeat and whether it is on the way out."""

    beat: float
    draining: bool = False
    stop: asyncio.Event = field(default_factory=asyncio.Event)


async def _serve(config: GatewayConfig, state: StateDir) -> int:
    clock = SystemClock()
    store = SqlStore(state.path / STORE_FILE, config.rollout, require_private_file)
    await store.open()
    evidence = SqlEvidence(store.transact, config.rollout, keep_s=config.store.evidence_days * DAY_S)
    await evidence.open()
    token, secret = OperatorToken(state), split_secret(state)
    arms = {
        Role.BASELINE: _arm(config.arms.baseline, Role.BASELINE),
        Role.CANDIDATE: _arm(config.arms.candidate, Role.CANDIDATE),
    }

    def secret_of(run_id: str) -> bytes:
        return hashlib.blake2b(run_id.encode(), key=secret, digest_size=32).digest()

    key_header = config.key.header if config.key else None
    snapshot = initial_snapshot(arms, model=config.model, key_header=key_header, secret=secret_of(""))
    replica = Replica(clock, snapshot)
    answer_timeout_s = max(a.timeouts.total_s for a in (config.arms.baseline, config.arms.candidate)) + 1.0
    comparing = Comparing(compare_pair)
    analyst = Analyst(comparing.offer, epoch=0, answer_timeout_s=answer_timeout_s, now=clock.wall())
    conductor = Conductor(
        clock=clock,
        store=store,
        evidence=evidence,
        replica=replica,
        analyst=analyst,
        arms=arms,
        new_run_id=lambda: secrets.token_hex(4),
        secret_of=secret_of,
    )
    await conductor.restore()
    loop = Loop(beat=clock.monotonic())
    _on_signals(loop)
    reserved = reserve_port(config.listen.host, config.listen.port)
    admin_socket = _bind(config.admin.host, config.admin.port)
    listening = asyncio.Event()
    workers = _workers(config, reserved.getsockname()[1], clock, replica, analyst, listening)
    collector = GatewayCollector(conductor, analyst, replica)
    desk = Desk(
        name=config.rollout,
        conductor=conductor,
        analyst=analyst,
        replica=replica,
        replayer=Replayer(store, evidence),
        parse_plan=parse_plan,
        metrics=lambda: exposition(collector),
        draining=lambda: loop.draining,
        beats=lambda: clock.monotonic() - loop.beat < BEAT_LIMIT_S,
    )
    admin = _admin_server(desk, config, token.matches)
    async with httpx.AsyncClient(trust_env=False, follow_redirects=False) as client, asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(worker.run()) for worker in workers]
        background = [
            tasks.create_task(admin.serve(sockets=[admin_socket])),
            tasks.create_task(_control_loop(conductor, clock, loop)),
            tasks.create_task(_keep_checkpoints(conductor)),
            tasks.create_task(conductor.ledger.run()),
            *(tasks.create_task(_poll(conductor, arm, probe)) for arm, probe in _probes(config, client)),
        ]
        announce = tasks.create_task(
            _announce(config, listening, reserved.getsockname()[1], admin_socket.getsockname()[1], token.path)
        )
        stopped = tasks.create_task(loop.stop.wait())
        given_up = tasks.create_task(_all_done(running))
        await asyncio.wait([stopped, given_up], return_when=asyncio.FIRST_COMPLETED)
        failed = not loop.stop.is_set()
        await _drain(config, loop, workers, running)
        admin.should_exit = True
        for task in (stopped, given_up, announce, *background[1:]):
            task.cancel()
        await asyncio.wait([background[0]])
        await conductor.close()
        comparing.close()
    await store.close()
    reserved.close()
    state.release()
    return EXIT_START if failed else 0


def _arm(config: ArmConfig, role: Role) -> ArmSnapshot:
    return ArmSnapshot(
        name=config.name,
        role=role,
        host=config.host,
        port=config.port,
        base_path=config.base_path,
        profile=config.profile,
        ready=False,
        max_in_flight=config.max_in_flight,
        max_connections=config.max_connections,
        connect_s=config.timeouts.connect_s,
        first_byte_s=config.timeouts.first_byte_s,
        idle_s=config.timeouts.idle_s,
        total_s=config.timeouts.total_s,
        keepalive_s=config.keepalive_s,
    )


def _workers(
    config: GatewayConfig, port: int, clock: SystemClock, replica: Replica, analyst: Analyst, listening: asyncio.Event
) -> list[WorkerProcess]:
    def setup(index: int) -> WorkerSetup:
        access_log = str(config.access_log) + (f".{index}" if index else "") if config.access_log else None
        return WorkerSetup(
            name=f"w{index}",
            host=config.listen.host,
            port=port,
            expose_timings=config.expose_timings,
            replay_buffer=config.limits.replay_buffer,
            replay_buffer_total=config.limits.replay_buffer_total,
            answer_hold=config.limits.answer_hold,
            max_body=config.limits.max_body,
            report_every_s=1.0,
            client_read_s=config.limits.client_read_s,
            wall_offset=clock.wall_offset,
            access_log=access_log,
        )

    return [
        WorkerProcess(
            setup(index),
            clock=clock,
            replica=replica,
            analyst=analyst,
            open_channel=open_channel,
            on_listening=lambda _port: listening.set(),
        )
        for index in range(config.workers)
    ]


class AdminServer(uvicorn.Server):
    """uvicorn without its signal handling, which would close listeners at once and exit 143."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _admin_server(desk: Desk, config: GatewayConfig, matches: Callable[[str], bool]) -> AdminServer:
    hosts = {"127.0.0.1", "localhost", "::1", config.admin.host, *config.admin.hosts}
    loopback = is_loopback(config.admin.host)
    guarded: Any = Guard(build(desk), matches=matches, hosts=hosts, loopback=loopback)  # type: ignore[arg-type]  # Litestar types its own ASGI messages more narrowly
    settings = uvicorn.Config(
        guarded,
        http="httptools",
        loop="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=5,
    )
    return AdminServer(settings)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(f"admin.port: {host}:{port} cannot be bound: {error.strerror}") from error
    return sock


def _probes(config: GatewayConfig, client: httpx.AsyncClient) -> list[tuple[str, ReadinessProbe]]:
    return [
        (arm.name, OursProbe(client, url=arm.url, model=config.model))
        for arm in (config.arms.baseline, config.arms.candidate)
    ]


async def _poll(conductor: Conductor, arm: str, probe: ReadinessProbe) -> None:
    while True:
        try:
            conductor.arm_health(arm, await probe.poll())
        except Exception:
            # A poller that dies would freeze what routing knows of the arm.
            log.exception("readiness poll failed", extra={"fields": {"event": "poll_failed", "arm": arm}})
        await asyncio.sleep(POLL_S)


async def _control_loop(conductor: Conductor, clock: SystemClock, loop: Loop) -> None:
    while True:
        try:
            conductor.tick()
        except Exception:
            # A control loop that dies would leave the weight as it is, unwatched. It stays and is seen not to beat.
            log.exception("control loop failed", extra={"fields": {"event": "control_loop_failed"}})
        else:
            loop.beat = clock.monotonic()
        await asyncio.sleep(TICK_S)


async def _keep_checkpoints(conductor: Conductor) -> None:
    while True:
        await asyncio.sleep(CHECKPOINT_S)
        await conductor.keep_checkpoint()


async def _all_done(running: list[asyncio.Task[None]]) -> None:
    """Every worker was given up. While one lives the gateway serves, and its health says that workers are missing."""
    await asyncio.wait(running)


async def _drain(
    config: GatewayConfig, loop: Loop, workers: list[WorkerProcess], running: list[asyncio.Task[None]]
) -> None:
    loop.draining = True
    for worker in workers:
        worker.drain(config.drain.delay_s, config.drain.limit_s)
    _, late = await asyncio.wait(running, timeout=config.drain.delay_s + config.drain.limit_s + 2.0)
    for task in late:
        task.cancel()


def _on_signals(loop: Loop) -> None:
    running = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(signum, loop.stop.set)


async def _announce(
    config: GatewayConfig, listening: asyncio.Event, data_port: int, admin_port: int, token: Path
) -> None:
    """Says where the gateway listens, once a worker does."""
    await listening.wait()
    fields = {
        "event": "listening",
        "data": f"http://{config.listen.host}:{data_port}",
        "admin": f"http://{config.admin.host}:{admin_port}",
        "operator_token_file": str(token),
    }
    log.info("listening", extra={"fields": fields})
    if config.ports_file is None:
        return
    ports = Ports(data=data_port, admin=admin_port, pid=os.getpid(), admin_token_file=str(token))
    fresh = config.ports_file.with_name(f".{config.ports_file.name}.new")
    fresh.write_bytes(msgspec.json.encode(ports))
    fresh.replace(config.ports_file)


def _log_to_stderr() -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
