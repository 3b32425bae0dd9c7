"""How much of an answer is JSON: the Open Inference Protocol's binary tensors follow a JSON part of a declared length.

The header Inference-Header-Content-Length (kserve/open-inference-protocol, binary tensor extension) travels as a
parameter of the content type, so that whoever has an answer's content type knows how to read its body, and two answers
that are framed differently are not of the same type.
"""

from typing import Final

HEADER: Final = "inference-header-content-length"
_MOST_DIGITS: Final = 12


def framed_type(content_type: str, value: str) -> str:
    """The content type of an answer whose header says ``value``."""
    return f"{content_type}; {HEADER}={value.strip()}"


def media_type(content_type: str) -> str:
    """In lower case, without parameters."""
    return content_type.partition(";")[0].strip().lower()


def json_part(content_type: str, body: bytes) -> tuple[bytes, bytes] | None:
    """(JSON, binary) of a framed answer; None when nothing frames it. ValueError when the length does not fit."""
    _, found, value = content_type.rpartition(f"; {HEADER}=")
    if not found:
        return None
    length = int(value) if value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS else -1
    if not 0 <= length <= len(body):
        raise ValueError(f"{HEADER}: does not fit an answer of {len(body)} bytes")
    return body[:length], body[length:]
