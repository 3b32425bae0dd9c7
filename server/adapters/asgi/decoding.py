"""JSON bodies into the wire's types, with errors that name the field."""

from typing import TypeVar

import msgspec

from server.core.types import BadRequest

T = TypeVar("T")


def decode(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """Raises BadRequest."""
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise BadRequest(f"body: {error}", param=field_of(str(error))) from error
    except RecursionError as error:  # msgspec follows the nesting on the stack
        raise BadRequest("body: is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise BadRequest("body: is not UTF-8") from error


def field_of(message: str) -> str | None:
    """The field that a decoding error names: ``... missing required field `x` `` or ``... - at `$.x` ``."""
    for mark in ("missing required field `", "`$."):
        _, found, rest = message.partition(mark)
        if found:
            return rest.partition("`")[0]
    return None
