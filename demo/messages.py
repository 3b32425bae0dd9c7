"""Where HTTP/1.1 messages begin and end: as much as a proxy needs that delays, holds and replaces whole ones.

Framing is RFC 9112, section 6.3. A head is read by ``readuntil``, whose limit is the one that its stream was made with.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, Literal

HEAD_LIMIT: Final = 64 * 1024
HEAD_END: Final = b"\r\n\r\n"
_LINE_END: Final = b"\r\n"
_CHUNK: Final = 64 * 1024

# The number of bytes; chunked coding; or whatever comes until the connection ends.
Body = int | Literal["chunked", "to the end"]


class BrokenMessage(Exception):
    """Bytes that are no HTTP/1.1 message, or one that a proxy cannot follow."""


@dataclass(frozen=True, slots=True)
class Request:
    """``path`` is without the query."""

    method: str
    path: str
    body: Body


@dataclass(frozen=True, slots=True)
class Answer:
    """``is_json``: the content type says so."""

    status: int
    is_json: bool
    body: Body

    @property
    def interim(self) -> bool:
        """Another answer to the same request follows."""
        return self.status < 200


def parse_request(head: bytes) -> Request:
    """From a head with its empty line. Raises BrokenMessage."""
    line, fields = _split(head)
    match line.split(" "):
        case [method, target, "HTTP/1.1" | "HTTP/1.0"] if method and target:
            return Request(method, target.partition("?")[0], _body(fields, otherwise=0))
        case _:
            raise BrokenMessage(f"request line {line[:80]!r}")


def parse_answer(head: bytes, method: str) -> Answer:
    """From a head with its empty line; ``method`` is that of the request. Raises BrokenMessage."""
    line, fields = _split(head)
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if version not in ("HTTP/1.1", "HTTP/1.0") or not (code.isascii() and code.isdigit()) or len(code) != 3:
        raise BrokenMessage(f"status line {line[:80]!r}")
    status = int(code)
    if status == 101:
        raise BrokenMessage("a change of protocol")
    bodiless = status < 200 or status in (204, 304) or method == "HEAD"
    kinds = [value.partition(";")[0].strip().lower() for name, value in fields if name == "content-type"]
    return Answer(status, kinds == ["application/json"], 0 if bodiless else _body(fields, otherwise="to the end"))


def with_length(head: bytes, length: int) -> bytes:
    """The head of a message whose body is now ``length`` bytes long."""
    lines = head[: -len(HEAD_END)].split(b"\r\n")
    kept = [line for line in lines if line.partition(b":")[0].lower() != b"content-length"]
    return b"\r\n".join([*kept, b"content-length: %d" % length]) + HEAD_END


async def pass_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: Body) -> None:
    """Every byte of a body, as it comes. Raises BrokenMessage and IncompleteReadError."""
    if body == "chunked":
        await _pass_chunks(reader, writer)
        return
    left = None if body == "to the end" else body
    while left != 0:
        data = await reader.read(_CHUNK if left is None else min(left, _CHUNK))
        if not data:
            if left is None:
                return
            raise asyncio.IncompleteReadError(b"", left)
        left = None if left is None else left - len(data)
        writer.write(data)
        await writer.drain()


async def _pass_chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        line = await reader.readuntil(_LINE_END)
        writer.write(line)
        size = _chunk_size(line)
        if not size:
            break
        await pass_body(reader, writer, size + len(_LINE_END))
    while line != _LINE_END:  # trailer fields, then the empty line
        line = await reader.readuntil(_LINE_END)
        writer.write(line)
        await writer.drain()


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 12 or digits.strip(b"0123456789abcdefABCDEF"):
        raise BrokenMessage(f"chunk size {line[:80]!r}")
    return int(digits, 16)


def _split(head: bytes) -> tuple[str, list[tuple[str, str]]]:
    line, *rest = head[: -len(HEAD_END)].decode("latin-1").split("\r\n")
    fields = []
    for field in rest:
        name, colon, value = field.partition(":")
        if not colon or not name or name != name.strip():
            raise BrokenMessage(f"header line {field[:80]!r}")
        fields.append((name.lower(), value.strip()))
    return line, fields


def _body(fields: list[tuple[str, str]], *, otherwise: Body) -> Body:
    codings = [value.lower() for name, value in fields if name == "transfer-encoding"]
    lengths = {value for name, value in fields if name == "content-length"}
    if codings:
        if codings != ["chunked"] or lengths:
            raise BrokenMessage(f"transfer codings {codings} with lengths {sorted(lengths)}")
        return "chunked"
    if not lengths:
        return otherwise
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit()) or len(length) > 15:
        raise BrokenMessage(f"content-length {length[:80]!r}")
    return int(length)
