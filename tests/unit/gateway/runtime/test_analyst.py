"""Reports and pairs in, verdicts out; nothing grows without bound."""

from dataclasses import replace
from typing import Any

from fakes.control import PLAN

from gateway.core.compare.parity import ParityStats
from gateway.core.plan import ParityPolicy, Plan
from gateway.core.run import Run
from gateway.core.snapshot import Answer, LatencyCounts, Pair, Report
from gateway.core.types import Count, Lane, Role
from gateway.runtime.analyst import Analyst


def agree(pair: Pair, plan: Plan, stats: ParityStats) -> bool | None:
    return True


def report(at: float, *, epoch: int = 1, latencies: list[LatencyCounts] | None = None) -> Report:
    return Report(
        name="w0", version=1, epoch=epoch, at=at, windows=[], latencies=latencies or [], open_since=None,
        breaker=(0.0, 0.0), seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0), connections=(0, 0),
        copies={"candidate:sent": 2},
    )  # fmt: skip


def pair(window: int, body: bytes) -> Pair:
    answer = Answer(status=200, content_type="application/json", body=b"{}")
    return Pair(
        epoch=1, window=window, request_id="id", path="/v1/embeddings", served=Role.BASELINE, body_hash=body,
        baseline=answer, candidate=answer,
    )  # fmt: skip


def judging(now: float = 1000.0) -> Analyst:
    plan = replace(PLAN, parity=ParityPolicy(cosine_min=0.99))
    run = Run(run_id="r", plan=plan, plan_digest="d", started_at=now, who="", reason="")
    analyst = Analyst(agree, epoch=1, answer_timeout_s=10.0, now=now)
    analyst.judge(run, epoch=1, now=now, fresh=True, resume=None)
    return analyst


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
    assert analyst._seen_bodies == {}


def test_the_last_minute_is_all_that_is_kept_for_recent_percentiles() -> None:
    """Nobody has to ask for the status for old entries to go."""
    analyst = judging()
    for second in range(1000):
        bins = [LatencyCounts(role=Role.BASELINE, lane=Lane.LIVE, bins=[(100, 1)])]
        analyst.report(report(1000.0 + second, latencies=bins))
    assert analyst.latencies.recent(Role.BASELINE, 1999.0).count <= 61
    assert len(analyst.latencies._recent) <= 61
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
