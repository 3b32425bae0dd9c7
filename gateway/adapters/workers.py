"""Starts the data workers and keeps them: each a process of its own at the other end of a socket pair.

A worker dies with the control process. One that dies alone is started again after a moment; one that dies at once
every time is given up: liveness then names it, and when all are given up the gateway ends.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any, Protocol

from gateway.core.snapshot import Ack, Drain, FromWorker, Hello, Pair, Report, ToWorker, WorkerSetup
from gateway.ports import Clock, WorkerLink
from gateway.runtime.analyst import Analyst
from gateway.runtime.replica import Replica

log = logging.getLogger("gateway.workers")

RESTART_AFTER_S = 0.5
SHORT_LIFE_S = 5.0
GIVE_UP_AFTER = 5
KILL_AFTER_S = 3.0


class ChannelHandle(Protocol):
    """The control process's end of a channel."""

    def send(self, message: ToWorker) -> None: ...

    def close(self) -> None: ...


class OpenChannel(Protocol):
    """Opens a channel on a connected socket: every message to ``on_message``, the end to ``on_lost``."""

    async def __call__(
        self, sock: socket.socket, on_message: Callable[[Any], None], on_lost: Callable[[], None]
    ) -> ChannelHandle: ...


class Link:
    """ports.WorkerLink over a channel."""

    def __init__(self, name: str, channel: ChannelHandle) -> None:
        self._name, self._channel = name, channel

    @property
    def name(self) -> str:
        return self._name

    def send(self, message: ToWorker) -> None:
        self._channel.send(message)


class WorkerProcess:
    """One worker and its successors."""

    def __init__(
        self,
        setup: WorkerSetup,
        *,
        clock: Clock,
        replica: Replica,
        analyst: Analyst,
        open_channel: OpenChannel,
        on_listening: Callable[[int], None],
    ) -> None:
        self._setup, self._clock = setup, clock
        self._replica, self._analyst = replica, analyst
        self._open_channel, self._on_listening = open_channel, on_listening
        self._channel: ChannelHandle | None = None
        self._draining = False

    async def run(self) -> None:
        """Starts the worker, and again whenever it dies, until it is drained or given up."""
        short_lives = 0
        while not self._leaving():
            born = self._clock.monotonic()
            status = await self._live()
            if self._leaving():
                return
            short_lives = short_lives + 1 if self._clock.monotonic() - born < SHORT_LIFE_S else 0
            fields = {"event": "worker_died", "worker": self._setup.name, "status": status}
            log.error("data worker died", extra={"fields": fields})
            if short_lives >= GIVE_UP_AFTER:
                log.error("data worker given up", extra={"fields": {**fields, "event": "worker_given_up"}})
                return
            await asyncio.sleep(RESTART_AFTER_S)

    def _leaving(self) -> bool:
        return self._draining

    def drain(self, delay_s: float, limit_s: float) -> None:
        """Lets the worker finish what runs; ``run`` returns when it has."""
        self._draining = True
        if self._channel is not None:
            self._channel.send(Drain(delay_s=delay_s, limit_s=limit_s))

    async def _live(self) -> int:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway.worker", str(theirs.fileno()), pass_fds=(theirs.fileno(),)
            )
        finally:
            theirs.close()
        link: list[WorkerLink] = []
        channel = await self._open_channel(ours, lambda message: self._take(message, link), lambda: None)
        link.append(Link(self._setup.name, channel))
        self._channel = channel
        channel.send(self._setup)
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            self._channel = None
            self._replica.detach(self._setup.name)
            self._analyst.detach(self._setup.name)
            channel.close()

    def _take(self, message: FromWorker, link: list[WorkerLink]) -> None:
        """Never raises: what one message does to the control process must not cost a worker its life."""
        try:
            self._dispatch(message, link)
        except Exception:
            fields = {"event": "message_failed", "kind": type(message).__name__, "worker": self._setup.name}
            log.exception("message failed", extra={"fields": fields})

    def _dispatch(self, message: FromWorker, link: list[WorkerLink]) -> None:
        match message:
            case Hello():
                self._replica.attach(link[0], message.pid)
                self._analyst.attach(message.name)
                self._on_listening(message.port)
            case Ack():
                self._replica.acknowledge(message)
            case Report():
                self._replica.heard(message)
                self._analyst.report(message)
            case Pair():
                self._analyst.pair(message)


def reserve_port(host: str, port: int) -> socket.socket:
    """Binds without listening, so that every worker can share one port, a free one included.

    The first bind is exclusive: SO_REUSEPORT would let a second gateway in, which took half of the traffic without a
    word. OSError names the field.
    """
    try:
        with _bound(host, port, shared=False) as alone:
            port = alone.getsockname()[1]
        return _bound(host, port, shared=True)
    except OSError as error:
        raise OSError(f"listen: {host}:{port} cannot be bound: {error.strerror or error}") from error


def _bound(host: str, port: int, *, shared: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock
