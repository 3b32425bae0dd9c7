"""How much of a body is JSON: the Open Inference Protocol's binary tensors follow a JSON part of a declared length.

Source: binary tensor extension (kserve/open-inference-protocol; triton server, docs/protocol/extension_binary_data.md).
The tensors stand in the order of the JSON, without gaps, and nothing follows them.

The gateway keeps the length of an answer as a parameter of its content type, so that whoever has the content type knows
how to read the body, and two answers that are framed differently are not of the same type.
"""

from collections.abc import Iterable
from typing import Final

HEADER: Final = "inference-header-content-length"
OCTETS: Final = "application/octet-stream"
SIZE: Final = "binary_data_size"
"""The parameter of a tensor that stands behind the JSON."""
_MOST_DIGITS: Final = 12


class BadFrame(ValueError):
    """The declared lengths do not fit the body."""


def cut(value: str, body: bytes) -> tuple[bytes, bytes]:
    """(JSON, binary) of a body whose header says ``value``. Raises BadFrame."""
    value = value.strip()
    length = int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else -1
    if not 0 <= length <= len(body):
        raise BadFrame(
            f"{HEADER}: got {value[:_MOST_DIGITS]!r}, allowed is a number of bytes up to the {len(body)} of the body"
        )
    return body[:length], body[length:]


def pieces(sizes: Iterable[object], binary: bytes) -> list[memoryview | None]:
    """The bytes of each tensor. ``sizes``: its SIZE parameter, None where its data is in the JSON. Raises BadFrame."""
    whole = memoryview(binary)
    found: list[memoryview | None] = []
    at = 0
    for size in sizes:
        if size is None:
            found.append(None)
            continue
        if type(size) is not int or not 0 <= size <= len(whole) - at:
            shown = size if type(size) is int and abs(size) < 10**_MOST_DIGITS else type(size).__name__
            raise BadFrame(f"{SIZE}: got {shown}, allowed are 0 to the {len(whole) - at} bytes that are left")
        found.append(whole[at : at + size])
        at += size
    if at != len(whole):
        raise BadFrame(f"{SIZE}: {len(whole) - at} bytes behind the JSON belong to no tensor")
    return found


def framed_type(content_type: str, value: str) -> str:
    """The content type of an answer whose header says ``value``."""
    return f"{content_type}; {HEADER}={value.strip()}"


def media_type(content_type: str) -> str:
    """In lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def json_part(content_type: str, body: bytes) -> tuple[bytes, bytes] | None:
    """(JSON, binary) of a framed answer; None when nothing frames it. Raises BadFrame."""
    _, found, value = content_type.rpartition(f"; {HEADER}=")
    return cut(value, body) if found else None
