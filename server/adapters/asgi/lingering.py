"""A connection's way out: closed so that the answer arrives, and not held by a peer that reads nothing.

A socket that is closed with bytes unread is reset, and a reset takes along what the peer has not read yet (RFC 9112
9.6): a client in the midst of a large body would lose its 413. So the sending side is closed first, and what comes is
thrown away for a while. And a socket with bytes unsent does not close at all until the peer has taken them, so one that
takes none is aborted.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

LINGER_S: Final = 5.0
LINGER_BYTES: Final = 64 * 1024 * 1024
# In which a peer takes at least some of what there is for it; nginx has 60 s for the same.
STALL_S: Final = 30.0


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
        self._written = 0
        self._taken = 0
        self._stall: asyncio.TimerHandle | None = None

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
        """Whatever the peer is sending."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport.close()

    def lost(self) -> None:
        """What is left to do once the connection is."""
        self.close_now()
        if self._stall is not None:
            self._stall.cancel()

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
            self._written += len(data)
            if self._stall is None and self._transport.get_write_buffer_size():
                self._watch()

    def _watch(self) -> None:
        """Something waits: looks again after a while whether the peer took anything."""
        self._taken = self._written - self._transport.get_write_buffer_size()
        self._stall = self._loop.call_later(STALL_S, self._look)

    def _look(self) -> None:
        self._stall = None
        waiting = self._transport.get_write_buffer_size()
        if waiting and self._written - waiting == self._taken:
            self._transport.abort()
        elif waiting:
            self._watch()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        if self._timer is None:
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()
