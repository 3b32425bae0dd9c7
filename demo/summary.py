"""What several scenarios came to, one line each."""

from collections.abc import Sequence

from demo.result import Result


def table(results: Sequence[Result]) -> list[str]:
    """A line a scenario, at most 100 columns; the objections to those that did not end as they should."""
    head = ("scenario", "expected", "outcome", "at", "metric", "rule", "fault to", "to zero", "clients", "wrong")
    rows = [head, ("", "", "", "", "", "", "decision", "", "failed", "answers"), *(_row(result) for result in results)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() + mark
        for row, mark in zip(rows, ["", "", *(_mark(result) for result in results)], strict=True)
    ]
    for result in results:
        lines += [f"  ! {result.scenario}: {objection}" for objection in result.objections]
    return lines


def _row(result: Result) -> tuple[str, ...]:
    after_s, zero_ms = result.fault_to_decision_s, result.time_to_zero_ms
    return (
        result.scenario,
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


def _mark(result: Result) -> str:
    return "" if result.passed else "  <- NOT as expected"
