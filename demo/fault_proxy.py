"""A TCP proxy before the candidate that can fail the way a machine fails. Its own process, on loopback only.

``python -m demo.fault_proxy --upstream 127.0.0.1:PORT --ports-file FILE`` writes ``{"data", "admin"}`` once it listens.
On the admin port one line names the mode, and is answered by one line: ``crash`` -> ``ok crash``.

pass    bytes go through
crash   a connection is dropped as soon as bytes of a request arrive on it, new or kept alive, and so are the
        connections whose answer had not begun; an answer that had begun is finished
"""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Final, get_args

import msgspec

from demo.scenarios import FaultMode
from wire.admin import Ports

_CHUNK: Final = 64 * 1024
_CONNECT_S: Final = 5.0
_MODES: Final[tuple[FaultMode, ...]] = get_args(FaultMode)


class Link:
    """One client connection and its upstream one. ``awaiting``: a request went up, no byte came back yet."""

    def __init__(self, client: asyncio.StreamWriter, upstream: asyncio.StreamWriter) -> None:
        self._client = client
        self._upstream = upstream
        self.awaiting = False

    def drop(self) -> None:
        self._client.transport.abort()
        self._upstream.transport.abort()


class FaultProxy:
    """``mode`` is what happens to connections now; ``dropped`` counts those it has cut."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.mode: FaultMode = "pass"
        self.dropped = 0
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def switch(self, mode: FaultMode) -> None:
        """From now on; a crash takes the requests that wait for an answer with it."""
        self.mode = mode
        if mode == "crash":
            for link in [link for link in self._links if link.awaiting]:
                self._drop(link)

    async def close(self) -> None:
        """Drop every connection and wait until each was cleaned up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client connection is there."""
        self._own(self._relay(reader, writer))

    def steered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection of the control port is there: a mode a line."""
        self._own(self._control(reader, writer))

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        # Not left to asyncio's server, which knows no way to end and await its handlers in this version.
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_CONNECT_S):
                upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
        except OSError:  # includes the time-out
            writer.transport.abort()
            return
        link = Link(writer, upstream_writer)
        self._links.add(link)
        up = asyncio.create_task(self._up(link, reader, upstream_writer))
        down = asyncio.create_task(self._down(link, upstream_reader, writer))
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            writer.close()
            upstream_writer.close()
            self._links.discard(link)

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(f"{self._obey(line)}\n".encode())
                await writer.drain()
        except ConnectionError:
            pass  # whoever steers has left
        finally:
            writer.close()

    def _obey(self, line: bytes) -> str:
        asked = line.decode("ascii", "replace").strip()
        mode = next((mode for mode in _MODES if mode == asked), None)
        if mode is None:
            return f"mode: {asked!r} is not allowed; one of {', '.join(_MODES)}"
        self.switch(mode)
        return f"ok {mode}"

    async def _up(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            if self.mode == "crash":
                self._drop(link)
                return
            link.awaiting = True
            writer.write(data)
            await writer.drain()

    async def _down(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(_CHUNK):
            link.awaiting = False
            writer.write(data)
            await writer.drain()

    def _drop(self, link: Link) -> None:
        self.dropped += 1
        link.drop()


async def serve(host: str, port: int, ports_file: Path) -> None:
    """Until SIGTERM or SIGINT."""
    proxy = FaultProxy(host, port)
    data = await asyncio.start_server(proxy.connected, "127.0.0.1", 0)
    control = await asyncio.start_server(proxy.steered, "127.0.0.1", 0)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    ports = Ports(data=data.sockets[0].getsockname()[1], admin=control.sockets[0].getsockname()[1], pid=os.getpid())
    draft = ports_file.with_suffix(".tmp")
    draft.write_bytes(msgspec.json.encode(ports))
    draft.replace(ports_file)
    await ended.wait()
    data.close()
    control.close()
    await proxy.close()
    print(f"dropped {proxy.dropped} connections", file=sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m demo.fault_proxy", description="a TCP proxy that can fail")
    parser.add_argument("--upstream", required=True, help="HOST:PORT")
    parser.add_argument("--ports-file", type=Path, required=True)
    given = parser.parse_args(argv)
    host, _, port = given.upstream.rpartition(":")
    if not host or not port.isdigit():
        parser.error(f"--upstream: {given.upstream!r} is not allowed; HOST:PORT")
    asyncio.run(serve(host, int(port), given.ports_file))
    return 0


if __name__ == "__main__":
    sys.exit(main())
