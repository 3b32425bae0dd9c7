"""The front's end of the line: spawns the worker, reads its events in the loop, filters its stderr.

The worker gets its own end of a socket pair. libuv makes the front's end non-blocking; that flag belongs to
the open file description, so the worker's end stays blocking.
"""

import asyncio
import socket
import sys
from collections.abc import Callable
from typing import Final

from server.adapters.worker.channel import FrameReader, ProtocolBroken, encode
from server.core.chatter import Allowance, Lines
from server.ports.telemetry import Log
from server.ports.worker import Profile, ProfileEnd, Run, Start, WorkerEvent

# XLA prints hundreds of these, 2 kB each, when it reloads a cached program.
NOISE: Final = (b"cpu_aot_loader", b"PjRt runtime initialization deferred")
# Of the lines that a worker prints: a start with warnings and a trace or two at once, then a few a second.
STDERR_BURST: Final = 300
STDERR_PER_S: Final = 10.0
KILL_WAIT_S: Final = 10.0
# What a killed worker printed last may be why it was killed; a process that it started may hold the pipe open.
STDERR_WAIT_S: Final = 0.5
LAST_WORDS_S: Final = 2.0


class ProcessLink:
    """A WorkerLink over ``python -m server.adapters.worker``."""

    def __init__(self, log: Log, *, interpreter: str = sys.executable) -> None:
        self._log = log
        self._interpreter = interpreter
        self._process: asyncio.subprocess.Process | None = None
        self._transport: asyncio.Transport | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._gone: _Once | None = None

    async def spawn(self, start: Start, receive: Callable[[WorkerEvent], None], lost: Callable[[str], None]) -> None:
        """See WorkerLink. Raises OSError when no process can be started."""
        ours, theirs = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                self._interpreter,
                "-m",
                "server.adapters.worker",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                pass_fds=(theirs.fileno(),),
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()

        gone, ended = _Once(lost), asyncio.Event()
        self._gone = gone
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(lambda: _FrontEnd(receive, gone, ended), sock=ours)
        self._transport = transport
        transport.write(encode(start))
        assert self._process.stderr is not None, "stderr is a pipe"
        self._tasks = [
            asyncio.create_task(self._follow_stderr(self._process.stderr), name="worker-stderr"),
            asyncio.create_task(_reap(self._process, gone, ended), name="worker-reap"),
        ]

    def run(self, command: Run | Profile | ProfileEnd) -> None:
        """See WorkerLink. A line that is gone swallows the command: ``lost`` tells the story."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(encode(command))

    async def kill(self) -> None:
        """See WorkerLink."""
        if self._gone is not None:
            self._gone.expected()
        process = self._process
        if process is not None and process.returncode is None:
            try:
                process.kill()
            except ProcessLookupError:
                pass
            try:
                async with asyncio.timeout(KILL_WAIT_S):
                    await process.wait()
            except TimeoutError:
                self._log.error("worker_unkillable", pid=process.pid)
        if self._transport is not None:
            self._transport.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=STDERR_WAIT_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def _follow_stderr(self, stream: asyncio.StreamReader) -> None:
        """Always read, so that a worker that prints without end does not stand still; what is too much is counted."""
        lines, allowance, loop = Lines(), Allowance(STDERR_BURST, STDERR_PER_S), asyncio.get_running_loop()
        data = b" "
        while data:
            data = await stream.read(65536)
            for line in lines.feed(data) if data else lines.end():
                if any(noise in line for noise in NOISE):
                    continue
                if allowance.take(loop.time()):
                    self._tell_left_out(allowance)
                    self._log.warning("worker_stderr", line=line.decode("utf-8", "replace"))
        self._tell_left_out(allowance)

    def _tell_left_out(self, allowance: Allowance) -> None:
        left_out = allowance.left_out()
        if left_out:
            self._log.warning("worker_stderr_left_out", lines=left_out)


class _Once:
    """Tells the first reason of a loss that nobody asked for, and no other."""

    def __init__(self, lost: Callable[[str], None]) -> None:
        self._lost = lost
        self._told = False

    def expected(self) -> None:
        """From now on the loss is asked for."""
        self._told = True

    def __call__(self, reason: str) -> None:
        if not self._told:
            self._told = True
            self._lost(reason)


async def _reap(process: asyncio.subprocess.Process, gone: _Once, line_ended: asyncio.Event) -> None:
    code = await process.wait()
    # What the worker said last is still in the socket, and it says more than the exit code.
    try:
        async with asyncio.timeout(LAST_WORDS_S):
            await line_ended.wait()
    except TimeoutError:
        pass
    gone(f"the process ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}")


class _FrontEnd(asyncio.Protocol):
    """Frames from the worker, as events."""

    def __init__(self, receive: Callable[[WorkerEvent], None], gone: _Once, ended: asyncio.Event) -> None:
        self._receive = receive
        self._gone = gone
        self._ended = ended
        self._frames = FrameReader()
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for message in self._frames.feed(data):
                if isinstance(message, Start | Run | Profile | ProfileEnd):
                    raise ProtocolBroken(f"got the command {type(message).__name__} from the worker")
                self._receive(message)
        except ProtocolBroken as error:
            self._gone(f"the line is broken: {error}")
            if self._transport is not None:
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended.set()
        if exc is not None:
            # Mostly because the process ended, and how it ended says more.
            asyncio.get_running_loop().call_later(LAST_WORDS_S, self._gone, f"the line broke: {exc}")
