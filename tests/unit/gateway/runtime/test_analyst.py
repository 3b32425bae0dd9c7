"""Reports and pairs in, verdicts out; nothing grows without bound."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes.control import PLAN

from gateway.core.compare.result import PairKind, PairResult
from gateway.core.findings import BreakerCounts
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.run import Run
from gateway.core.snapshot import Answer, LatencyCounts, Pair, Report, WindowCounts
from gateway.core.types import MOST_SHAPES, Count, Lane, Role, empty_tally
from gateway.core.verdict import Judge
from gateway.runtime.analyst import MOST_A_LOOK, Analyst, tripped
from gateway.runtime.pairs import Found


def agree(pair: Pair, plan: Plan, found: Callable[[Found], None]) -> bool:
    found(PairResult(kind=PairKind.OK))
    return True


def report(
    at: float, *, epoch: int = 1, latencies: list[LatencyCounts] | None = None, name: str = "w0", **more: Any
) -> Report:
    return Report(
        **{
            "name": name, "version": 1, "epoch": epoch, "at": at, "windows": [], "latencies": latencies or [],
            "open_since": None, "breaker": (0.0, 0.0), "seconds": [], "tripped": False, "recent_failovers": 0,
            "in_flight": (0, 0), "connections": (0, 0), "copies": {"candidate:sent": 2}, **more,
        }
    )  # fmt: skip


def pair(window: int, body: bytes) -> Pair:
    answer = Answer(status=200, content_type="application/json", body=b"{}")
    return Pair(
        epoch=1, window=window, request_id="id", path="/v1/embeddings", served=Role.BASELINE, body_hash=body,
        baseline=answer, candidate=answer,
    )  # fmt: skip


def judging(now: float = 1000.0, **changes: Any) -> Analyst:
    plan = replace(PLAN, parity=ParityPolicy(cosine_min=0.99), **changes)
    run = Run(run_id="r", plan=plan, plan_digest="d", started_at=now, who="", reason="")
    analyst = Analyst(agree, epoch=1, answer_timeout_s=10.0, now=now)
    analyst.judge(run, epoch=1, now=now, fresh=True, resume=None)
    return analyst


def tally_of(ok: int, failed: int) -> list[int]:
    tally = empty_tally()
    tally[Count.OK], tally[Count.FAILED] = ok, failed
    return tally


def pairs(analyst: Analyst) -> int:
    return analyst.evidence.total(Role.CANDIDATE, Lane.COPY, Count.PAIRS)


def test_identical_bodies_count_once_within_a_window() -> None:
    """A hot key repeats; it is one piece of evidence a window."""
    analyst = judging()
    for window, body in ((1001, b"a"), (1001, b"a"), (1001, b"b"), (1002, b"a")):
        analyst.pair(pair(window, body))
    assert pairs(analyst) == 3


def test_a_pair_of_a_closed_window_is_late_and_nothing_else() -> None:
    """It enters neither the evidence nor the display, and leaves no memory behind."""
    analyst = judging()
    analyst.evidence.next_window = 1010
    analyst.pair(pair(1005, b"a"))
    assert (pairs(analyst), analyst.ever.pairs, analyst.ever.late_events) == (0, 0, 1)
    assert analyst.pairs._seen == {}


@pytest.mark.parametrize(("window_s", "kept"), [(10.0, 61), (1.0, 7)])
def test_six_windows_are_all_that_is_kept_for_recent_percentiles(window_s: float, kept: int) -> None:
    """A minute of the default rule, 6 s of the demo's; nobody has to ask for old entries to go."""
    analyst = Analyst(agree, epoch=1, answer_timeout_s=10.0, now=1000.0)
    analyst.observe(epoch=1, now=1000.0, window_s=window_s)
    for second in range(1000):
        bins = [LatencyCounts(role=Role.BASELINE, lane=Lane.LIVE, bins=[(100, 1)])]
        analyst.report(report(1000.0 + second, latencies=bins))
    assert analyst.latencies.recent(Role.BASELINE, 1999.0).count == kept
    assert len(analyst.latencies._recent) == kept
    assert analyst.latencies.since_start(Role.BASELINE).count == 1000
    assert analyst.copies == {"candidate:sent": 2000}


