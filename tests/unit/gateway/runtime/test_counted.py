"""Figures for people: what is recent is forgotten in time, what rises only rises, and copies are told apart."""

import pytest

from gateway.core.evidence import Evidence
from gateway.core.snapshot import LatencyCounts, Report, WindowCounts
from gateway.core.types import Count, Lane, Role, empty_tally
from gateway.runtime.counted import EverCounted, Latencies, live_requests


def report(at: float, *, role: Role = Role.CANDIDATE, lane: Lane = Lane.LIVE, epoch: int = 1) -> Report:
    """Three answers and a failure in one window, one latency, two copies sent."""
    tally = empty_tally()
    tally[Count.OK], tally[Count.FAILED] = 3, 1
    return Report(
        name="w0", version=1, epoch=epoch, at=at, open_since=None, breaker=(0.0, 0.0), seconds=[], tripped=False,
        windows=[WindowCounts(window=int(at // 10), role=role, lane=lane, tally=tally)],
        latencies=[LatencyCounts(role=role, lane=lane, bins=[(100, 1)])],
        recent_failovers=0, in_flight=(0, 0), connections=(0, 0), copies={"candidate:sent": 2},
    )  # fmt: skip


@pytest.mark.parametrize(("now", "recent"), [(1060.0, 2), (1060.5, 1), (2000.0, 0)])
def test_what_is_recent_is_forgotten_and_what_is_total_is_not(now: float, recent: int) -> None:
    """Recent is what was told within the last minute, to the second."""
    latencies = Latencies(60.0)
    for at in (1000.0, 1060.0):
        latencies.add(report(at))
    assert latencies.recent(Role.CANDIDATE, now).count == recent
    assert latencies.since_start(Role.CANDIDATE).count == 2


@pytest.mark.parametrize(("role", "counted"), [(Role.CANDIDATE, 1), (Role.BASELINE, 0)])
def test_copies_are_evidence_of_the_candidate_alone(role: Role, counted: int) -> None:
    """A copy to the baseline serves parity; how long it took is shown nowhere as the baseline's latency."""
    latencies = Latencies(60.0)
    latencies.add(report(1000.0, role=role, lane=Lane.COPY))
    assert latencies.recent(role, 1000.0).count == counted
    assert latencies.since_start(role).count == counted


def test_lifelong_counters_add_up_through_every_epoch() -> None:
    """A Prometheus counter does not begin again."""
    ever = EverCounted()
    for epoch in (1, 2):
        ever.add(report(1000.0, epoch=epoch))
    key = (Role.CANDIDATE, Lane.LIVE)
    assert (ever.tallies[key][Count.OK], ever.latencies[key].count, ever.copies) == (6, 2, {"candidate:sent": 4})


def test_live_requests_are_those_of_the_epoch_without_copies() -> None:
    """All that the arm was asked to answer, good or bad."""
    evidence = Evidence(epoch=1, width_s=10.0, timeout_s=30.0, first_window=100)
    for lane in (Lane.LIVE, Lane.COPY):
        evidence.add(report(1000.0, lane=lane))
    evidence.add(report(1000.0, epoch=2))
    assert live_requests(evidence, Role.CANDIDATE) == 4
    assert live_requests(evidence, Role.BASELINE) == 0
