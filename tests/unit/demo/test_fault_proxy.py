"""The proxy on real sockets, before an upstream that answers each line with a line."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from demo.fault_proxy import FaultProxy
from demo.probes import CommandFailed, switch_fault
from wire.admin import Ports

Body = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """Proxy and upstream. The upstream echoes a line once ``answer`` is set; ``reached`` counts lines it got."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.answer.set()
        self.reached = asyncio.Semaphore(0)
        self.lines = 0
        self.chunk = b""
        self._writers: list[asyncio.StreamWriter] = []

    async def upstream(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                self.lines += 1
                self.reached.release()
                if self.chunk:
                    writer.write(self.chunk)
                await self.answer.wait()
                writer.write(line)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self._writers.append(writer)
        return reader, writer


def on_stage(body: Body) -> None:
    async def play() -> None:
        stage = Stage()
        upstream = await asyncio.start_server(stage.upstream, "127.0.0.1", 0)
        stage.proxy = FaultProxy("127.0.0.1", upstream.sockets[0].getsockname()[1])
        front = await asyncio.start_server(stage.proxy.connected, "127.0.0.1", 0)
        stage.port = front.sockets[0].getsockname()[1]
        control = await asyncio.start_server(stage.proxy.steered, "127.0.0.1", 0)
        stage.control_port = control.sockets[0].getsockname()[1]
        try:
            async with asyncio.timeout(20):
                await body(stage)
        finally:
            stage.answer.set()
            for writer in stage._writers:
                writer.close()
            for server in (front, control):
                server.close()
            await stage.proxy.close()
            upstream.close()
            await asyncio.sleep(0)

    asyncio.run(play())


async def dropped(reader: asyncio.StreamReader) -> bool:
    """Whether the connection ended without another byte."""
    try:
        return await reader.read(1) == b""
    except ConnectionError:
        return True


def test_bytes_go_through() -> None:
    """In pass mode requests and answers go through, several on a connection."""

    async def body(stage: Stage) -> None:
        reader, writer = await stage.connect()
        for line in (b"one\n", b"two\n", b"x" * 60_000 + b"\n"):
            writer.write(line)
            assert await reader.readline() == line

    on_stage(body)


def test_crash_drops_kept_alive_connections_at_the_next_request() -> None:
    """An idle connection stays open until bytes of a request arrive; then it ends and the upstream sees nothing."""

    async def body(stage: Stage) -> None:
        reader, writer = await stage.connect()
        writer.write(b"one\n")
        assert await reader.readline() == b"one\n"
        stage.proxy.switch("crash")
        writer.write(b"two\n")
        assert await dropped(reader)
        assert stage.lines == 1
        assert stage.proxy.dropped == 1

    on_stage(body)


def test_crash_drops_new_connections() -> None:
    """A connection made during the crash ends before the first byte of an answer."""

    async def body(stage: Stage) -> None:
        stage.proxy.switch("crash")
        reader, writer = await stage.connect()
        writer.write(b"one\n")
        assert await dropped(reader)
        assert stage.lines == 0

    on_stage(body)


def test_crash_takes_requests_that_wait_for_an_answer() -> None:
    """A request that is with the upstream when the crash begins loses its connection, too."""

    async def body(stage: Stage) -> None:
        stage.answer.clear()
        reader, writer = await stage.connect()
        writer.write(b"one\n")
        await stage.reached.acquire()
        stage.proxy.switch("crash")
        assert await dropped(reader)

    on_stage(body)


def test_crash_lets_begun_answers_finish() -> None:
    """An answer whose first byte was sent is completed: the fault is before the first byte only."""

    async def body(stage: Stage) -> None:
        stage.answer.clear()
        stage.chunk = b"begun "
        reader, writer = await stage.connect()
        writer.write(b"one\n")
        assert await reader.readexactly(6) == b"begun "
        stage.proxy.switch("crash")
        stage.answer.set()
        assert await reader.readline() == b"one\n"

    on_stage(body)


def test_control_port_switches_and_refuses() -> None:
    """The control port obeys a known mode and names what is allowed for any other."""

    async def body(stage: Stage) -> None:
        await switch_fault(stage.control_port, "crash")
        assert stage.proxy.mode == "crash"
        await switch_fault(stage.control_port, "pass")
        assert stage.proxy.mode == "pass"
        with pytest.raises(CommandFailed, match="one of pass, crash"):
            await switch_fault(stage.control_port, "explode")  # type: ignore[arg-type]  # wrong on purpose

    on_stage(body)


def test_absent_upstream_ends_the_connection() -> None:
    """With nothing behind it the proxy closes what it accepts."""

    async def body(stage: Stage) -> None:
        stage.proxy._port = 1
        reader, _ = await stage.connect()
        assert await dropped(reader)

    on_stage(body)


def test_process_writes_its_ports_and_ends_on_sigterm(tmp_path: Path) -> None:
    """As a process it tells its ports, keeps running, and exits 0 on SIGTERM with a connection open."""

    file = tmp_path / "ports.json"
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        words = ["--upstream", f"127.0.0.1:{upstream.getsockname()[1]}", "--ports-file", str(file)]
        proxy = subprocess.Popen([sys.executable, "-m", "demo.fault_proxy", *words], stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 20
        while not file.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        ports = msgspec.json.decode(file.read_bytes(), type=Ports)
        assert ports.pid == proxy.pid
        asyncio.run(switch_fault(ports.admin, "crash"))
        with socket.create_connection(("127.0.0.1", ports.data), timeout=10):
            proxy.send_signal(signal.SIGTERM)
            _, errors = proxy.communicate(timeout=20)
    assert proxy.returncode == 0
    assert "Traceback" not in errors
