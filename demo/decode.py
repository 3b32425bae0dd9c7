"""JSON that another process wrote, as a wire type."""

from typing import TypeVar

import msgspec

from demo.failures import DemoFailed

Body = TypeVar("Body")


class NotAsDocumented(DemoFailed):
    """What came is not of the form that the demo knows: parts of two versions run together."""


def decode(raw: bytes, kind: type[Body], source: str) -> Body:
    """``raw`` as ``kind``. Raises NotAsDocumented naming ``source`` and the field."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, RecursionError) as foreign:
        raise NotAsDocumented(f"{source} is not as documented: {foreign}") from foreign
