"""Frames between front and worker: 4 bytes little-endian length, then msgpack ``[type name, fields]``.

The front reads inside its event loop (``FrameReader``), the worker blocks on its own end (``Channel``).
A frame that does not decode means that the two processes differ: ProtocolBroken, never a guess.
"""

import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from server.ports import worker as line

MAX_FRAME: Final = 64 * 1024 * 1024
_HEAD = struct.Struct("<I")

Command = line.Start | line.Run | line.Profile | line.ProfileEnd
_TYPES: Final[dict[str, type[Any]]] = {
    each.__name__: each
    for each in (
        line.Start,
        line.Run,
        line.Profile,
        line.ProfileEnd,
        line.Loaded,
        line.BucketBegan,
        line.BucketWarm,
        line.Warmed,
        line.Finished,
        line.RunFailed,
        line.Failed,
        line.Beat,
        line.Profiled,
    )
}


class ProtocolBroken(Exception):
    """The other side sent what this side cannot read."""


def encode(message: Command | line.WorkerEvent) -> bytes:
    """One frame."""
    body = msgspec.msgpack.encode((type(message).__name__, message))
    return _HEAD.pack(len(body)) + body


def decode(body: bytes | bytearray | memoryview) -> Command | line.WorkerEvent:
    """The message of one frame's body. Raises ProtocolBroken."""
    try:
        name, fields = msgspec.msgpack.decode(body, type=tuple[str, msgspec.Raw])
        message: Command | line.WorkerEvent = msgspec.msgpack.decode(fields, type=_TYPES[name])
    except (msgspec.MsgspecError, KeyError) as error:
        raise ProtocolBroken(f"frame of {len(body)} bytes: {error!r}") from error
    return message


class FrontGone(Exception):
    """Nobody reads at the other end."""


class FrameReader:
    """Bytes in, messages out; keeps what is incomplete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Command | line.WorkerEvent]:
        """Yields every message that is complete by now. Raises ProtocolBroken."""
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._buffer)
            if size > MAX_FRAME:
                raise ProtocolBroken(f"frame of {size} bytes, at most {MAX_FRAME} are allowed")
            end = _HEAD.size + size
            if len(self._buffer) < end:
                return
            body = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield decode(body)


class Channel:
    """The worker's end: blocking, and safe to send on from two threads."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(True)
        self._end = end
        self._sending = threading.Lock()

    def send(self, message: line.WorkerEvent) -> None:
        """Raises FrontGone."""
        try:
            with self._sending:
                self._end.sendall(encode(message))
        except OSError as error:
            raise FrontGone(str(error)) from error

    def receive(self) -> Command | None:
        """The next command, or None when the front closed its end."""
        head = self._exactly(_HEAD.size)
        if head is None:
            return None
        (size,) = _HEAD.unpack(head)
        if size > MAX_FRAME:
            raise ProtocolBroken(f"frame of {size} bytes, at most {MAX_FRAME} are allowed")
        body = self._exactly(size)
        if body is None:
            return None
        message = decode(body)
        if not isinstance(message, Command):
            raise ProtocolBroken(
                f"got {type(message).__name__} from the front, commands are Start, Run, Profile and ProfileEnd"
            )
        return message

    def _exactly(self, size: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < size:
            part = self._end.recv(size - len(parts))
            if not part:
                return None
            parts += part
        return bytes(parts)