def test_news_of_another_epoch_only_reaches_the_lifelong_counters() -> None:
    """Evidence is void across epochs; a Prometheus counter is not."""
    analyst = judging()
    analyst.report(report(1001.0, epoch=0))
    assert analyst.copies == {}
    assert analyst.ever.copies == {"candidate:sent": 2}


def test_a_judge_that_raises_shows_as_age_and_hold(monkeypatch: Any) -> None:
    """The last good look stays the last; the verdict is a HOLD that says who raised."""
    analyst = judging()
    analyst.look(1001.0)

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(analyst._judge, "verdict", broken)
    verdict = analyst.look(1005.0)
    assert verdict is not None
    assert (verdict.name, verdict.reason) == ("HOLD", "judge_failed")
    assert analyst.last_look == 1001.0


@pytest.mark.parametrize("half_booked", [True, False])
def test_a_judge_that_raised_is_given_its_windows_again(monkeypatch: Any, half_booked: bool) -> None:
    """No evidence is lost while it raises, and none is booked twice, even if it raised in the middle of a window."""
    fails = [True]
    booked: list[int] = []
    close = Judge.close_window

    def faulty(judge: Judge, window: int, *given: Any, **more: Any) -> None:
        if fails[0] and half_booked:
            judge._against.close(window, {})
        if fails[0]:
            raise RuntimeError("boom")
        close(judge, window, *given, **more)
        booked.append(window)

    monkeypatch.setattr(Judge, "close_window", faulty)
    analyst = judging()
    for now in (1015.0, 1025.0, 1035.0):
        analyst.report(report(now))
        verdict = analyst.look(now)
        assert verdict is not None
        assert verdict.reason == "judge_failed"
    fails[0] = False
    analyst.report(report(1045.0))
    verdict = analyst.look(1045.0)
    assert verdict is not None
    assert verdict.reason != "judge_failed"
    assert analyst._judge is not None
    assert booked == list(range(booked[0], analyst._judge.next_window))
    assert len(booked) > 3


def test_nothing_passes_while_closed_windows_wait_to_be_judged(monkeypatch: Any) -> None:
    """A judge that catches up books a bounded number at a look: the newest windows may be those that speak against."""
    analyst, close = judging(max_step_s=3600.0), Judge.close_window
    fails = [True]

    def faulty(judge: Judge, window: int, *given: Any, **more: Any) -> None:
        if fails[0]:
            raise RuntimeError("boom")
        close(judge, window, *given, **more)

    monkeypatch.setattr(Judge, "close_window", faulty)
    for second in range(MOST_A_LOOK + 10):
        ok, failed = (20, 0) if second < MOST_A_LOOK else (10, 10)
        rows = [
            WindowCounts(window=1001 + second, role=Role.BASELINE, lane=Lane.LIVE, tally=tally_of(ok=20, failed=0)),
            WindowCounts(window=1001 + second, role=Role.CANDIDATE, lane=Lane.LIVE, tally=tally_of(ok, failed)),
        ]
        now = 1002.0 + second
        analyst.report(report(now, windows=rows))
        analyst.pair(pair(1001 + second, b"%d" % second))
        verdict = analyst.look(now)
    fails[0] = False
    verdict = analyst.look(now)
    assert verdict is not None
    assert (verdict.name, verdict.reason) == ("HOLD", "no_data")
    assert "10 closed windows are not judged yet" in verdict.text
    verdict = analyst.look(now)
    assert verdict is not None
    assert (verdict.name, verdict.metric) == ("ROLL_BACK", MetricId.ERROR)


