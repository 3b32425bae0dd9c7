"""Trials, summed up: false rollbacks of healthy candidates, and how soon and how dearly faults are found."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from bench.faults import FAULTS, GROSS, HEALTHY
from bench.trials import OURS, Trial

FALSE_ROLLBACKS_ALLOWED: Final = 0.05
"""Of the runs of one seed set: the rule's own promise."""
FOUND_NEEDED: Final = 0.95
"""Of the runs with a gross fault, by the judge with copies. One that sees nothing would keep the promise above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRow:
    """Healthy candidates, one rule, one seed set. Counts of runs.

    rolled_back: within the run. before_pass: of these, before the rule had let the candidate on. passed: let on first.
    passed_median_s: seconds by which half of the runs were let on, None where fewer were.
    """

    kind: str
    ground: str
    weight_bp: int
    rule: str
    seed: int
    runs: int
    rolled_back: int
    before_pass: int
    passed: int
    passed_median_s: float | None

    @property
    def breaks_promise(self) -> bool:
        return self.rule in OURS and self.rolled_back > FALSE_ROLLBACKS_ALLOWED * self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRow:
    """One scenario, one rule, all seed sets.

    early: rolled back before the fault began, which is a false alarm; all that follows is about the other runs.
    found: rolled back. passed_first: let on before that. median_s, p95_s: from the beginning of the fault, None where
    too few rolled back to say. bad_live: mean of the candidate's bad live requests up to the rollback or the end.
    """

    fault: str
    weight_bp: int
    rule: str
    runs: int
    early: int
    found: int
    passed_first: int
    median_s: float | None
    p95_s: float | None
    bad_live: float | None

    @property
    def misses_gross_fault(self) -> bool:
        return self.rule == "ours" and self.fault in GROSS and self.found < FOUND_NEEDED * (self.runs - self.early)


def null_rows(trials: Iterable[Trial]) -> list[NullRow]:
    """One row per stream, ground, weight, rule and seed set, in the order of their first trial."""
    groups: dict[tuple[str, str, int, str, int], list[Trial]] = {}
    for trial in trials:
        if trial.fault == HEALTHY.name:
            key = (trial.kind, trial.ground, trial.weight_bp, trial.rule, trial.seed)
            groups.setdefault(key, []).append(trial)
    rows = []
    for (kind, ground, weight_bp, rule, seed), group in groups.items():
        back = [trial.outcome for trial in group if trial.outcome.rolled_back_at is not None]
        passed = [trial.outcome.passed_at for trial in group if trial.outcome.passed_first]
        rows.append(
            NullRow(
                kind=kind,
                ground=ground,
                weight_bp=weight_bp,
                rule=rule,
                seed=seed,
                runs=len(group),
                rolled_back=len(back),
                before_pass=sum(not outcome.passed_first for outcome in back),
                passed=len(passed),
                passed_median_s=_at_share([at for at in passed if at is not None], 0.50, of=len(group)),
            )
        )
    return rows


def fault_rows(trials: Iterable[Trial]) -> list[FaultRow]:
    """One row per fault, weight and rule, in the order of their first trial."""
    groups: dict[tuple[str, int, str], list[Trial]] = {}
    for trial in trials:
        if trial.fault != HEALTHY.name:
            groups.setdefault((trial.fault, trial.weight_bp, trial.rule), []).append(trial)
    return [_fault_row(*key, group) for key, group in groups.items()]


def _fault_row(fault: str, weight_bp: int, rule: str, group: Sequence[Trial]) -> FaultRow:
    begins = FAULTS[fault].begins_s
    times: list[float] = []
    watched: list[Trial] = []
    for trial in group:
        at = trial.outcome.rolled_back_at
        if at is None or at > begins:
            watched.append(trial)
        if at is not None and at > begins:
            times.append(at - begins)
    return FaultRow(
        fault=fault,
        weight_bp=weight_bp,
        rule=rule,
        runs=len(group),
        early=len(group) - len(watched),
        found=len(times),
        passed_first=sum(trial.outcome.passed_first for trial in watched),
        median_s=_at_share(times, 0.50, of=len(watched)),
        p95_s=_at_share(times, 0.95, of=len(watched)),
        bad_live=round(sum(trial.bad_live for trial in watched) / len(watched), 1) if watched else None,
    )


def _at_share(times: Sequence[float], share: float, *, of: int) -> float | None:
    """The time by which it had happened in ``share`` of ``of`` runs; None when it never had in as many."""
    rank = math.ceil(share * of)
    return sorted(times)[rank - 1] if 0 < rank <= len(times) else None


def problems(nulls: Iterable[NullRow], faults: Iterable[FaultRow]) -> list[str]:
    """What the judge did worse than it may."""
    return [
        *(
            f"{row.rule}: {row.rolled_back} of {row.runs} healthy candidates rolled back ({row.kind}, {row.ground},"
            f" {row.weight_bp / 100:g} %, seed set {row.seed}); allowed: {FALSE_ROLLBACKS_ALLOWED:.0%}"
            for row in nulls
            if row.breaks_promise
        ),
        *(
            f"{row.rule}: {row.fault} found in {row.found} of {row.runs - row.early} runs; needed: {FOUND_NEEDED:.0%}"
            for row in faults
            if row.misses_gross_fault
        ),
    ]
