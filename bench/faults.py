"""What can be wrong with the candidate, put on a stream in which both arms are alike.

A fault changes the candidate's row only, except the shared incident, which is no fault of the candidate: a rule that
rolls back in it is wrong.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bench.ground import Ground
from bench.streams import CANDIDATE, LARGEST, Floats, Stream

OUTAGE_AT_S: Final = 300.0
STALL_S: Final = 1.5
STALL_EVERY_S: Final = 60.0
RECOMPILE_SHARE: Final = 0.01
RECOMPILE_FACTOR: Final = 20.0
DRIFT_AT_S: Final = 1800.0
DRIFT_PER_S: Final = 0.5 / 1800.0
INCIDENT_S: Final = (900.0, 1200.0)
INCIDENT_FACTOR: Final = 3.0

Change = Callable[[Stream, Ground], Stream]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """``begins_s``: seconds into the stream. parity_rate: share of pairs that differ, None for the ground's own.

    candidate_is_sick: False where a rollback would be a false one.
    """

    name: str
    change: Change
    begins_s: float = 0.0
    parity_rate: float | None = None
    candidate_is_sick: bool = True


def _nothing(stream: Stream, ground: Ground) -> Stream:
    return stream


def _tail(factor: float) -> Change:
    """The slowest 3 % of requests, by the arms' long-run p97, take ``factor`` times as long; so does the p99."""

    def change(stream: Stream, ground: Ground) -> Stream:
        ms = stream.ms[CANDIDATE]
        return _with_candidate(stream, np.where(ms > ground.p97_ms, factor * ms, ms))

    return change


def _errors(rate: float, *, size: int | None = None) -> Change:
    """Failures on top of the candidate's own, ``rate`` in all where it had none; of requests of one ``size`` alone."""

    def change(stream: Stream, ground: Ground) -> Stream:
        # The ground scales the stream's own rates; a fault's rate is meant as it stands.
        own = stream.error_rate[CANDIDATE]
        sick = own + (1.0 - own) * (rate / ground.error_scale)
        return _with_errors(stream, sick if size is None else np.where(stream.size == size, sick, own))

    return change


def _outage(stream: Stream, ground: Ground) -> Stream:
    dead = 1.0 / ground.error_scale
    return _with_errors(stream, np.where(stream.arrival >= OUTAGE_AT_S, dead, stream.error_rate[CANDIDATE]))


def _stall(stream: Stream, ground: Ground) -> Stream:
    """Nothing is answered for STALL_S once every STALL_EVERY_S; what arrives in it waits for its end."""
    into = (stream.arrival + stream.phase * STALL_EVERY_S) % STALL_EVERY_S
    return _with_candidate(stream, stream.ms[CANDIDATE] + 1000.0 * np.maximum(0.0, STALL_S - into))


def _recompile(stream: Stream, ground: Ground) -> Stream:
    hit = stream.fault_draw < RECOMPILE_SHARE
    return _with_candidate(stream, np.where(hit, RECOMPILE_FACTOR, 1.0) * stream.ms[CANDIDATE])


def _drift(stream: Stream, ground: Ground) -> Stream:
    return _with_candidate(
        stream, stream.ms[CANDIDATE] * (1.0 + DRIFT_PER_S * np.maximum(0.0, stream.arrival - DRIFT_AT_S))
    )


def _incident(stream: Stream, ground: Ground) -> Stream:
    begin, end = INCIDENT_S
    during = (stream.arrival >= begin) & (stream.arrival < end)
    return replace(stream, ms=stream.ms * np.where(during, INCIDENT_FACTOR, 1.0))


def _with_candidate(stream: Stream, ms: Floats) -> Stream:
    rows = stream.ms.copy()
    rows[CANDIDATE] = ms
    return replace(stream, ms=rows)


def _with_errors(stream: Stream, rate: Floats) -> Stream:
    rows = stream.error_rate.copy()
    rows[CANDIDATE] = rate
    return replace(stream, error_rate=rows)


HEALTHY: Final = Fault(name="healthy", change=_nothing, candidate_is_sick=False)
FAULTS: Final = {
    fault.name: fault
    for fault in (
        Fault(name="p99x2", change=_tail(2.0)),
        Fault(name="errors5", change=_errors(0.05)),
        Fault(name="outage", change=_outage, begins_s=OUTAGE_AT_S),
        Fault(name="parity10", change=_nothing, parity_rate=0.10),
        Fault(name="stall", change=_stall),
        Fault(name="p99+50", change=_tail(1.5)),
        Fault(name="errors1", change=_errors(0.01)),
        Fault(name="errors5large", change=_errors(0.05, size=LARGEST)),
        Fault(name="parity1", change=_nothing, parity_rate=0.01),
        Fault(name="recompile", change=_recompile),
        Fault(name="drift", change=_drift, begins_s=DRIFT_AT_S),
        Fault(name="incident", change=_incident, begins_s=INCIDENT_S[0], candidate_is_sick=False),
    )
}
GROSS: Final = ("p99x2", "errors5", "outage", "parity10", "stall")
"""Those that no rule may miss; the milder ones are in the table to show where rules differ."""