def test_a_rollback_is_said_although_a_window_raises(monkeypatch: Any) -> None:
    """The breaker has fired: no window that cannot be judged turns that into a hold."""
    analyst = judging()

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(Judge, "close_window", broken)
    verdicts = []
    for second in range(15, 30):
        analyst.report(report(1000.0 + second, seconds=[(5, 0, 5, 5)]))
        verdicts.append(analyst.look(1000.0 + second))
    assert verdicts[-1] is not None
    assert (verdicts[-1].name, verdicts[-1].rule) == ("ROLL_BACK", "breaker")


def test_the_breaker_hears_on_when_the_clock_was_set_back() -> None:
    """Its second comes within a second of the new time, not when the old one is reached again."""
    analyst = judging()
    analyst.look(1100.0)
    analyst._seconds = [(5, 0, 3, 1)]
    analyst.look(1000.0)
    assert analyst._seconds == []


def test_the_breaker_is_fed_while_windows_cannot_be_judged(monkeypatch: Any) -> None:
    """Seconds are not piled up: when the judge works again nothing old trips it, and meanwhile it hears of each."""
    analyst = judging()
    heard: list[tuple[int, int]] = []

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(Judge, "close_window", broken)
    monkeypatch.setattr(Judge, "second", lambda _judge, **seen: heard.append(seen["candidate"]))
    for second in range(15, 25):
        analyst.report(report(1000.0 + second, seconds=[(5, 0, 3, 1)]))
        analyst.look(1000.0 + second)
    assert len(heard) == 10
    assert set(heard) == {(3, 1)}
    assert analyst._seconds == []


def test_shapes_of_all_workers_merge_and_lead_with_the_most_frequent() -> None:
    """Of this epoch alone, at most sixteen, and forgotten with it."""
    analyst = judging()
    analyst.report(report(1001.0, compiled={"4x128": 1, "1x128": 2}))
    analyst.report(report(1001.0, name="w1", compiled={"4x128": 4}))
    analyst.report(report(1001.0, epoch=0, compiled={"9x9": 9}))
    assert analyst.shapes == ("4x128", "1x128")
    analyst.report(report(1002.0, compiled={f"{n}x7": 1 for n in range(1, 40)}))
    assert len(analyst.shapes) == MOST_SHAPES
    analyst.stop(epoch=2, now=1003.0, window_s=10.0)
    assert analyst.shapes == ()


def test_the_judge_names_the_shapes() -> None:
    """They come with the report whose window it closes."""
    analyst = judging()
    tally = empty_tally()
    tally[Count.OK], tally[Count.COMPILES], tally[Count.EXCUSED] = 412, 3, 3
    counts = WindowCounts(window=1001, role=Role.CANDIDATE, lane=Lane.LIVE, tally=tally)
    analyst.report(report(1003.0, windows=[counts], compiled={"1x128": 1, "4x128": 2}))
    verdict = analyst.look(1003.0)
    assert verdict is not None
    assert (
        "3 answers waited for a compile on the candidate's request path (shapes so far in this run: 4x128, 1x128)"
        " among 412"
    ) in verdict.text
    resumed = Judge(analyst._plan or PLAN, first_window=0, resume=analyst.checkpoint())
    assert resumed.verdict(now=1003.0).compiles == verdict.compiles


def test_a_worker_that_trips_tells_what_it_saw_since_the_candidate_began_to_fail() -> None:
    """Healthy seconds before it do not dilute the numbers; other workers' are not in them."""
    analyst = judging()
    analyst.attach("w0")
    analyst.attach("w1")
    analyst.report(report(1001.0, seconds=[(90, 0, 10, 0)] * 5))
    analyst.report(report(1001.0, name="w1", seconds=[(90, 0, 10, 0)] * 5))
    analyst.report(report(1003.0, seconds=[(90, 1, 10, 9), (90, 0, 10, 10)], tripped=True, breaker=(0.0, 16.0)))
    assert analyst.tripped_by == "w0"
    verdict = tripped("w0", analyst.trip, None)
    assert verdict.breaker == BreakerCounts(
        baseline=(180, 1), candidate=(20, 19), seconds=2, scores=(0.0, 16.0), bar=8.0, worker="w0", workers=2
    )
    analyst.report(report(1004.0, name="w1", seconds=[(9, 0, 1, 1)], tripped=True, breaker=(0.0, 16.0)))
    assert (analyst.tripped_by, analyst.trip) == ("w0", verdict.breaker)
    assert "19 of 20 (95 %) candidate attempts failed in worker w0 (of 2) in the last 2 s" in verdict.text
    assert "worker w0" in verdict.text


