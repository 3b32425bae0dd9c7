"""An acceptance sheet: facts with where each came from, and checks that were passed, failed or could not be made.

A field that has no value says why; nothing is left out silently. The sheet is accepted when no check failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

STOP_RULE: Final = (
    "Do not expand: isolate the case that failed, change one thing at a time, and keep the old environment serving."
)

Value = str | int | float | bool


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_AVAILABLE = "not available"


@dataclass(frozen=True, slots=True)
class Fact:
    """``source`` is the command or counter; ``why`` is there exactly when ``value`` is not. ``unit``: s, ms, bytes."""

    name: str
    value: Value | None
    source: str
    why: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if (self.value is None) != bool(self.why):
            raise ValueError(f"{self.name}: got value {self.value!r} and reason {self.why!r}, allowed is one of them")


@dataclass(frozen=True, slots=True)
class Check:
    """What was found against what is allowed; ``why`` names what is wrong or missing."""

    name: str
    outcome: Outcome
    found: str
    limit: str
    source: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of equal kind; each column has its source. None is shown as not available. ``why``: a sentence, without rows
    the reason for that.
    """

    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Value | None, ...], ...]
    why: str = ""

    def __post_init__(self) -> None:
        if any(len(row) != len(self.columns) for row in self.rows):
            raise ValueError(f"{self.title}: a row has not {len(self.columns)} cells")
        if not self.rows and not self.why:
            raise ValueError(f"{self.title}: has no rows and no reason for it")


@dataclass(frozen=True, slots=True)
class Listing:
    """Lines to copy, and what they are for; ``why`` is there exactly when ``lines`` are not."""

    title: str
    purpose: str
    lines: tuple[str, ...]
    why: str = ""

    def __post_init__(self) -> None:
        if bool(self.lines) == bool(self.why):
            raise ValueError(f"{self.title}: got lines {self.lines} and reason {self.why!r}, allowed is one of them")


@dataclass(frozen=True, slots=True)
class Sheet:
    title: str
    note: str
    checks: tuple[Check, ...]
    listing: Listing
    sections: tuple[Section, ...]
    tables: tuple[Table, ...]

    @property
    def accepted(self) -> bool:
        """Something was checked, and nothing failed."""
        return bool(self._of(Outcome.PASSED)) and not self._of(Outcome.FAILED)

    @property
    def verdict(self) -> str:
        """In one line: how many checks, and the names of those that did not pass."""
        failed, missing = self._of(Outcome.FAILED), self._of(Outcome.NOT_AVAILABLE)
        parts = [f"{len(self._of(Outcome.PASSED))} of {len(self.checks)} checks passed"]
        parts += [f"failed: {', '.join(failed)}"] if failed else []
        parts += [f"could not be made: {', '.join(missing)}"] if missing else []
        return f"{'ACCEPTED' if self.accepted else 'NOT ACCEPTED'}: {'; '.join(parts)}."

    def _of(self, outcome: Outcome) -> list[str]:
        return [check.name for check in self.checks if check.outcome is outcome]


def markdown(sheet: Sheet) -> str:
    """The sheet for people."""
    lines = [f"# {sheet.title}", "", f"**{sheet.verdict}**"]
    lines += ["", sheet.note] if sheet.note else []
    if not sheet.accepted:
        lines += ["", STOP_RULE]
    lines += ["", "## Checks", ""]
    lines += _grid(
        ("check", "outcome", "found", "allowed", "from"),
        [
            (each.name, _outcome(each.outcome), _with(each.found, each.why), each.limit, each.source)
            for each in sheet.checks
        ],
    )
    lines += ["", f"## {sheet.listing.title}", ""]
    if sheet.listing.lines:
        lines += [sheet.listing.purpose, "", "```yaml", *sheet.listing.lines, "```"]
    else:
        lines.append(f"None: {sheet.listing.why}")
    for section in sheet.sections:
        facts = [(each.name, _value(each), each.source) for each in section.facts]
        lines += ["", f"## {section.title}", "", *_grid(("what", "value", "from"), facts)]
    explained: set[tuple[tuple[str, str], ...]] = set()
    for table in sheet.tables:
        lines += ["", f"## {table.title}", ""]
        if not table.rows:
            lines.append(table.why)
            continue
        rows = [tuple("not available" if cell is None else shown(cell) for cell in row) for row in table.rows]
        lines += [*_grid(tuple(name for name, _ in table.columns), rows), ""]
        if table.columns in explained:
            lines.append("- columns as above")
        else:
            lines += [f"- {name}: {source}" for name, source in table.columns]
        explained.add(table.columns)
        if table.why:
            lines.append(f"- {table.why}")
    return "\n".join(lines) + "\n"


def _value(fact: Fact) -> str:
    return f"not available: {fact.why}" if fact.value is None else shown(fact.value, fact.unit)


def _outcome(outcome: Outcome) -> str:
    return str(outcome) if outcome is Outcome.PASSED else f"**{outcome}**"


def _with(found: str, why: str) -> str:
    return f"{found}; {why}" if found and why else found or why


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]


def _cell(text: str) -> str:
    """A pipe would end the cell, an angle bracket begin a tag, a line break end the table."""
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def shown(value: Value, unit: str = "") -> str:
    """For people: four digits of a fraction, thousands apart, bytes in MiB."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if unit == "bytes" and not isinstance(value, str) and value >= 2**20:
        return f"{value / 2**20:,.1f} MiB"
    if isinstance(value, float):
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    else:
        text = f"{value:,}" if isinstance(value, int) else value
    return f"{text} {unit}" if unit else text
