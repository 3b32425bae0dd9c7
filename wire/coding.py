"""Content coding of bodies: gzip (RFC 1952) and deflate, which is the zlib format (RFC 9110, section 8.4.1.2)."""

import zlib
from typing import Final, Literal

Coding = Literal["gzip", "deflate"]
CODINGS: Final[tuple[Coding, ...]] = ("gzip", "deflate")
_WBITS: Final[dict[str, int]] = {"gzip": 31, "deflate": 15}


class BadCoding(ValueError):
    """The bytes are not what the content coding says."""


class TooLong(ValueError):
    """The decoded bytes are more than may be."""


class Decoder:
    """Decodes a body piece by piece. Never holds more than ``limit`` decoded bytes, whatever comes in."""

    def __init__(self, coding: Coding, limit: int) -> None:
        self._coding = coding
        self._limit = limit
        self._inflate = zlib.decompressobj(_WBITS[coding])
        self._body = bytearray()

    def feed(self, data: bytes) -> None:
        """Raises BadCoding, TooLong."""
        if not data:
            return
        if self._inflate.eof:
            raise BadCoding(f"content-encoding: bytes follow the end of the {self._coding} data")
        try:
            self._body += self._inflate.decompress(data, self._limit + 1 - len(self._body))
        except zlib.error:
            raise BadCoding(f"content-encoding: the body is no {self._coding} data") from None
        if len(self._body) > self._limit:
            raise TooLong
        if self._inflate.unused_data:
            raise BadCoding(f"content-encoding: bytes follow the end of the {self._coding} data")

    def whole(self) -> bytes:
        """The decoded body. Raises BadCoding unless it came to its end."""
        if not self._inflate.eof:
            raise BadCoding(f"content-encoding: the {self._coding} data ends too early")
        return bytes(self._body)


def encode(coding: Coding, body: bytes) -> bytes:
    """At the fastest level: vectors hold little that more effort would find."""
    deflate = zlib.compressobj(1, zlib.DEFLATED, _WBITS[coding])
    return deflate.compress(body) + deflate.flush()


def accepted(header: str) -> Coding | None:
    """The coding that an Accept-Encoding header likes best, the first one of equals; None is as it is.

    A coding that is not named is not wanted; what cannot be read is passed over.
    """
    best: Coding | None = None
    most = 0.0
    for part in header.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        for coding in CODINGS:
            if name in (coding, f"x-{coding}") and (weight := _weight(parameters)) > most:
                best, most = coding, weight
    return best


def _weight(parameters: list[str]) -> float:
    for each in parameters:
        if each.startswith("q="):
            try:
                weight = float(each[2:])
            except ValueError:
                return 0.0
            return weight if 0 <= weight <= 1 else 0.0
    return 1.0
