"""A look at the requests of pairs: whether they ask for an answer drawn at random. Only that flag leaves the worker."""

from typing import Any, Final

import msgspec

from gateway.core.compare.sampling import is_drawn, may_be_drawn

LOOK_BYTES: Final = 1024 * 1024
"""What is larger is not looked at; msgspec skips about a gigabyte of what nobody asks for in a second."""


class _Generation(msgspec.Struct):
    """The fields that decide; the texts are skipped, not built."""

    temperature: Any = None
    seed: Any = None
    do_sample: Any = None
    parameters: Any = None


_decoder: Final = msgspec.json.Decoder(_Generation)


def asks_to_draw(path: str, body: bytes) -> bool:
    """Never raises. A body that cannot be read, or is too large to look at, says nothing for itself."""
    if not may_be_drawn(path):
        return False
    request: dict[str, Any] | None = None
    if len(body) <= LOOK_BYTES:
        try:
            request = msgspec.structs.asdict(_decoder.decode(body))
        except Exception:
            # Foreign bytes: whatever a decoder makes of them, it is no request that anybody could read.
            request = None
    return is_drawn(path, request)
