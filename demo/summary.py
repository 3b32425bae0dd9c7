"""What several scenarios came to, one line each."""

import textwrap
from collections.abc import Mapping

from demo.frame import WIDTH
from demo.result import Result

_HEAD = ("scenario", "expected", "outcome", "at", "metric", "rule", "fault to", "to zero", "clients", "wrong")
_HEAD_2 = ("", "", "", "", "", "", "decision", "", "failed", "answers")


def table(results: Mapping[str, Result | None]) -> list[str]:
    """A line a scenario, None for one that could not be played; below them what speaks against each.

    A mark before the name says how it is: ``!`` not as expected, ``~`` tolerated.
    """
    rows = [_HEAD, _HEAD_2, *(_row(name, result) for name, result in results.items())]
    marks = [" ", " ", *(_mark(result) for result in results.values())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        f"{mark} {' '.join(f'{cell:<{width}}' for cell, width in zip(row, widths, strict=True))}".rstrip()
        for mark, row in zip(marks, rows, strict=True)
    ]
    for name, result in results.items():
        for objection in ["it could not be played; the reason is above"] if result is None else result.objections:
            lines += textwrap.wrap(f"{name}: {objection}", WIDTH, initial_indent="! ", subsequent_indent="    ")
    if "~" in marks:
        lines.append("~ not promoted, but only held: allowed here, though less clear than a rollback")
    return lines


def _row(name: str, result: Result | None) -> tuple[str, ...]:
    if result is None:
        return (name, "", "not played", *[""] * (len(_HEAD) - 3))
    after_s, zero_ms = result.fault_to_decision_s, result.time_to_zero_ms
    return (
        name,
        result.expected,
        result.outcome,
        f"{result.weight:g} %",
        result.metric or "-",
        result.rule or "-",
        "-" if after_s is None else f"{after_s:.1f} s",
        "-" if zero_ms is None else f"{zero_ms:.0f} ms",
        f"{result.locust_failures}/{result.locust_requests}",
        f"{result.wrong_answers}/{result.compared_answers}",
    )


def _mark(result: Result | None) -> str:
    if result is None or not result.passed:
        return "!"
    return "~" if result.tolerated else " "
