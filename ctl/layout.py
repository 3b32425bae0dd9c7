"""Plain text for a terminal of at most 100 columns: tables, wrapped paragraphs, times and figures. No colour."""

import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal

WIDTH: Final = 100
"""The widest line. On a narrower terminal its own width holds."""
NARROWEST: Final = 40
_LEAST_TEXT: Final = 4
"""What is left of a column of text in a table that is too wide."""
_GAP: Final = "  "
_TOGETHER: Final = re.compile(r"`[^`\n]{1,60}`|\d (?:%|ms|s|min|h)(?![a-z])")
_GLUE: Final = "\ue000"

Align = Literal["<", ">"]


def width() -> int:
    """Columns for a line on stdout: those of the terminal between 40 and 100; 100 where there is none."""
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDTH
    return max(NARROWEST, min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns))


def table(heads: Sequence[tuple[str, Align]], rows: Sequence[Sequence[str]]) -> list[str]:
    """Head line and rows; when the line would be too long the gaps give way, then the widest text column.

    Figures never: a row that is still too long is left to the terminal, since half a number is another number.
    """
    lines = [[head for head, _ in heads], *[list(row) for row in rows]]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    aligns = [align for _, align in heads]
    texts = [n for n, align in enumerate(aligns) if align == "<"]
    gaps = len(widths) - 1
    gap = _GAP if sum(widths) + len(_GAP) * gaps <= width() else " "
    for _ in range(sum(widths) + len(gap) * gaps - width()):
        widest = max(texts, key=lambda n: widths[n])
        widths[widest] = max(_LEAST_TEXT, widths[widest] - 1)
    return [_row(line, widths, aligns, gap) for line in lines]


def paragraph(label: str, text: str, *, indent: int = 10) -> list[str]:
    """``label`` in the margin, the text wrapped beside it; no line ends within a `command` or before a unit."""
    text = _TOGETHER.sub(lambda found: found.group().replace(" ", _GLUE), text)
    lead = f"{label:<{indent}}"
    lines = textwrap.wrap(text, width() - indent, break_long_words=True, break_on_hyphens=False) or [""]
    lines = [line.replace(_GLUE, " ") for line in lines]
    return [(lead + lines[0]).rstrip(), *(" " * indent + line for line in lines[1:])]


def percent(basis_points: int) -> str:
    """``10 %``; hundredths only where there are any."""
    return f"{basis_points / 100:g} %"


def figure(value: float | None, digits: int = 4) -> str:
    """A number to a few significant digits, ``-`` for none."""
    if value is None:
        return "-"
    # Past its digits a number stays a number that people read: 1,069, not 1.07e+03.
    return f"{value:,.0f}" if abs(value) >= 10**digits else f"{value:.{digits}g}"


def span(seconds: float) -> str:
    """``14 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 d 4 h``."""
    whole = max(0, round(seconds))
    for unit, size, below, smaller in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit}" + (f" {rest} {below}" if rest else "")
    return f"{whole} s"


def clock(at: float) -> str:
    """A stamp (seconds since the Unix epoch) as date and time in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "~"


def _row(cells: Sequence[str], widths: Sequence[int], aligns: Sequence[Align], gap: str) -> str:
    padded = (f"{_cut(cell, w):{align}{w}}" for cell, w, align in zip(cells, widths, aligns, strict=True))
    return gap.join(padded).rstrip()


def printable(text: str) -> str:
    """What somebody wrote into the journal, without characters that would steer the reader's terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)
