"""A client's request as the gateway takes it in: what is passed on, what is read, what is left out.

Hop-by-hop headers end here (RFC 9110 7.6.1), and so does every ``x-canary-*`` of a client but its deadline, which is
passed on reduced: nobody outside can pretend to be the gateway.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wire import headers as names

HOP_BY_HOP: Final = frozenset(
    {
        b"connection",
        b"http2-settings",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# Written anew for the arm, or answered by the gateway's own HTTP server.
_REWRITTEN: Final = frozenset({b"host", b"content-length", b"expect", names.REQUEST_ID.encode()})
_NOT_PASSED: Final = HOP_BY_HOP | _REWRITTEN
_OURS: Final = names.PREFIX.encode()
_REQUEST_ID: Final = names.REQUEST_ID.encode()
_DEADLINE: Final = names.DEADLINE_MS.encode()
MAX_REQUEST_ID: Final = 128


@dataclass(slots=True)
class Incoming:
    """``header_block`` has one line per header that is passed on; ``length`` is the declared one."""

    header_block: bytes
    request_id: str | None
    deadline_s: float | None
    key: bytes | None
    length: int | None
    content_type: bytes


def read_headers(headers: Iterable[tuple[bytes, bytes]], key_header: bytes | None) -> Incoming:
    """Sort a client's headers. Names are in lower case, as ASGI gives them."""
    lines: list[bytes] = []
    incoming = Incoming(b"", None, None, None, None, b"")
    named: frozenset[bytes] = frozenset()
    for name, value in headers:
        if name == key_header:
            incoming.key = value
        if name in _NOT_PASSED or name.startswith(_OURS):
            if name == b"connection":
                named |= connection_options(value)
            else:
                _note(incoming, name, value)
            continue
        if name == b"content-type":
            incoming.content_type = value
        lines += (name, b": ", value, b"\r\n")
    if named:
        lines = [piece for i in range(0, len(lines), 4) if lines[i] not in named for piece in lines[i : i + 4]]
    incoming.header_block = b"".join(lines)
    return incoming


def _note(incoming: Incoming, name: bytes, value: bytes) -> None:
    if name == b"content-length":
        incoming.length = int(value) if value.isdigit() else None
    elif name == _REQUEST_ID:
        incoming.request_id = request_id(value)
    elif name == _DEADLINE:
        milliseconds = names.parse_deadline_ms(value.decode("latin-1").strip())
        incoming.deadline_s = None if milliseconds is None else milliseconds / 1000.0


def connection_options(value: bytes) -> frozenset[bytes]:
    """Headers that a ``Connection`` header declares to be for this connection alone."""
    options = frozenset(option.strip().lower() for option in value.split(b","))
    return options - {b"keep-alive", b"close", b""}


def request_id(value: bytes) -> str | None:
    """A client's request id when it is short and printable; it goes into logs and back to the client."""
    text = value.decode("latin-1").strip()
    return text if 0 < len(text) <= MAX_REQUEST_ID and text.isascii() and text.isprintable() else None
