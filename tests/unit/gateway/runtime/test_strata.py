"""Classes of requests from the request path through the channel to the judge's windows."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes.control import PLAN
from fakes.request_path import Stage, play

from gateway.adapters.channel import Frames, encode
from gateway.core.classify import Loss
from gateway.core.compare.result import PairKind, PairResult
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.run import Run
from gateway.core.sequential import Cell
from gateway.core.snapshot import LatencyCounts, Pair, Report, WindowCounts
from gateway.core.types import Count, Lane, Outcome, Role, empty_tally
from gateway.runtime.analyst import Analyst
from gateway.runtime.pairs import Found
from gateway.runtime.tallies import Tallies

EDGES = (512, 4096)
SHORT, MIDDLE, LONG = b"x" * 512, b"x" * 4096, b"x" * 4097


def by_stratum(stage: Stage, role: Role, lane: Lane) -> dict[int, dict[str, int]]:
    """What has been counted since the last time, by class, zeros left out."""
    return {
        counts.stratum: {Count(i).name: n for i, n in enumerate(counts.tally) if n}
        for counts in stage.books.current.take()[0]
        if (counts.role, counts.lane) == (role, lane)
    }


def test_each_request_is_counted_in_the_class_of_its_body() -> None:
    """An edge belongs to the class below it."""

    async def scenario() -> None:
        stage = Stage(strata=EDGES)
        for body in (b"", SHORT, MIDDLE, LONG):
            stage.take(body=body)
            stage.leg(Role.CANDIDATE).answer(200)
        counted = by_stratum(stage, Role.CANDIDATE, Lane.LIVE)
        assert {stratum: counts["OK"] for stratum, counts in counted.items()} == {0: 2, 1: 1, 2: 1}

    play(scenario)


@pytest.mark.parametrize(("length", "stratum"), [(None, 2), (600, 1), (1 << 30, 2)])
def test_a_streamed_body_is_in_the_class_of_its_declared_length(length: int | None, stratum: int) -> None:
    """Whatever part of it is at hand; without a length it is in the last class."""

    async def scenario() -> None:
        stage = Stage(strata=EDGES)
        stage.take(more=True, body=b"x", length=length)
        stage.leg(Role.CANDIDATE).answer(200)
        counted = by_stratum(stage, Role.CANDIDATE, Lane.LIVE)
        assert counted == {stratum: {"OK": 1, "NOT_REPLAYABLE": 1}}

    play(scenario)


def test_without_strata_all_requests_are_in_one_class() -> None:
    """As in a plan that does not tell them apart."""

    async def scenario() -> None:
        stage = Stage()
        for body in (SHORT, LONG):
            stage.take(body=body)
            stage.leg(Role.CANDIDATE).answer(200)
        assert by_stratum(stage, Role.CANDIDATE, Lane.LIVE).keys() == {0}

    play(scenario)


def test_a_failover_and_what_the_client_saw_are_of_the_same_class() -> None:
    """One request is one class, whoever answers it."""

    async def scenario() -> None:
        stage = Stage(strata=EDGES)
        stage.take(body=LONG)
        stage.leg(Role.CANDIDATE).lose(Loss.RESET)
        stage.leg(Role.BASELINE).answer(200)
        windows = stage.books.current.take()[0]
        assert {counts.stratum for counts in windows} == {2}
        assert {(counts.role, counts.lane) for counts in windows} == {
            (Role.CANDIDATE, Lane.LIVE),
            (Role.BASELINE, Lane.CLIENT),
        }

    play(scenario)


@pytest.mark.parametrize("candidate_ready", [True, False])
def test_a_copy_is_of_the_class_of_what_it_copies(candidate_ready: bool) -> None:
    """So is the pair, and so is a copy that could not be sent."""

    async def scenario() -> None:
        stage = Stage(strata=EDGES, weight=0, copies=10_000, candidate={"ready": candidate_ready})
        stage.take(body=MIDDLE)
        if candidate_ready:
            stage.leg(Role.CANDIDATE, Lane.COPY).answer(200)
        stage.leg(Role.BASELINE).answer(200)
        assert [pair.stratum for pair in stage.pairs] == [1] * candidate_ready
        found = by_stratum(stage, Role.CANDIDATE, Lane.COPY)
        assert found[1]["OK" if candidate_ready else "UNAVAILABLE"] == 1
        assert found.keys() == {1}

    play(scenario)


def test_an_open_request_that_passes_a_limit_is_late_in_its_class() -> None:
    """A copy to the baseline is late in none."""
    tallies = Tallies(epoch=1, window_s=10.0, limits=(None, 0.5, None))
    tallies.open(Role.CANDIDATE, Lane.COPY, 1000.0, 5.0, 7)
    tallies.open(Role.BASELINE, Lane.COPY, 1000.0, 5.0, 7)
    tallies.sweep(6.0)
    ((counts,), latencies) = tallies.take()
    assert (counts.role, counts.stratum, counts.tally[Count.LAT95_BAD]) == (Role.CANDIDATE, 7, 1)
    assert latencies == []


def test_percentiles_are_of_all_classes_together() -> None:
    """They are for people; one histogram an arm and lane."""
    tallies = Tallies(epoch=1, window_s=10.0, limits=(None, 0.5, None))
    for stratum in (0, 2, 2):
        ticket = tallies.open(Role.BASELINE, Lane.LIVE, 1000.0, 5.0, stratum)
        tallies.close(ticket, Outcome.OK, 5.25)
    windows, (latency,) = tallies.take()
    assert [(counts.stratum, counts.tally[Count.OK]) for counts in windows] == [(0, 1), (2, 2)]
    assert sum(n for _, n in latency.bins) == 3


def judging(plan: Plan) -> Analyst:
    analyst = Analyst(disagree, epoch=1, answer_timeout_s=10.0, now=1000.0)
    run = Run(run_id="r", plan=plan, plan_digest="d", started_at=1000.0, who="", reason="")
    analyst.judge(run, epoch=1, now=1000.0, fresh=True, resume=None)
    return analyst


def disagree(pair: Pair, plan: Plan, found: Callable[[Found], None]) -> bool:
    found(PairResult(kind=PairKind.TOLERANCE))
    return True


def stratified_plan(edges: tuple[int, ...] = EDGES) -> Plan:
    metrics = (
        MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=500.0),
        MetricLimit(metric=MetricId.ERROR, allowed=0.05),
        MetricLimit(metric=MetricId.PARITY, allowed=0.05),
    )
    return replace(PLAN, metrics=metrics, parity=ParityPolicy(cosine_min=0.99), copies=100, strata=edges)


def news(windows: list[WindowCounts], latencies: list[LatencyCounts] | None = None) -> Report:
    return Report(
        name="w0", version=1, epoch=1, at=1003.0, windows=windows, latencies=latencies or [], open_since=None,
        breaker=(0.0, 0.0), seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0), connections=(0, 0),
    )  # fmt: skip


def heard(stage: Stage, window: int) -> list[Any]:
    """A worker's news as the control process reads it off the channel; all of it moved to ``window``."""
    windows, latencies = stage.books.current.take()
    return Frames().feed(encode(news([replace(counts, window=window) for counts in windows], latencies)))