@pytest.mark.parametrize(("residual", "control"), [(0, False), (334, True)])
def test_the_judge_goes_by_what_the_run_froze_for_its_step(residual: int, control: bool) -> None:
    """Without a residual there is no control and none is required; the step's own length is what it is held to."""
    plan = replace(PLAN, control_at_full=True)
    run = Run(
        run_id="r", plan=plan, plan_digest="d", started_at=1000.0, who="", reason="", step=1, residual=residual,
        max_step_s=500.0,
    )  # fmt: skip
    analyst = Analyst(agree, epoch=1, answer_timeout_s=10.0, now=1000.0)
    analyst.judge(run, epoch=1, now=1000.0, fresh=True, resume=None)
    held = analyst.look(1000.0 + 500.0 + plan.bake_s)
    assert held is not None
    assert held.name == "HOLD"
    assert any("control off" in note for note in held.notes) is not control
    assert any("baseline counts are not required" in note for note in held.notes) is not control
    stuck = analyst.look(1001.0 + 500.0 + plan.bake_s)
    assert stuck is not None
    assert stuck.name == "INCONCLUSIVE"


def test_live_and_copied_answers_of_the_candidate_reach_the_judge_apart() -> None:
    """Copies that are late five times as often are noted; the baseline's copies are nobody's latency."""
    limit = MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=80.0)
    plan = replace(PLAN, metrics=(*PLAN.metrics, limit), copies=5000)
    run = Run(run_id="r", plan=plan, plan_digest="d", started_at=1000.0, who="", reason="")
    analyst = Analyst(agree, epoch=1, answer_timeout_s=10.0, now=1000.0)
    analyst.judge(run, epoch=1, now=1000.0, fresh=True, resume=None)
    for window in range(1001, 1031):
        rows = []
        for role, lane, late in (
            (Role.CANDIDATE, Lane.LIVE, 1), (Role.CANDIDATE, Lane.COPY, 5), (Role.BASELINE, Lane.LIVE, 1),
            (Role.BASELINE, Lane.COPY, 20),
        ):  # fmt: skip
            tally = empty_tally()
            tally[Count.OK], tally[Count.LAT95_N], tally[Count.LAT95_BAD] = 25, 25, late
            rows.append(WindowCounts(window=window, role=role, lane=lane, tally=tally))
        analyst.report(report(window + 1.0, windows=rows))
    verdict = analyst.look(1031.0)
    assert verdict is not None
    (note,) = (note for note in verdict.notes if note.startswith("mirror load"))
    assert "(4 %) of the candidate's live answers" in note
    assert "(20 %) of its answers to copies took longer than 80 ms; the copies are slower" in note


def test_a_verdict_says_which_worker_windows_were_closed_without() -> None:
    """Overdue windows close, and whoever reads the verdict knows whose counts are not in it."""
    analyst = judging()
    analyst.attach("w0")
    analyst.attach("w2")
    analyst.report(report(1014.0))
    verdict = analyst.look(1014.0)
    assert verdict is not None
    assert verdict.notes[-1] == "3 windows closed without worker w2"
    assert (analyst.evidence.incomplete_windows, analyst.ever.incomplete_windows) == (3, 3)
    analyst.observe(epoch=2, now=1015.0)
    assert (analyst.evidence.incomplete_windows, analyst.ever.incomplete_windows) == (0, 3)


def test_a_verdict_on_complete_windows_has_no_such_note() -> None:
    """It is as it always was."""
    analyst = judging()
    analyst.attach("w0")
    analyst.report(report(1014.0))
    verdict = analyst.look(1014.0)
    assert verdict is not None
    assert not any("closed without" in note for note in verdict.notes)
