"""The composition root of a data worker: ``python -m gateway.worker FD``, FD being its end of the socket pair.

It owns the data port and nothing else. It obeys the control process alone: signals meant for the whole service are
ignored, and when the control process is gone the worker goes with it.
"""

import asyncio
import contextlib
import ctypes
import logging
import math
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final

import uvicorn
import uvloop

from gateway.adapters.access_log import AccessLog
from gateway.adapters.asgi.connection import bounded
from gateway.adapters.asgi.data import DataPlane
from gateway.adapters.channel import Channel, open_channel
from gateway.adapters.clock import SystemClock
from gateway.adapters.json_lines import JsonLines
from gateway.adapters.requests import asks_to_draw
from gateway.adapters.upstream import Pool, Sweeper
from gateway.core.snapshot import Ack, ArmSnapshot, Drain, Hello, Pair, Snapshot, WorkerSetup
from gateway.runtime.arms import Arms
from gateway.runtime.books import Books
from gateway.runtime.proxy import Proxy
from gateway.runtime.reporter import Reporter
from gateway.runtime.routing import Routing
from gateway.runtime.shadow import Shadow
from gateway.runtime.writes import Writes

log = logging.getLogger("gateway.worker")

KEEP_ALIVE_S: Final = 75
MIN_CLIENTS: Final = 16
WARN_EVERY_S: Final = 60.0
EXIT_DRAINED: Final = 0
EXIT_LOST: Final = 1
_PR_SET_PDEATHSIG: Final = 1


