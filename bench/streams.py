"""Simulated request streams of two arms that are alike until a fault is put on one of them.

A request has a size that both arms share; what makes traffic hard to judge is laid over it: batch wait, stragglers with
a Pareto tail, queueing bursts and a slow drift that both arms feel, and slow episodes, pauses, a wobble and bursts of
errors that each arm has for itself. The numbers are made up; what they are to have in common with real traffic is that
bad events come in clusters, and that the arms share some of those clusters and not others.

Arrays of two rows hold the arms: row BASELINE, row CANDIDATE. Times are seconds, latencies milliseconds.
"""

import functools
import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Sizes = npt.NDArray[np.int8]

BASELINE: Final = 0
CANDIDATE: Final = 1

SERVICE_MS: Final = (14.0, 22.0, 34.0, 62.0)
SIZE_SHARE: Final = (0.45, 0.33, 0.18, 0.04)
LARGEST: Final = len(SIZE_SHARE) - 1
SIZE_NOISE: Final = 0.2
BATCH_WAIT_MS: Final = 5.0
STRAGGLER_SHARE: Final = 0.03
STRAGGLER_TAIL: Final = 3.0

QUEUE_GAP_S: Final = 90.0
QUEUE_MEAN_S: Final = 4.0
QUEUE_DEPTH_MS: Final = 25.0
SLOW_GAP_S: Final = 240.0
SLOW_MEAN_S: Final = 5.0
SLOW_FACTOR: Final = 1.6
PAUSE_GAP_S: Final = 60.0
PAUSE_MS: Final = (100.0, 250.0)
WOBBLE: Final = 0.03
WOBBLE_MEMORY_S: Final = 30.0
DRIFT: Final = 0.08
DRIFT_PERIOD_S: Final = 7200.0

ERROR_RATE: Final = 0.0005
ERROR_GAP_S: Final = 600.0
ERROR_MEAN_S: Final = 3.0
ERROR_BURST_RATE: Final = 0.05

_CELL_S: Final = 0.1
"""Episodes begin and end on a grid of this width."""

LONG_RUN_SEED: Final = 20_260_901
LONG_RUN_CHUNKS: Final = 40
LONG_RUN_CHUNK_S: Final = 28_800
"""Four periods of the drift."""
LONG_RUN_RATE: Final = 4.0


