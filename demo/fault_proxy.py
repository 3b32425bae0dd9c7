"""A TCP proxy before the candidate that can fail the way a machine fails. Its own process, on loopback only.

``python -m demo.fault_proxy --upstream 127.0.0.1:PORT --ports-file FILE`` writes ``{"data", "admin"}`` once it listens.
On the admin port one line names the mode, and is answered by one line: ``crash`` -> ``ok crash``; ``counts`` is
answered by what was done so far, as JSON. The modes are those of ``demo.faults``. The proxy follows the HTTP/1.1
messages on each connection, so a kept-alive connection outlives a switch; clients that send a request before they have
the answer to the last one are served one after the other.
"""

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from demo.faults import Counts, Crash, Flap, Mode, Pass, Slow, Wrong, is_down, parse, rotate_rows
from demo.messages import (
    HEAD_END,
    HEAD_LIMIT,
    Answer,
    BrokenMessage,
    Request,
    parse_answer,
    parse_request,
    pass_body,
    with_length,
)
from wire import openai
from wire.admin import Ports

_CONNECT_S: Final = 5.0
HELD_LIMIT: Final = 16 * 1024 * 1024  # a longer answer goes through `wrong` as it is
READY_PATH: Final = "/v2/health/ready"
_UNREADY_BODY: Final = b'{"ready":false}'
_UNREADY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%b" % (len(_UNREADY_BODY), _UNREADY_BODY)
)


class Link:
    """One client connection and its upstream one. ``awaiting``: a request is there, no byte of its answer was sent."""

    def __init__(
        self,
        client: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        self.from_client, self.to_client = client
        self.from_upstream, self.to_upstream = upstream
        self.awaiting = False
        self.dropped = False
        self.request: Request | None = None
        self.answered = asyncio.Event()
        self.answered.set()

    def asked(self, request: Request) -> None:
        """A request goes up; its answer is outstanding until ``finished``."""
        self.request = request
        self.answered.clear()

    def finished(self) -> None:
        self.request = None
        self.answered.set()

    def drop(self) -> None:
        self.dropped = True
        self.to_client.transport.abort()
        self.to_upstream.transport.abort()


class FaultProxy:
    """``mode`` is what happens to messages now. ``clock`` gives seconds, ``sleep`` waits for some."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._host, self._port = host, port
        self._clock, self._sleep = clock, sleep
        self.mode: Mode = Pass()
        self._since = clock()
        self.counts = Counts()
        self._links: set[Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def switch(self, mode: Mode) -> None:
        """From now on; a crash takes the requests that wait for an answer with it."""
        self.mode, self._since = mode, self._clock()
        if isinstance(mode, Crash):
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
                upstream = await asyncio.open_connection(self._host, self._port, limit=HEAD_LIMIT)
        except OSError:  # includes the time-out
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        link = Link((reader, writer), upstream)
        self._links.add(link)
        up = asyncio.create_task(self._follow(link, self._up))
        down = asyncio.create_task(self._follow(link, self._down))
        try:
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)
            link.to_client.close()
            link.to_upstream.close()
            self._links.discard(link)

    async def _follow(self, link: Link, way: Callable[[Link], Awaitable[None]]) -> None:
        try:
            await way(link)
        except (BrokenMessage, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            if not link.dropped:
                self.counts.broken += 1
                self._drop(link)

    async def _control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                writer.write(f"{self._obey(line)}\n".encode())
                await writer.drain()
        except (ConnectionError, ValueError):
            pass  # whoever steers has left, or sent a line without an end
        finally:
            writer.close()

    def _obey(self, line: bytes) -> str:
        if line.strip() == b"counts":
            return msgspec.json.encode(self.counts).decode()
        try:
            mode = parse(line.decode("ascii", "replace"))
        except ValueError as wrong:
            return str(wrong)
        self.switch(mode)
        return f"ok {mode}"

    async def _up(self, link: Link) -> None:
        while first := await link.from_client.read(1):
            if first in b"\r\n":
                continue  # RFC 9112, section 2.2: an empty line before a request is passed over
            await link.answered.wait()
            if isinstance(self.mode, Crash):
                self._drop(link)
                return
            link.awaiting = True
            head = first + await link.from_client.readuntil(HEAD_END)
            request = parse_request(head)
            if self._denies(request):
                self.counts.denied += 1
                link.awaiting = False
                link.to_client.write(_UNREADY)
                await link.to_client.drain()
                continue
            link.asked(request)
            link.to_upstream.write(head)
            await pass_body(link.from_client, link.to_upstream, request.body)

    def _denies(self, request: Request) -> bool:
        if not isinstance(self.mode, Flap) or request != Request("GET", READY_PATH, 0):
            return False
        return is_down(self.mode, self._clock() - self._since)

    async def _down(self, link: Link) -> None:
        while first := await link.from_upstream.read(1):
            if link.request is None:
                raise BrokenMessage("an answer to no request")
            head = first + await link.from_upstream.readuntil(HEAD_END)
            answer = parse_answer(head, link.request.method)
            if answer.interim:
                link.to_client.write(head)
                continue
            await self._answer(link, link.request, answer, head)
            link.finished()

    async def _answer(self, link: Link, request: Request, answer: Answer, head: bytes) -> None:
        mode, held = self.mode, b""
        if isinstance(mode, Slow) and request.method == "POST":
            self.counts.delayed += 1
            await self._sleep(mode.ms / 1000.0)
        elif isinstance(mode, Wrong) and _is_embeddings(request, answer):
            head, held = await self._rotated(link, answer, head)
        link.awaiting = False
        link.to_client.write(head + held)
        await link.to_client.drain()
        if not held:
            await pass_body(link.from_upstream, link.to_client, answer.body)

    async def _rotated(self, link: Link, answer: Answer, head: bytes) -> tuple[bytes, bytes]:
        """Head and whole body of the answer, its rows rotated when it has several."""
        assert isinstance(answer.body, int)
        body = await link.from_upstream.readexactly(answer.body)
        rotated = rotate_rows(body)
        if rotated is None:
            return head, body
        self.counts.rotated += 1
        return with_length(head, len(rotated)), rotated

    def _drop(self, link: Link) -> None:
        self.counts.dropped += 1
        link.drop()


def _is_embeddings(request: Request, answer: Answer) -> bool:
    if request.method != "POST" or request.path != openai.PATH or answer.status != 200 or not answer.is_json:
        return False
    return isinstance(answer.body, int) and 0 < answer.body <= HELD_LIMIT


async def serve(host: str, port: int, ports_file: Path) -> None:
    """Until SIGTERM or SIGINT."""
    proxy = FaultProxy(host, port)
    data = await asyncio.start_server(proxy.connected, "127.0.0.1", 0, limit=HEAD_LIMIT)
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
    print(proxy.counts, file=sys.stderr)


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
