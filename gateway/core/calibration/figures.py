"""Numbers of a calibration: how sure a rate is, and for how long bad events come together."""

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from gateway.core.calibration.recording import Counts

TREND_WINDOWS: Final = 90
"""What changes over more windows than this is the day, not a spell."""
LEAST_BAD: Final = 20
FALLEN: Final = 1.0 / math.e


def interval(hits: int, n: int, *, miss: float = 0.05) -> tuple[float, float]:
    """Clopper and Pearson's interval of a rate: ``hits`` in ``n``, beyond it with a chance of at most ``miss``."""
    low = _root(lambda p: 1.0 - _at_most(hits - 1, n, p), miss / 2.0) if hits else 0.0
    high = 1.0 if hits == n else _root(lambda p: -_at_most(hits, n, p), -miss / 2.0)
    return low, high


def _at_most(hits: int, n: int, p: float) -> float:
    return math.fsum(math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(hits + 1))


def _root(rising: Callable[[float], float], target: float) -> float:
    """Where a rising function of a share reaches ``target``."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2.0


def together(events: Counts, bad: Counts) -> int | None:
    """For how many windows a bad time lasts: the lag at which the shares of bad events have become strangers.

    1: no longer than a window. None: too few bad events to say.
    """
    if int(bad.sum()) < LEAST_BAD:
        return None
    there = events > 0
    shares = np.where(there, bad / np.maximum(events, 1), 0.0)
    shares = np.where(there, shares - _trend(shares, there), 0.0)
    variance = float((shares**2).sum()) / max(1, int(there.sum()))
    if variance == 0.0:
        return 1
    for lag in range(1, len(shares) // 2):
        both = there[lag:] & there[:-lag]
        alike = float((shares[lag:] * shares[:-lag] * both).sum()) / max(1, int(both.sum()))
        if alike < FALLEN * variance:
            return lag
    return len(shares) // 2


def _trend(shares: npt.NDArray[np.float64], there: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Mean of the windows around each."""
    width = min(TREND_WINDOWS, len(shares))
    ones = np.ones(width)
    total = np.convolve(shares, ones, mode="same")
    counted = np.convolve(there.astype(float), ones, mode="same")
    return np.asarray(total / np.maximum(counted, 1.0))
