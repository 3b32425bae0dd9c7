"""Runs that never were: recorded requests dealt to two arms and put before the real judge, step by step.

``split``: every request goes to one of the arms by chance, as the gateway splits, so the arms are alike and share every
spell. ``apart``: the candidate is the baseline of some minutes later, so each arm has its spells to itself: the hard
case. ``slower``: the candidate takes twice as long for everything.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from gateway.core.calibration.recording import Counts, Recording, cells_of
from gateway.core.outlook import expect, residual, stretched_s
from gateway.core.plan import Plan
from gateway.core.run import Run
from gateway.core.types import FULL_WEIGHT
from gateway.core.verdict import Judge, VerdictName

Mode = Literal["split", "apart", "slower"]
Ended = Literal["promoted", "rolled_back", "held", "under_way"]
APART_S: Final = (180.0, 1800.0)
"""How much later the candidate's windows are, at least and at most (an eighth of a short recording)."""
A_DEAL: Final = 64
"""Windows dealt in one go."""


@dataclass(frozen=True, slots=True)
class Play:
    """How a run ended, after how many seconds."""

    ended: Ended
    after_s: float


Deal = Callable[[int, int, float, float], tuple[Counts, Counts, Counts]]
"""(first window, how many, live share, share of copies) to (candidate's live, baseline's, copies) requests."""


def play(recording: Recording, plan: Plan, mode: Mode, chance: np.random.Generator, *, longest_s: float) -> Play:
    """One run of ``plan`` from a place in the recording that is drawn; its end is joined to its beginning."""
    run, width, window = begun(plan, recording.rate), recording.width_s, 0
    judge, deal = Judge(run.plan, first_window=0), _dealer(recording, mode, chance)
    _start(judge, run, window, width)
    last = math.ceil(longest_s / width)
    while window < last:
        share, copied = _shares(run)
        live, theirs, copies = (part.tolist() for part in deal(window, A_DEAL, share, copied))
        for own, base, copy in zip(live, theirs, copies, strict=True):
            candidate = [a + b for a, b in zip(own, copy, strict=True)]
            # What the candidate answers is copied to the baseline, too, for the pair alone.
            pairs = sum(copy) + int(chance.binomial(sum(own), plan.copies / FULL_WEIGHT))
            cells = cells_of(candidate, base, pairs, recording.order)
            judge.close_window(window, cells, compiles=0, answered=sum(candidate))
            window += 1
            if window % plan.rule.promote_every_windows:
                continue
            verdict = judge.verdict(now=window * width, foresee=False).name
            if verdict is VerdictName.ROLL_BACK:
                return Play("rolled_back", window * width)
            if verdict is VerdictName.INCONCLUSIVE:
                return Play("held", window * width)
            if verdict is VerdictName.ADVANCE:
                if run.is_last_step:
                    return Play("promoted", window * width)
                run = _at_step(run, run.step + 1, recording.rate)
                _start(judge, run, window, width)
                break  # what is dealt from here on is dealt at the new weight
    return Play("under_way", window * width)


def begun(plan: Plan, rate: float) -> Run:
    """A run of ``plan`` at its first step, with what a start at ``rate`` requests a second would freeze in it."""
    run = Run(run_id="", plan=plan, plan_digest="", started_at=0.0, who="", reason="")
    return _at_step(replace(run, plan=replace(plan, horizon_s=expect(run, rate).horizon_s)), 0, rate)


def _at_step(run: Run, step: int, rate: float) -> Run:
    moved = replace(run, step=step)
    kept = residual(run.plan, rate) if moved.step_weight == FULL_WEIGHT else None
    return replace(moved, max_step_s=stretched_s(moved, rate), residual=kept)


def _start(judge: Judge, run: Run, window: int, width_s: float) -> None:
    judge.start_step(
        weight_bp=run.step_weight,
        next_weight_bp=run.next_weight,
        window=window,
        now=window * width_s,
        control=run.has_control,
        baseline_required=run.has_control,
        baking=run.is_last_step,
        max_step_s=run.max_step_s,
    )


def _shares(run: Run) -> tuple[float, float]:
    """(live share of the candidate, share of the baseline's requests that is copied to it)."""
    live = min(run.step_weight, FULL_WEIGHT - run.kept_by_baseline)
    return live / FULL_WEIGHT, run.copies_share / FULL_WEIGHT


def _dealer(recording: Recording, mode: Mode, chance: np.random.Generator) -> Deal:
    windows = recording.windows
    begin = int(chance.integers(windows))
    least, most = (max(1, min(round(s / recording.width_s), windows // 8)) for s in APART_S)
    later = int(chance.integers(least, most + 1)) if mode == "apart" else 0
    source = recording.doubled if mode == "slower" else recording.counts

    def deal(first: int, count: int, share: float, copied: float) -> tuple[Counts, Counts, Counts]:
        # A draw for each request by itself: that is what the gateway's split does.
        places = (begin + first + np.arange(count)) % windows
        here = recording.counts[places]
        if mode == "split":
            live = chance.binomial(here, share)
            return live, here - live, chance.binomial(here - live, copied)
        there = source[(places + later) % windows]
        live = chance.binomial(there, share)
        return live, chance.binomial(here, 1.0 - share), chance.binomial(there - live, copied)

    return deal
