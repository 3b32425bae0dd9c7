"""Closing a connection on which the peer is still sending, so that the answer arrives.

A socket that is closed with bytes unread is reset, and a reset takes along what the peer has not read yet (RFC 9112
9.6): a client in the midst of a large body would lose its 413. So the sending side is closed first, and what comes is
thrown away for a while.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

LINGER_S: Final = 5.0
LINGER_BYTES: Final = 64 * 1024 * 1024


class LingeringTransport(asyncio.Transport):
    """``transport``, whose ``close`` waits for a peer that is sending; ``sending`` tells whether it is."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, sending: Callable[[], bool]
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._sending = sending
        self._timer: asyncio.TimerHandle | None = None
        self._left = LINGER_BYTES

    def close(self) -> None:
        if self.is_closing():
            return
        if not self._sending():
            self._transport.close()
            return
        self._timer = self._loop.call_later(LINGER_S, self.close_now)
        self._transport.write_eof()
        # Whoever did not read the body may have paused it.
        self._transport.resume_reading()

    def close_now(self) -> None:
        """Whatever the peer is doing. Also what is left to do once the connection is lost."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()

    def discard(self, count: int) -> None:
        """So many bytes came after ``close`` and were thrown away."""
        self._left -= count
        if self._left < 0:
            self.close_now()

    def is_closing(self) -> bool:
        return self._timer is not None or self._transport.is_closing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._timer is None:
            self._transport.write(data)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        if self._timer is None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
