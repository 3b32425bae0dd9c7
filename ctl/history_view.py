"""The journal as text: one paragraph a line of it."""

import textwrap

from ctl.layout import clock, printable, width
from wire.admin import JournalLine

_INDENT = 4


def journal(lines: list[JournalLine]) -> str:
    """Oldest first: stamp, run, epoch, kind, who; below it what happened."""
    if not lines:
        return "the journal is empty"
    return "\n".join(_entry(line) for line in lines)


def _entry(line: JournalLine) -> str:
    run = f"run {printable(line.run_id)}  " if line.run_id else ""
    head = f"{line.seq:>5}  {clock(line.at)}  {run}epoch {line.epoch}  {line.kind}  {printable(line.who)}"
    text = textwrap.wrap(printable(line.text), width() - 2 * _INDENT, initial_indent=" " * 7, subsequent_indent=" " * 7)
    return "\n".join([head[: width()].rstrip(), *text])
