"""The calibration of a plan: how often it would blame a candidate that is as good as the baseline, and what follows."""

import math
import statistics
from dataclasses import dataclass
from typing import Final

import numpy as np

from gateway.core.calibration.figures import interval, together
from gateway.core.calibration.plays import Mode, begun, play
from gateway.core.calibration.recording import Recording, not_played, playable
from gateway.core.plan import LATENCY, MetricId, Plan

DEFAULT: Final = "default"
CAUTIOUS: Final = "cautious"
PRESETS: Final = (DEFAULT, CAUTIOUS)
RUNS: Final = 80
"""Of each kind: so many without a false rollback show that there are fewer than 5 %, and take less than a minute."""
FALSE_ALLOWED: Final = 0.05
LONGEST_SPELL: Final = 1.5
"""Windows (15 s of the default rule) beyond which bets on narrow windows are not kept (decision rule, table B)."""
FOUND_WITHIN_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """Runs with arms that are alike. low, high: 95 % interval of the rate of those that were rolled back."""

    preset: str
    mode: Mode
    runs: int
    rolled_back: int
    promoted: int
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Spell:
    """For how long bad events of a metric come together; None: too few to say; 0: none seen, less than a window.

    rate, allowed: the baseline's own share of bad events, and what the plan allows.
    """

    metric: str
    rate: float
    allowed: float
    lasts_s: float | None


@dataclass(frozen=True, slots=True)
class Found:
    """A candidate with doubled latencies. median_s: from the beginning of the run; None: not within an hour."""

    preset: str
    runs: int
    rolled_back: int
    median_s: float | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """What came of it. ``requests_per_s``: of the baseline while there was traffic. ``why``: for the preset."""

    windows: int
    window_s: float
    requests: int
    requests_per_s: float
    exact_windows: int
    alarms: list[FalseAlarms]
    spells: list[Spell]
    found: list[Found]
    preset: str
    why: str
    seed: int
    notes: list[str]


def calibrate(recording: Recording, plan: Plan, *, seed: int, runs: int = RUNS) -> Calibration:
    """Plays ``runs`` runs of each kind on the recording. The same seed gives the same figures."""
    plans = {preset: playable(plan, cautious=preset == CAUTIOUS) for preset in PRESETS}
    alarms = [_alarms(recording, plans[p], p, mode, seed, runs) for mode in _ALIKE for p in PRESETS]
    spells = [
        _spell(recording, limit.metric, limit.allowed)
        for limit in plans[DEFAULT].metrics
        if limit.metric in LATENCY or limit.metric is MetricId.ERROR
    ]
    late = any(limit.metric in LATENCY for limit in plan.metrics)
    found = [_found(recording, plans[p], p, seed, max(1, runs // 2)) for p in PRESETS] if late else []
    preset, why = _preset(alarms, spells, recording.width_s)
    return Calibration(
        windows=recording.windows,
        window_s=recording.width_s,
        requests=recording.requests,
        requests_per_s=recording.rate,
        exact_windows=recording.exact,
        alarms=alarms,
        spells=spells,
        found=found,
        preset=preset,
        why=why,
        seed=seed,
        notes=not_played(plan),
    )


_ALIKE: Final[tuple[Mode, ...]] = ("split", "apart")


def _chances(seed: int, mode: Mode, run: int) -> np.random.Generator:
    """Of each run its own, and both presets have the same: they are compared on the same luck."""
    return np.random.default_rng((seed, ("split", "apart", "slower").index(mode), run))


def _alarms(recording: Recording, plan: Plan, preset: str, mode: Mode, seed: int, runs: int) -> FalseAlarms:
    longest_s = begun(plan, recording.rate).plan.horizon_s
    ends = [play(recording, plan, mode, _chances(seed, mode, run), longest_s=longest_s).ended for run in range(runs)]
    rolled_back = ends.count("rolled_back")
    low, high = interval(rolled_back, runs)
    return FalseAlarms(preset, mode, runs, rolled_back, ends.count("promoted"), low, high)


def _found(recording: Recording, plan: Plan, preset: str, seed: int, runs: int) -> Found:
    ends = [
        play(recording, plan, "slower", _chances(seed, "slower", run), longest_s=FOUND_WITHIN_S) for run in range(runs)
    ]
    times = [each.after_s if each.ended == "rolled_back" else math.inf for each in ends]
    median = statistics.median(times)
    return Found(preset, runs, runs - times.count(math.inf), None if median == math.inf else median)


def _spell(recording: Recording, metric: MetricId, allowed: float) -> Spell:
    events, bad = recording.series(metric)
    lag = together(events, bad)
    lasts = None if lag is None else 0.0 if lag == 1 else lag * recording.width_s
    return Spell(str(metric), int(bad.sum()) / max(1, int(events.sum())), allowed, lasts)


def _preset(alarms: list[FalseAlarms], spells: list[Spell], width_s: float) -> tuple[str, str]:
    rates = {each.preset: each.rolled_back / each.runs for each in alarms if each.mode == "apart"}
    default, cautious = rates[DEFAULT], rates[CAUTIOUS]
    longest = max(spells, key=lambda spell: spell.lasts_s or 0.0)
    apart = f"{100 * default:.3g} % false rollbacks with spells of each arm's own"
    if default > FALSE_ALLOWED >= cautious:
        return CAUTIOUS, f"{apart} with the default bets, {100 * cautious:.3g} % with the cautious ones"
    if (longest.lasts_s or 0.0) > LONGEST_SPELL * width_s:
        return CAUTIOUS, f"bad events of {longest.metric} come together for about {longest.lasts_s:g} s"
    if default > FALSE_ALLOWED:
        beyond = "the cautious bets do no better; look at the limits, and at what ails the baseline"
        return DEFAULT, f"{apart} are more than {100 * FALSE_ALLOWED:g} %, and {beyond}"
    return DEFAULT, f"{apart}, and no spells beyond {LONGEST_SPELL * width_s:g} s"