@dataclass(frozen=True, slots=True)
class Kind:
    """``bursts`` multiplies how often bursts, episodes, pauses and error bursts come; ``clustered`` False is iid.

    slow_mean_s, error_mean_s: mean length of the slow episodes, of the bursts of errors, that an arm has for itself.
    slow_share, error_share: how much of the time they are, as a multiple of the default's.
    """

    name: str
    bursts: float
    clustered: bool = True
    slow_mean_s: float = SLOW_MEAN_S
    slow_share: float = 1.0
    error_mean_s: float = ERROR_MEAN_S
    error_share: float = 1.0


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("iid", 1.0, clustered=False),
        Kind("default", 1.0),
        Kind("heavy", 2.5),
        Kind("spells", 1.0, slow_mean_s=30.0, slow_share=2.0),
        Kind("spells15", 1.0, slow_mean_s=15.0, slow_share=2.0),
        Kind("spells60", 1.0, slow_mean_s=60.0, slow_share=2.0),
        Kind("spells120", 1.0, slow_mean_s=120.0, slow_share=2.0),
        Kind("fits", 1.0, error_mean_s=20.0, error_share=2.0),
    )
}
PROMISED: Final = ("iid", "default", "heavy")
"""Those on which the rule is to keep its promise. Spells and fits of one arm alone outlast its windows: its known
limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """Requests in order of arrival, as each arm would answer them. Draws are uniform in [0, 1), one per request.

    size: which of the SIZE_SHARE a request is. ms, error_rate, error_draw: two rows, one an arm. A request fails where
    its draw is below its error rate.
    phase: uniform in [0, 1), where in its cycle a periodic fault begins.
    """

    seconds: int
    arrival: Floats
    size: Sizes
    ms: Floats
    error_rate: Floats
    error_draw: Floats
    parity_draw: Floats
    split_draw: Floats
    copy_draw: Floats
    fault_draw: Floats
    phase: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LongRun:
    """What a kind of stream does in the long run, both arms together.

    p50, p95, p97, p99: latency quantiles in milliseconds. error_rate: share of requests that fail. size, ms and
    error_rates: the requests that this was measured on, the last two in two rows.
    """

    p50: float
    p95: float
    p97: float
    p99: float
    error_rate: float
    size: Sizes
    ms: Floats
    error_rates: Floats


def draw_stream(kind: Kind, rng: np.random.Generator, *, seconds: int, rate: float) -> Stream:
    """One stream of ``seconds`` with Poisson arrivals at ``rate`` a second."""
    n = int(rng.poisson(rate * seconds))
    arrival = np.sort(rng.random(n)) * seconds
    if kind.clustered:
        size, ms, error_rate = _clustered(kind, rng, arrival, seconds)
    else:
        pool = long_run(KINDS["default"])
        rows = rng.integers(pool.ms.shape[1], size=n)
        size, ms, error_rate = pool.size[rows], pool.ms[:, rows], pool.error_rates[:, rows]
    return Stream(
        seconds=seconds,
        arrival=arrival,
        size=size,
        ms=ms,
        error_rate=error_rate,
        error_draw=rng.random((2, n)),
        parity_draw=rng.random(n),
        split_draw=rng.random(n),
        copy_draw=rng.random(n),
        fault_draw=rng.random(n),
        phase=float(rng.random()),
    )


@functools.cache
def long_run(kind: Kind) -> LongRun:
    """Long-run figures of ``kind``; an iid stream is drawn from the default's, so it has the default's.

    Measured on streams of their own: no limit in the benchmark is set from a stream that is judged.
    """
    if not kind.clustered:
        return long_run(KINDS["default"])
    parts = []
    for chunk in range(LONG_RUN_CHUNKS):
        rng = np.random.default_rng([LONG_RUN_SEED, chunk])
        n = int(rng.poisson(LONG_RUN_RATE * LONG_RUN_CHUNK_S))
        arrival = np.sort(rng.random(n)) * LONG_RUN_CHUNK_S
        parts.append(_clustered(kind, rng, arrival, LONG_RUN_CHUNK_S))
    size = np.concatenate([part[0] for part in parts])
    ms = np.concatenate([part[1] for part in parts], axis=1)
    error_rates = np.concatenate([part[2] for part in parts], axis=1)
    p50, p95, p97, p99 = (float(q) for q in np.quantile(ms, (0.50, 0.95, 0.97, 0.99)))
    return LongRun(
        p50=p50,
        p95=p95,
        p97=p97,
        p99=p99,
        error_rate=float(error_rates.mean()),
        size=size,
        ms=ms,
        error_rates=error_rates,
    )


def _clustered(kind: Kind, rng: np.random.Generator, arrival: Floats, seconds: int) -> tuple[Sizes, Floats, Floats]:
    """(size, latency in milliseconds, error rate) of every request; the last two in two rows."""
    n = arrival.size
    cell = (arrival / _CELL_S).astype(np.intp)
    size = np.searchsorted(np.cumsum(SIZE_SHARE)[:-1], rng.random(n), side="right")
    work = np.asarray(SERVICE_MS)[size] * np.exp(SIZE_NOISE * rng.standard_normal(n))
    drift = 1.0 + DRIFT * np.sin(2.0 * np.pi * (arrival / DRIFT_PERIOD_S + rng.random()))
    queue = _episodes(rng, seconds, gap_s=QUEUE_GAP_S / kind.bursts, mean_s=QUEUE_MEAN_S, depth=QUEUE_DEPTH_MS)
    slow_gap_s = SLOW_GAP_S * (kind.slow_mean_s / SLOW_MEAN_S) / (kind.slow_share * kind.bursts)
    error_gap_s = ERROR_GAP_S * (kind.error_mean_s / ERROR_MEAN_S) / (kind.error_share * kind.bursts)
    ms, error_rate = np.empty((2, n)), np.empty((2, n))
    for arm in (BASELINE, CANDIDATE):
        straggles = rng.random(n) < STRAGGLER_SHARE
        slow = _episodes(rng, seconds, gap_s=slow_gap_s, mean_s=kind.slow_mean_s)
        factor = _wobble(rng, seconds)[arrival.astype(np.intp)] * np.where(slow[cell] > 0.0, SLOW_FACTOR, 1.0)
        factor[straggles] *= 1.0 + rng.pareto(STRAGGLER_TAIL, int(straggles.sum()))
        ms[arm] = work * drift * factor + BATCH_WAIT_MS * rng.random(n)
        ms[arm] += queue[cell] * (0.5 + rng.random(n))
        ms[arm] += _pause_left_ms(rng, arrival, seconds, gap_s=PAUSE_GAP_S / kind.bursts)
        broken = _episodes(rng, seconds, gap_s=error_gap_s, mean_s=kind.error_mean_s)
        error_rate[arm] = np.where(broken[cell] > 0.0, ERROR_BURST_RATE, ERROR_RATE)
    return size.astype(np.int8), ms, error_rate


def _episodes(
    rng: np.random.Generator, seconds: int, *, gap_s: float, mean_s: float, depth: float | None = None
) -> Floats:
    """The depth of the present episode in every cell, 0 outside; exponential with mean ``depth``, or 1.

    Episodes begin on average every ``gap_s`` and last ``mean_s``; some are under way when the stream begins.
    """
    cells = math.ceil(seconds / _CELL_S)
    before = 10.0 * mean_s
    count = int(rng.poisson((seconds + before) / gap_s))
    starts = rng.random(count) * (seconds + before) - before
    ends = starts + rng.exponential(mean_s, count)
    depths = rng.exponential(depth, count) if depth is not None else np.ones(count)
    present = np.zeros(cells)
    for start, end, deep in zip(starts / _CELL_S, ends / _CELL_S, depths, strict=True):
        if end > 0.0:
            span = present[max(0, int(start)) : max(0, math.ceil(end))]
            np.maximum(span, deep, out=span)
    return present


def _wobble(rng: np.random.Generator, seconds: int) -> Floats:
    """A factor for every second: the exponential of an AR(1) process with standard deviation WOBBLE."""
    keep = math.exp(-1.0 / WOBBLE_MEMORY_S)
    level, levels = WOBBLE * float(rng.standard_normal()), []
    for shock in (WOBBLE * math.sqrt(1.0 - keep * keep) * rng.standard_normal(seconds)).tolist():
        level = keep * level + shock
        levels.append(level)
    factors: Floats = np.exp(np.asarray(levels))
    return factors


def _pause_left_ms(rng: np.random.Generator, arrival: Floats, seconds: int, *, gap_s: float) -> Floats:
    """Milliseconds that each request waits for the end of the pause it arrives in, 0 outside pauses."""
    count = int(rng.poisson(seconds / gap_s))
    starts = np.concatenate([[-1.0], np.sort(rng.random(count)) * seconds])
    ends = starts + np.concatenate([[0.0], rng.uniform(*PAUSE_MS, count) / 1000.0])
    last = np.searchsorted(starts, arrival, side="right") - 1
    left_ms: Floats = np.maximum(0.0, ends[last] - arrival) * 1000.0
    return left_ms
