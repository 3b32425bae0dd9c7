"""Limit and rate from what warm-up measured, fixed before the run so that the run cannot choose its own bar."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from wire.health import HealthBody

LIMIT_FACTOR: Final = 10.0
LOAD_SHARE: Final = 0.25


@dataclass(frozen=True, slots=True)
class Sizing:
    """``limit_ms`` is L; ``rate`` is requests a second; ``slower`` names the arm that both follow."""

    limit_ms: float
    rate: float
    slower: str
    capacity: dict[str, float]


def size(arms: Mapping[str, HealthBody], *, shares: Mapping[str, float], largest: Mapping[str, str]) -> Sizing:
    """From the warm-up tables of both arms and the share of requests that each bucket takes.

    ``largest`` names the largest bucket of each arm; L is ten times the slower warm median of these. An arm's capacity
    is what one text after the other would reach: 1 / (sum of share x warm median of batch 1). The rate is a quarter of
    the smaller capacity.
    Raises ValueError naming an arm and bucket without a warm median.
    """
    shares = _alone(shares)
    medians = {name: {report.bucket: report.warm_s for report in body.warm_up} for name, body in arms.items()}
    for name, table in medians.items():
        for bucket in (*shares, largest[name]):
            if not table.get(bucket, 0.0) > 0.0:
                raise ValueError(f"{name}: warm-up reported no warm median for bucket {bucket}")
    capacity = {
        name: 1.0 / sum(share * table[bucket] for bucket, share in shares.items()) for name, table in medians.items()
    }
    slower = min(capacity, key=lambda name: capacity[name])
    limit_ms = LIMIT_FACTOR * 1000.0 * max(table[largest[name]] for name, table in medians.items())
    return Sizing(float(math.ceil(limit_ms)), round(LOAD_SHARE * capacity[slower], 2), slower, capacity)


def _alone(shares: Mapping[str, float]) -> dict[str, float]:
    """The shares by length, each text by itself: ``4x32`` counts for ``1x32``."""
    lengths: dict[str, float] = {}
    for bucket, share in shares.items():
        alone = "1x" + bucket.partition("x")[2]
        lengths[alone] = lengths.get(alone, 0.0) + share
    return lengths
