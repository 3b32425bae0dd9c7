"""``status --watch``: the table redrawn in place on a terminal, else a line whenever it says something new."""

import time
from collections.abc import Callable
from typing import Final, TextIO

from ctl import status_view
from ctl.client import AdminClient, Unreachable
from ctl.printing import say

# Home, then each line cleared to its end and the rest of the screen below: nothing is blanked first, so no flicker.
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"


def watch(
    client: AdminClient, out: TextIO, *, interval_s: float, raw: bool, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Until interrupted, or nobody reads any more. A gateway that is away for a while is reported and asked again."""
    last = ""
    reading = say("\x1b[2J", out, end="") if out.isatty() and not raw else True
    while reading:
        try:
            status, body = client.status()
            line, text = status_view.one_line(status), status_view.full(status)
        except Unreachable as away:
            body, line, text = b"", f"unreachable: {away}", f"unreachable: {away}"
        if raw:
            reading = say(body.decode("utf-8", "replace"), out) if body else True
        elif out.isatty():
            rows = "".join(f"{row}{_CLEAR_LINE}\n" for row in text.splitlines())
            reading = say(f"{_HOME}{rows}{_CLEAR_BELOW}", out, end="")
        elif _without_ages(line) != last:
            last = _without_ages(line)
            reading = say(line, out)
        if reading:
            sleep(interval_s)


def _without_ages(line: str) -> str:
    return line.partition(" since ")[0]
