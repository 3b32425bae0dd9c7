"""EMULATIONS of the decision rules that three other tools document. Not the tools, and none of their code.

Written by us from the tools' documentation, with the limits that the judge gets, on complete metrics without the
delay, the missing scrapes and the histogram error of a real metrics store: each is at its best here.

Flagger: every interval (1 min) each metric is compared with its range; a metric out of range, or without a value,
makes the check fail; failed checks are counted over the whole analysis and never reset; at the threshold it rolls
back. Promotion after as many good checks as the weights need.
Argo Rollouts: each metric is measured every interval (1 min, over the last 2 min); a metric that failed more than its
failureLimit rolls back; after `count` measurements the analysis has succeeded. A measurement without data is what the
user's expression makes of it; here it is no measurement.
Kayenta: at every look all minutes so far of both arms are put to a Mann-Whitney test per metric; the metric is High
when the confidence interval (98 %) of the shift lies above a tolerance of a quarter of the estimated shift; a High
metric fails the canary. Absolute limits and pairs have no place in it.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bench.counts import MINUTE_S, Minutes
from bench.ground import ALLOWED, ERROR_ALLOWED, PARITY_ALLOWED
from bench.outcome import Outcome
from bench.streams import BASELINE, CANDIDATE, Floats

RATE_LIMITS: Final = (ALLOWED[2], ERROR_ALLOWED, PARITY_ALLOWED)
RATE_NAMES: Final = ("lat_p99", "error", "parity")

KAYENTA_Z: Final = 2.326
"""The normal quantile of a two-sided 98 % interval."""
KAYENTA_TOLERANCE: Final = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Flagger:
    """threshold: failed checks in all. checks: good ones until it promotes (weight 5 to 50 in steps of 5)."""

    threshold: int = 5
    checks: int = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Argo:
    """failure_limit: failures of a metric that are still allowed. count: measurements in all. span: minutes of each."""

    failure_limit: int = 3
    count: int = 10
    span: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Kayenta:
    """every: minutes between looks, each at all minutes so far. length: minutes until the last look, which passes."""

    every: int = 10
    length: int = 60


def flagger(seen: Minutes, rule: Flagger) -> Outcome:
    """Flagger-like, minute by minute."""
    failed, good, passed_at = 0, 0, None
    for minute, rates in enumerate(seen.rates.tolist(), start=1):
        out = [name for name, (n, k), limit in _checks(rates) if n == 0 or k / n > limit]
        failed += bool(out)
        good += not out
        if failed >= rule.threshold:
            return Outcome(rolled_back_at=minute * MINUTE_S, passed_at=passed_at, metric=out[0])
        if good == rule.checks and passed_at is None:
            passed_at = minute * MINUTE_S
    return Outcome(rolled_back_at=None, passed_at=passed_at)


def argo(seen: Minutes, rule: Argo) -> Outcome:
    """Argo-like, minute by minute; the first measurement sees the one minute that there is."""
    failures = dict.fromkeys(RATE_NAMES, 0)
    passed_at = None
    for minute in range(1, len(seen.rates) + 1):
        rates = seen.rates[max(0, minute - rule.span) : minute].sum(axis=0)
        for name, (n, k), limit in _checks(rates.tolist()):
            failures[name] += n > 0 and k / n > limit
            if failures[name] > rule.failure_limit:
                return Outcome(rolled_back_at=minute * MINUTE_S, passed_at=passed_at, metric=name)
        if minute == rule.count:
            passed_at = minute * MINUTE_S
    return Outcome(rolled_back_at=None, passed_at=passed_at)


def kayenta(seen: Minutes, rule: Kayenta) -> Outcome:
    """Kayenta-like, at every look."""
    series = np.concatenate([seen.quantiles, seen.errors[:, :, None]], axis=2)
    for minute in range(rule.every, min(rule.length, len(series)) + 1, rule.every):
        for metric, name in enumerate(("lat_p50", "lat_p95", "lat_p99", "error")):
            if is_high(series[:minute, CANDIDATE, metric], series[:minute, BASELINE, metric]):
                return Outcome(rolled_back_at=minute * MINUTE_S, passed_at=None, metric=name)
    ended = len(series) >= rule.length
    return Outcome(rolled_back_at=None, passed_at=rule.length * MINUTE_S if ended else None)


def is_high(candidate: Floats, baseline: Floats) -> bool:
    """Mann-Whitney on two series of minutes: the interval of the shift lies above the tolerance.

    The interval is of the Hodges-Lehmann estimate, the median of all differences, by the normal approximation.
    Minutes without a value are left out; False when a series is too short for such an interval.
    """
    ours, theirs = candidate[~np.isnan(candidate)], baseline[~np.isnan(baseline)]
    n, m = ours.size, theirs.size
    if n == 0 or m == 0:
        return False
    differences = np.sort(np.subtract.outer(ours, theirs), axis=None)
    rank = int(np.floor(n * m / 2 - KAYENTA_Z * np.sqrt(n * m * (n + m + 1) / 12)))
    if rank < 1:
        return False
    shift = float(np.median(differences))
    return bool(differences[rank - 1] > KAYENTA_TOLERANCE * abs(shift))


def _checks(rates: list[list[int]]) -> list[tuple[str, tuple[int, int], float]]:
    """(metric, (n, k), allowed share). A p99 above its limit is the same as more than 1 % of answers beyond it."""
    return [(name, (n, k), limit) for name, (n, k), limit in zip(RATE_NAMES, rates, RATE_LIMITS, strict=True)]
