"""An acceptance sheet: facts with where each came from, and checks that were passed, failed or could not be made.

A field that has no value says why; nothing is left out silently. The sheet is accepted when no check failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

Value = str | int | float | bool


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    NOT_AVAILABLE = "not available"


@dataclass(frozen=True, slots=True)
class Fact:
    """``source`` is the command or counter; ``why`` is there exactly when ``value`` is not."""

    name: str
    value: Value | None
    source: str
    why: str = ""

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
    """Rows of equal kind; each column has its source. An empty cell is no value: None is shown as not available."""

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
class Sheet:
    title: str
    note: str
    checks: tuple[Check, ...]
    sections: tuple[Section, ...]
    tables: tuple[Table, ...]

    @property
    def accepted(self) -> bool:
        """Something was checked, and nothing failed."""
        outcomes = [check.outcome for check in self.checks]
        return Outcome.PASSED in outcomes and Outcome.FAILED not in outcomes


def markdown(sheet: Sheet) -> str:
    """The sheet for people."""
    lines = [
        f"# {sheet.title}",
        "",
        f"**{'ACCEPTED' if sheet.accepted else 'NOT ACCEPTED'}.** {sheet.note}".rstrip(),
        "",
    ]
    lines += ["## Checks", ""]
    lines += _grid(
        ("check", "outcome", "found", "limit", "from"),
        [(each.name, str(each.outcome), _with(each.found, each.why), each.limit, each.source) for each in sheet.checks],
    )
    for section in sheet.sections:
        facts = [
            (each.name, f"not available: {each.why}" if each.value is None else _shown(each.value), each.source)
            for each in section.facts
        ]
        lines += ["", f"## {section.title}", "", *_grid(("what", "value", "from"), facts)]
    for table in sheet.tables:
        lines += ["", f"## {table.title}", ""]
        if not table.rows:
            lines.append(f"Not available: {table.why}")
            continue
        rows = [tuple("not available" if cell is None else _shown(cell) for cell in row) for row in table.rows]
        lines += [*_grid(tuple(name for name, _ in table.columns), rows), ""]
        lines += [f"- {name}: {source}" for name, source in table.columns]
        if table.why:
            lines.append(f"- {table.why}")
    return "\n".join(lines) + "\n"


def _with(found: str, why: str) -> str:
    return f"{found}; {why}" if found and why else found or why


def _grid(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
