"""``status --watch``: the table redrawn in place on a terminal, else a line whenever it says something new."""

import time
from collections.abc import Callable
from typing import Final, NoReturn, TextIO

from ctl import status_view
from ctl.client import AdminClient, Unreachable

# Home, then each line cleared to its end and the rest of the screen below: nothing is blanked first, so no flicker.
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"


def watch(
    client: AdminClient, out: TextIO, *, interval_s: float, raw: bool, sleep: Callable[[float], None] = time.sleep
) -> NoReturn:
    """Until interrupted. A gateway that is away for a while is reported and asked again."""
    last = ""
    if out.isatty() and not raw:
        out.write("\x1b[2J")
    while True:
        try:
            status, body = client.status()
            line, text = status_view.one_line(status), status_view.full(status)
        except Unreachable as away:
            body, line, text = b"", f"unreachable: {away}", f"unreachable: {away}"
        if raw:
            if body:
                print(body.decode("utf-8"), file=out, flush=True)
        elif out.isatty():
            out.write(_HOME + "".join(f"{row}{_CLEAR_LINE}\n" for row in text.splitlines()) + _CLEAR_BELOW)
            out.flush()
        elif _without_ages(line) != last:
            last = _without_ages(line)
            print(line, file=out, flush=True)
        sleep(interval_s)


def _without_ages(line: str) -> str:
    return line.partition(" since ")[0]
