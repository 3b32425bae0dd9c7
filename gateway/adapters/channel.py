"""The socket pair between the control process and a data worker: frames of msgpack, the same on both sides.

A frame is four bytes of length, big-endian, and ``[kind, payload]``: the name of a message of core/snapshot.py and the
message as a map. Both sides run the same code version, so there is no negotiation; what cannot be read ends the
channel, because a worker that misunderstands a routing snapshot must not go on.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any, Final, cast

import msgspec

from gateway.core import snapshot as messages
from gateway.core.snapshot import FromWorker, ToWorker

log = logging.getLogger("gateway.channel")

Message = ToWorker | FromWorker
MAX_FRAME: Final = 8 * 1024 * 1024
DROP_ABOVE: Final = 4 * 1024 * 1024
"""Bytes waiting to be written above which a droppable message is dropped."""
_LENGTH: Final = 4

_KINDS: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (
        messages.WorkerSetup,
        messages.Snapshot,
        messages.Drain,
        messages.Hello,
        messages.Ack,
        messages.Report,
        messages.Pair,
    )
}
_envelope: Final = msgspec.msgpack.Decoder(tuple[str, msgspec.Raw])
_decoders: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    name: msgspec.msgpack.Decoder(kind) for name, kind in _KINDS.items()
}
_encoder: Final = msgspec.msgpack.Encoder()


class ChannelError(Exception):
    """What came is no message: a frame too large, an unknown kind, or a payload that does not fit its kind."""


def encode(message: Message) -> bytes:
    """One frame. ChannelError when it would be larger than MAX_FRAME."""
    payload = _encoder.encode([type(message).__name__, message])
    if len(payload) > MAX_FRAME:
        raise ChannelError(f"frame: {len(payload)} bytes, at most {MAX_FRAME} are allowed")
    return len(payload).to_bytes(_LENGTH, "big") + payload


class Frames:
    """Bytes in, whole messages out, however the bytes were cut."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Every message that ``data`` completes. ChannelError when it is none."""
        self._buffer += data
        found: list[Message] = []
        start = 0
        while len(self._buffer) - start >= _LENGTH:
            length = int.from_bytes(self._buffer[start : start + _LENGTH], "big")
            if length > MAX_FRAME:
                raise ChannelError(f"frame: {length} bytes, at most {MAX_FRAME} are allowed")
            end = start + _LENGTH + length
            if len(self._buffer) < end:
                break
            found.append(_decode(bytes(self._buffer[start + _LENGTH : end])))
            start = end
        del self._buffer[:start]
        return found


def _decode(payload: bytes) -> Message:
    try:
        kind, body = _envelope.decode(payload)
        message: Message = _decoders[kind].decode(body)
    except KeyError as error:
        raise ChannelError(f"kind: {error} is not allowed; one of {', '.join(_KINDS)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ChannelError(f"frame: {error}") from error
    return message


class Channel(asyncio.Protocol):
    """One end. ``on_lost`` is called once, also when the other side sends what is no message.

    A message that its receiver cannot deal with is logged and counted in ``failed``; the channel goes on, and whether
    anything else does is the receiver's decision.
    """

    def __init__(self, on_message: Callable[[Any], None], on_lost: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._frames = Frames()
        self._held: list[Message] | None = []
        self._transport: asyncio.Transport | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.dropped = 0
        self.failed = 0
        self.fault: ChannelError | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=DROP_ABOVE, low=0)

    def data_received(self, data: bytes) -> None:
        try:
            received = self._frames.feed(data)
        except ChannelError as error:
            self.fault = error
            self.close()
            return
        if self._held is not None:
            self._held += received
            return
        self._deliver(received)

    def begin(self) -> None:
        """Deliver: what came before is first."""
        held, self._held = self._held or [], None
        self._deliver(held)

    def _deliver(self, received: list[Message]) -> None:
        for message in received:
            try:
                self._on_message(message)
            except Exception:
                self.failed += 1
                fields = {"event": "message_failed", "kind": type(message).__name__}
                log.exception("message failed", extra={"fields": fields})

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._flowing.set()
        self._on_lost()

    def pause_writing(self) -> None:
        self._flowing.clear()

    def resume_writing(self) -> None:
        self._flowing.set()

    def send(self, message: Message) -> None:
        """Queue a message that must arrive; lost when the channel is."""
        if self._transport is not None:
            self._transport.write(encode(message))

    def send_or_drop(self, message: Message) -> bool:
        """Queue a message unless it or what is waiting is too large; False when it was dropped, and counted as such."""
        transport = self._transport
        if transport is None or not self._flowing.is_set() or transport.get_write_buffer_size() > DROP_ABOVE:
            self.dropped += 1
            return False
        try:
            frame = encode(message)
        except ChannelError:
            self.dropped += 1
            return False
        transport.write(frame)
        return True

    async def flushed(self) -> None:
        """Wait until everything is on its way, or the channel is lost."""
        if self._transport is not None and self._transport.get_write_buffer_size() > 0:
            self._transport.set_write_buffer_limits(high=0)
            await self._flowing.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def open_channel(sock: socket.socket, on_message: Callable[[Any], None], on_lost: Callable[[], None]) -> Channel:
    """Take over a connected socket. ``on_message`` gets every message in order, none before this has returned."""
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    _, channel = await loop.create_unix_connection(lambda: Channel(on_message, on_lost), sock=sock)
    loop.call_soon(channel.begin)
    return channel