def test_from_the_worker_to_the_verdict() -> None:
    """A slow long request on the one arm is a bad event of the last class and of the whole, and of nothing else."""

    async def scenario() -> None:
        stage = Stage(strata=EDGES, weight=0, copies=10_000)
        for body, seconds in ((SHORT, 0.1), (LONG, 0.1), (LONG, 0.6)):
            stage.take(body=body)
            stage.leg(Role.BASELINE).answer(200)
            stage.clock.step(seconds)
            stage.leg(Role.CANDIDATE, Lane.COPY).answer(200)
        analyst = judging(stratified_plan())
        for report in heard(stage, 1001):
            analyst.report(report)
        (read,) = Frames().feed(encode(replace(stage.pairs[-1], window=1001)))
        assert isinstance(read, Pair)
        analyst.pair(read)
        verdict = analyst.look(1004.0)
        assert verdict is not None
        assert [finding.name for finding in verdict.strata] == ["up to 512 B", "513 to 4096 B", "above 4096 B"]
        latency, error, parity = (
            [(row.n_c, row.k_c, row.n_b, row.k_b) for row in (rows[i] for rows in tables(verdict))] for i in range(3)
        )
        assert latency == [(3, 1, 3, 0), (1, 0, 1, 0), (0, 0, 0, 0), (2, 1, 2, 0)]
        assert error == [(3, 0, 3, 0), (1, 0, 1, 0), (0, 0, 0, 0), (2, 0, 2, 0)]
        assert parity == [(1, 1, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0), (1, 1, 0, 0)]

    play(scenario)


def tables(verdict: Any) -> list[Any]:
    return [verdict.rows, *(finding.rows for finding in verdict.strata)]


def counts(window: int, role: Role, stratum: int, **n: int) -> WindowCounts:
    tally = empty_tally()
    for name, k in n.items():
        tally[Count[name]] = k
    return WindowCounts(window=window, role=role, lane=Lane.LIVE, tally=tally, stratum=stratum)


def test_classes_are_ignored_where_the_plan_has_none_and_bounded_where_it_has() -> None:
    """A worker that still counts by the classes of another snapshot loses and invents nothing."""
    for plan, classes in ((PLAN, 0), (stratified_plan((512,)), 2)):
        analyst = judging(plan)
        rows = [counts(1001, Role.CANDIDATE, stratum, OK=1) for stratum in range(8)]
        analyst.report(news(rows))
        (window, *_) = analyst.evidence.close(1003.0)
        assert window.cells((MetricId.ERROR,)) == {MetricId.ERROR: Cell(8, 0, 0, 0)}
        assert [cells[MetricId.ERROR].n_c for cells in window.cells_by_stratum((MetricId.ERROR,))] == [1, 7][:classes]
