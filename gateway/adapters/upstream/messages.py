"""Requests to an arm as bytes, and the head of its answer as a value."""

from typing import Final

from gateway.core.leg import Head, Headers, Outgoing
from gateway.core.snapshot import ArmSnapshot
from wire import headers as names
from wire.framing import HEADER, framed_type


def framed(request: Outgoing, data: bytes) -> bytes:
    """A piece of body as it goes over the wire: plain, or one chunk."""
    if request.more and request.length is None:
        return b"%x\r\n%b\r\n" % (len(data), data) if data else b""
    return data


def request_head(request: Outgoing, arm: ArmSnapshot) -> bytes:
    """Request line and headers. Host is the arm's; what the gateway adds comes last, so nothing can override it."""
    parts = [
        f"{request.method} {arm.base_path}".encode("latin-1"),
        request.target,
        f" HTTP/1.1\r\nhost: {_authority(arm)}\r\n".encode("latin-1"),
        request.header_block,
        b"%b: %d\r\n" % (_EPOCH, request.epoch),
    ]
    if request.shadow:
        parts.append(_SHADOW_LINE)
    if request.deadline_s is not None:
        parts.append(b"%b: %d\r\n" % (_DEADLINE, max(1, int(request.deadline_s * 1000))))
    if request.length is not None:
        parts.append(b"content-length: %d\r\n" % request.length)
    elif request.more:
        parts.append(b"transfer-encoding: chunked\r\n")
    parts.append(b"\r\n")
    return b"".join(parts)


def _authority(arm: ArmSnapshot) -> str:
    host = f"[{arm.host}]" if ":" in arm.host else arm.host
    return f"{host}:{arm.port}"


def read_head(status: int, headers: Headers) -> tuple[Head, bool]:
    """The head, and whether the body comes in chunks."""
    content_type, length, compiles, compiled, encoded, chunked = "", None, 0, b"", False, False
    json_length = None
    for name, value in headers:
        if name == b"content-length":
            length = int(value)  # the parser has refused what is no number
        elif name == b"content-type":
            content_type = value.decode("latin-1")
        elif name == b"transfer-encoding":
            chunked = True
        elif name == b"content-encoding":
            encoded = value.strip().lower() not in (b"", b"identity")
        elif name == _JSON_LENGTH:
            json_length = value.decode("latin-1")
        elif name == _COMPILES:
            compiles = int(value) if value.isdigit() and len(value) < 10 else 0
        elif name == _COMPILED:
            compiled = value
    event_stream = content_type.split(";", 1)[0].strip().lower() == "text/event-stream"
    if json_length is not None:
        content_type = framed_type(content_type, json_length)
    shapes = names.parse_compiled(compiled.decode("latin-1")) if compiles > 0 else ()
    return Head(status, headers, content_type, length, compiles, event_stream, encoded, shapes), chunked


_EPOCH: Final = names.EPOCH.encode()
_DEADLINE: Final = names.DEADLINE_MS.encode()
_JSON_LENGTH: Final = HEADER.encode()
_COMPILES: Final = names.COMPILES.encode()
_COMPILED: Final = names.COMPILED.encode()
_SHADOW_LINE: Final = names.SHADOW.encode() + b": 1\r\n"
