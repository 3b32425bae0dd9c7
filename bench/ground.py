"""Where the limits lie with respect to what the arms really do."""

from dataclasses import dataclass
from typing import Final

from bench.streams import LongRun

ALLOWED: Final = (0.50, 0.05, 0.01)
"""Share of answers that may be slower than the p50, p95, p99 limit."""
ERROR_ALLOWED: Final = 0.003
PARITY_ALLOWED: Final = 0.005
ROOM: Final = (1.05, 1.15, 1.20)
"""Limits of an ordinary service: its own long-run p50, p95, p99 times these."""
PARITY_RATE: Final = 0.0002


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """limits_ms: for p50, p95, p99. p97_ms: the arms' own. error_scale: multiplies the error rates of the stream.

    parity_rate: share of pairs of healthy arms that differ.
    """

    name: str
    limits_ms: tuple[float, float, float]
    p97_ms: float
    error_scale: float
    parity_rate: float


def with_room(arms: LongRun) -> Ground:
    """Both arms meet every limit with some room: an ordinary service, and a candidate that is just like it."""
    p50, p95, p99 = (room * own for room, own in zip(ROOM, (arms.p50, arms.p95, arms.p99), strict=True))
    return Ground(name="aa", limits_ms=(p50, p95, p99), p97_ms=arms.p97, error_scale=1.0, parity_rate=PARITY_RATE)


def at_the_limit(arms: LongRun) -> Ground:
    """Every limit is the arms' own long-run rate: the worst candidate that a rule has to leave alone."""
    return Ground(
        name="boundary",
        limits_ms=(arms.p50, arms.p95, arms.p99),
        p97_ms=arms.p97,
        error_scale=ERROR_ALLOWED / arms.error_rate,
        parity_rate=PARITY_ALLOWED,
    )
