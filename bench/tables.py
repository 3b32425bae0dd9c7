"""The tables for people, in Markdown, so that what is printed can stand in the documentation as it is."""

import statistics
from collections.abc import Callable, Iterable, Sequence

from bench.scoring import FaultRow, NullRow
from bench.trials import OURS


def null_table(rows: Sequence[NullRow]) -> str:
    """False rollbacks. The judge: of the runs of each seed set; a peer: share of all runs, and before it had passed."""
    return _by_case(rows, lambda rule, found: _own_cell(found) if rule in OURS else _peer_cell(found))


def pass_table(rows: Sequence[NullRow]) -> str:
    """Share of healthy candidates that were let on, and the median of the seconds until then over the seed sets."""
    return _by_case(rows, lambda _, found: _passed_cell(found))


def _by_case(rows: Sequence[NullRow], cell: Callable[[str, Sequence[NullRow]], str]) -> str:
    rules = list(dict.fromkeys(row.rule for row in rows))
    cases: dict[tuple[str, str, int], list[NullRow]] = {}
    for row in rows:
        cases.setdefault((row.kind, row.ground, row.weight_bp), []).append(row)
    body = [
        [kind, ground, f"{weight_bp / 100:g} %", *(cell(rule, [r for r in found if r.rule == rule]) for rule in rules)]
        for (kind, ground, weight_bp), found in cases.items()
    ]
    return _markdown(["stream", "limits", "weight", *rules], body)


def _own_cell(rows: Sequence[NullRow]) -> str:
    return " · ".join(f"{row.rolled_back}/{row.runs}" for row in rows)


def _peer_cell(rows: Sequence[NullRow]) -> str:
    runs = sum(row.runs for row in rows)
    rolled_back, before_pass = sum(row.rolled_back for row in rows), sum(row.before_pass for row in rows)
    return f"{_share(rolled_back, runs)} ({_share(before_pass, runs)})"


def _passed_cell(rows: Sequence[NullRow]) -> str:
    share = _share(sum(row.passed for row in rows), sum(row.runs for row in rows))
    medians = [row.passed_median_s for row in rows if row.passed_median_s is not None]
    return f"{share} · {_seconds(statistics.median(medians))} s" if len(medians) == len(rows) else share


def fault_table(rows: Sequence[FaultRow]) -> str:
    """Found · median / 95th percentile seconds · mean bad live requests; in brackets let on before that."""
    rules = list(dict.fromkeys(row.rule for row in rows))
    by_cell = {(row.fault, row.rule): row for row in rows}
    faults = dict.fromkeys(row.fault for row in rows)
    return _markdown(
        ["fault", *rules], [[fault, *(_fault_cell(by_cell[fault, rule]) for rule in rules)] for fault in faults]
    )


def _fault_cell(row: FaultRow) -> str:
    watched = row.runs - row.early
    early = f"; {_share(row.early, row.runs)} rolled back before it" if row.early else ""
    if not watched:
        return early.removeprefix("; ")
    parts = [_share(row.found, watched)]
    if row.found:
        parts.append(f"{_seconds(row.median_s)} / {_seconds(row.p95_s)} s")
    parts.append(f"{row.bad_live:.0f} bad" if row.bad_live is not None else "")
    passed = f" (passed {_share(row.passed_first, watched)})" if row.passed_first else ""
    return " · ".join(parts) + passed + early


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _share(part: int, of: int) -> str:
    return f"{100 * part / of:.3g} %" if of else "–"


def _markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(head)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *body))
