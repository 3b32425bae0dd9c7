"""The run as a small picture of plain characters: the candidate's weight and the p95 of both arms over time."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

COLUMNS: Final = 72
_MARGIN: Final = 12
_P95_ROWS: Final = 8
_BASELINE, _CANDIDATE, _BOTH, _LIMIT = "b", "c", "*", "-"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One look at the gateway: ``at`` seconds since the run was opened, weight in percent, recent p95 of each arm."""

    at: float
    weight: float
    baseline_p95_ms: float | None
    candidate_p95_ms: float | None


def chart(samples: Sequence[Sample], *, limit_ms: float, fault_at: float | None, decided_at: float | None) -> list[str]:
    """Lines of at most 84 columns, none without samples. ``fault_at`` and ``decided_at`` are on the samples' clock."""
    if not samples:
        return []
    end = max(samples[-1].at, 1.0)
    columns = _columns(samples, end)
    return [
        f"{'weight':<{_MARGIN}}share of live traffic for the candidate, percent",
        *_weight(columns),
        "",
        f"{'p95 ms':<{_MARGIN}}{_BASELINE} baseline  {_CANDIDATE} candidate  {_BOTH} both  {_LIMIT} limit L",
        *_p95(columns, limit_ms),
        *_axis(end, fault_at, decided_at),
    ]


def _columns(samples: Sequence[Sample], end: float) -> list[Sample]:
    """One sample a column: the last that is not younger; the first column has the first."""
    found, place = [], 0
    for column in range(COLUMNS):
        at = (column + 1) * end / COLUMNS
        while place + 1 < len(samples) and samples[place + 1].at <= at:
            place += 1
        found.append(samples[place])
    return found


def _weight(columns: Sequence[Sample]) -> Iterator[str]:
    """A row for each weight that was reached, so that 10 % is read as 10 %."""
    for weight in sorted({sample.weight for sample in columns if sample.weight > 0}, reverse=True) or [0.0]:
        cells = "".join("#" if sample.weight >= max(weight, 1e-9) else " " for sample in columns)
        yield _row(f"{weight:g}", cells)


def _p95(columns: Sequence[Sample], limit_ms: float) -> Iterator[str]:
    """Logarithmic: a fault is often ten times what is usual."""
    values = [ms for sample in columns for ms in (sample.baseline_p95_ms, sample.candidate_p95_ms) if ms]
    low, high = math.log(min([*values, limit_ms])), math.log(max([*values, limit_ms]) * 1.05)
    step = (high - low) / _P95_ROWS

    def level(ms: float | None) -> int | None:
        return None if not ms else min(_P95_ROWS - 1, int((math.log(ms) - low) / step))

    limit = level(limit_ms)
    for row in range(_P95_ROWS - 1, -1, -1):
        cells = "".join(
            _cell(level(s.baseline_p95_ms) == row, level(s.candidate_p95_ms) == row, limit == row) for s in columns
        )
        yield _row(_edge(math.exp(low + row * step)) if row % 2 == 0 else "", cells)


def _edge(ms: float) -> str:
    return f"{ms:,.0f}" if ms >= 10 else f"{ms:.2g}"


def _cell(baseline: bool, candidate: bool, limit: bool) -> str:
    if baseline and candidate:
        return _BOTH
    if baseline or candidate:
        return _BASELINE if baseline else _CANDIDATE
    return _LIMIT if limit else " "


def _axis(end: float, fault_at: float | None, decided_at: float | None) -> Iterator[str]:
    yield " " * (_MARGIN - 1) + "+" + "-" * COLUMNS
    marks = [" "] * COLUMNS
    told = [f"0 to {end:.0f} s"]
    for mark, at, what in (("F", fault_at, "fault begins"), ("D", decided_at, "decision")):
        if at is not None:
            place = min(COLUMNS - 1, max(0, int(at / end * COLUMNS)))
            marks[place] = mark if marks[place] == " " else "X"
            told.append(f"{mark} {what} at {at:.0f} s")
    told += ["X both"] if "X" in marks else []
    if "".join(marks).strip():
        yield " " * _MARGIN + "".join(marks).rstrip()
    yield " " * _MARGIN + ", ".join(told)


def _row(label: str, cells: str) -> str:
    return f"{label:>{_MARGIN - 2}} |{cells}".rstrip()