class DataServer(uvicorn.Server):
    """uvicorn without its signal handling, which would close the listeners at once and exit 143."""

    def __init__(self, config: uvicorn.Config, on_listening: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_listening()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Seldom:
    """A warning at most once in ``WARN_EVERY_S``, with how often there was cause for it since the last one."""

    def __init__(self, event: str, message: str, monotonic: Callable[[], float]) -> None:
        self._event = event
        self._message = message
        self._monotonic = monotonic
        self._count = 0
        self._next = -math.inf

    def note(self, **fields: Any) -> None:
        self._count += 1
        if (now := self._monotonic()) >= self._next:
            self._next = now + WARN_EVERY_S
            log.warning(self._message, extra={"fields": {"event": self._event, "count": self._count, **fields}})
            self._count = 0


class Worker:
    """One data worker: assembled when its setup arrives, routed by snapshots."""

    def __init__(self, setup: WorkerSetup, channel: Channel, loop: asyncio.AbstractEventLoop) -> None:
        clock = SystemClock(setup.wall_offset)
        self._setup = setup
        self._channel = channel
        self._sweeper = Sweeper(loop, clock)
        self._access_log = AccessLog(Path(setup.access_log)) if setup.access_log is not None else None
        self._routing = Routing()
        self._books = Books(clock.monotonic())
        self._writes = Writes(clock, self._access_log.line if self._access_log is not None else None)

        shortage = Seldom("local_shortage", "no connection to an arm for want of the gateway's own", clock.monotonic)
        turned_away = Seldom("turned_away", "a client's connection was beyond the limit", clock.monotonic)
        max_clients = client_limit(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

        def make_pool(arm: ArmSnapshot) -> Pool:
            return Pool(arm, self._sweeper, loop, lambda error: shortage.note(arm=arm.name, error=str(error)))

        def emit(pair: Pair) -> bool:
            return channel.send_or_drop(pair)

        self._arms = Arms(make_pool)
        shadow = Shadow(
            routing=self._routing,
            arms=self._arms,
            books=self._books,
            writes=self._writes,
            clock=clock,
            emit=emit,
            answer_hold=setup.answer_hold,
        )
        proxy = Proxy(
            routing=self._routing,
            arms=self._arms,
            books=self._books,
            shadow=shadow,
            writes=self._writes,
            clock=clock,
            draw=os.urandom,
            asks_to_draw=asks_to_draw,
            answer_hold=setup.answer_hold,
        )
        self._reporter = Reporter(
            setup.name, routing=self._routing, books=self._books, arms=self._arms, clock=clock, send=channel.send
        )
        app = DataPlane(
            proxy=proxy,
            routing=self._routing,
            draw=os.urandom,
            replay_buffer=setup.replay_buffer,
            replay_buffer_total=setup.replay_buffer_total,
            max_body=setup.max_body,
            client_read_s=setup.client_read_s,
            expose_timings=setup.expose_timings,
        )
        self._server = DataServer(
            uvicorn.Config(
                app,
                loop="none",
                http=bounded(max_clients, lambda: turned_away.note(limit=max_clients)),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                backlog=setup.backlog,
            ),
            self._say_hello,
        )
        self._port = setup.port

    async def serve(self) -> None:
        """Listen, say hello, and serve until drained. OSError when the port cannot be had."""
        sock = listen(self._setup.host, self._setup.port)
        self._port = sock.getsockname()[1]
        beats = asyncio.create_task(self._reporter.run(self._setup.report_every_s, self._flush_log))
        serving = asyncio.create_task(self._server.serve(sockets=[sock]))
        try:
            await asyncio.wait((beats, serving), return_when=asyncio.FIRST_COMPLETED)
            if beats.done():
                beats.result()  # a worker that cannot report must not go on serving
            await serving
        finally:
            beats.cancel()
            self._arms.retire()
            self._sweeper.stop()
        self._reporter.report()
        if self._access_log is not None:
            self._access_log.close()

    def _say_hello(self) -> None:
        """Only now: whoever hears it may connect."""
        self._channel.send(Hello(name=self._setup.name, pid=os.getpid(), port=self._port))

    def follow(self, snapshot: Snapshot) -> None:
        """Change the routing in one step, then say so. From here on nothing older is written to an arm."""
        new_epoch = self._routing.apply(snapshot)
        self._arms.apply(snapshot)
        route = self._routing.route
        assert route is not None
        if new_epoch or snapshot.window_s != self._books.current.window_s:
            self._books.begin_epoch(snapshot.epoch, snapshot.window_s, route.limits, route.stream_limits)
        else:
            self._books.current.set_limits(route.limits, route.stream_limits)
        self._writes.acknowledged(snapshot.version, snapshot.epoch)
        self._flush_log()
        self._channel.send(
            Ack(
                name=self._setup.name,
                version=snapshot.version,
                epoch=snapshot.epoch,
                written=self._writes.to_candidate,
            )
        )
        if new_epoch:
            self._reporter.report()

    async def drain(self, order: Drain) -> None:
        """Show not ready and go on accepting for a while, so that nobody is still sent here; then finish."""
        self._routing.draining = True
        await asyncio.sleep(order.delay_s)
        self._server.config.timeout_graceful_shutdown = max(1, math.ceil(order.limit_s))
        self._server.should_exit = True

    def _flush_log(self) -> None:
        if self._access_log is not None:
            self._access_log.flush()


def client_limit(descriptors: int) -> int:
    """How many clients may be connected at once: half of the file descriptors, so that arms can still be reached."""
    return sys.maxsize if descriptors == resource.RLIM_INFINITY else max(MIN_CLIENTS, descriptors // 2)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket that other workers may share (SO_REUSEPORT). OSError when the address cannot be had."""
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


async def run(fd: int) -> int:
    """Serve until drained or until the control process is gone. Returns the exit status."""
    loop = asyncio.get_running_loop()
    lost = asyncio.Event()
    begun: asyncio.Future[Worker] = loop.create_future()
    draining: list[asyncio.Task[None]] = []

    def take(message: Any) -> None:
        try:
            obey(message)
        except Exception:
            lost.set()  # a worker that did not follow must not go on
            raise

    def obey(message: Any) -> None:
        match message:
            case WorkerSetup() if not begun.done():
                _begin(begun, message, channel, loop)
            case Snapshot() if begun.done():
                begun.result().follow(message)
            case Drain() if begun.done():
                draining.append(loop.create_task(begun.result().drain(message)))
            case _:
                log.error(
                    "unexpected message", extra={"fields": {"event": "unexpected", "kind": type(message).__name__}}
                )

    channel = await open_channel(socket.socket(fileno=fd), take, lost.set)
    gone = asyncio.create_task(lost.wait())
    await asyncio.wait((gone, begun), return_when=asyncio.FIRST_COMPLETED)
    if not begun.done():
        return EXIT_LOST
    try:
        serving = asyncio.create_task(begun.result().serve())
        await asyncio.wait((gone, serving), return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            return EXIT_LOST  # what is in flight goes with the control process
        await serving
    except OSError as error:
        log.error("cannot serve", extra={"fields": {"event": "cannot_serve", "error": str(error)}})
        return EXIT_LOST
    await channel.flushed()
    return EXIT_DRAINED


def _begin(
    begun: asyncio.Future[Worker], setup: WorkerSetup, channel: Channel, loop: asyncio.AbstractEventLoop
) -> None:
    """At once, because the first snapshot may be in the same read as the setup."""
    try:
        begun.set_result(Worker(setup, channel, loop))
    except Exception as error:
        begun.set_exception(error)


def die_with_parent() -> None:
    """Linux: the kernel kills this process when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class _NotBrokenOff(logging.Filter):
    """uvicorn calls it an error when an answer is not finished; here that is how a broken stream is shown."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "returned without completing response" not in record.getMessage()


def main() -> None:
    die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("uvicorn.error").addFilter(_NotBrokenOff())
    status = uvloop.run(run(int(sys.argv[1])))
    sys.stderr.flush()
    # Past the interpreter's own clean-up: connections that are open when the control process dies end here.
    os._exit(status)


if __name__ == "__main__":
    main()
