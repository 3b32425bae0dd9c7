import numpy as np
import pytest

from bench import ours
from bench.counts import split, windows
from bench.faults import FAULTS, HEALTHY, OUTAGE_AT_S
from bench.ground import with_room
from bench.outcome import Outcome
from bench.streams import KINDS, draw_stream, long_run
from gateway.core.plan import MetricId

DEFAULT = KINDS["default"]
GROUND = with_room(long_run(DEFAULT))


def judged(fault: str, *, seed: int = 1, seconds: int = 900, copies_bp: int = 500, weight_bp: int = 1000) -> Outcome:
    chosen = FAULTS.get(fault, HEALTHY)
    stream = draw_stream(DEFAULT, np.random.default_rng(seed), seconds=seconds, rate=50.0)
    parity = GROUND.parity_rate if chosen.parity_rate is None else chosen.parity_rate
    traffic = split(chosen.change(stream, GROUND), GROUND, weight_bp=weight_bp, copies_bp=copies_bp, parity_rate=parity)
    plan = ours.plan(GROUND, weight_bp=weight_bp, next_bp=5000, copies_bp=copies_bp)
    return ours.judge(windows(traffic), plan)


def test_a_candidate_like_the_baseline_is_let_on_and_not_rolled_back() -> None:
    """Two equal arms pass the step within half an hour, and not before its shortest age."""
    outcome = judged("healthy", seconds=1800)
    assert outcome.rolled_back_at is None
    assert outcome.passed_at is not None
    assert outcome.passed_at >= 300
    assert outcome.passed_first


@pytest.mark.parametrize(
    ("fault", "metric", "rule"),
    [("errors5", "error", "evidence"), ("parity10", "parity", "evidence"), ("outage", "error", "breaker")],
)
def test_a_gross_fault_is_rolled_back_by_its_metric(fault: str, metric: str, rule: str) -> None:
    """The rollback names the metric that is bad, and the rule that saw it."""
    outcome = judged(fault)
    assert outcome.rolled_back_at is not None
    assert (outcome.metric, outcome.rule) == (metric, rule)
    assert not outcome.passed_first


def test_an_outage_ends_within_seconds_not_windows() -> None:
    """The breaker is asked in the seconds of an outage, not only where a window closes."""
    outcome = judged("outage", seconds=360)
    assert outcome.rolled_back_at is not None
    assert outcome.rolled_back_at <= OUTAGE_AT_S + 9


def test_the_judge_gets_no_window_before_its_last_answer() -> None:
    """A rollback by evidence comes after the end of a window, by the time its slowest answer took."""
    outcome = judged("errors5")
    assert outcome.rolled_back_at is not None
    assert 1 <= outcome.rolled_back_at % 10 <= 5


def test_without_copies_there_is_no_parity_to_judge() -> None:
    """A plan without copies has no parity metric, and a candidate with wrong answers is let on."""
    assert ours.plan(GROUND, weight_bp=1000, next_bp=5000, copies_bp=0).limit(MetricId.PARITY) is None
    assert judged("parity10", copies_bp=0, seconds=1800).passed_first


def test_no_traffic_decides_nothing() -> None:
    """A stream without a single request neither passes nor rolls back."""
    stream = draw_stream(DEFAULT, np.random.default_rng(1), seconds=600, rate=0.0)
    traffic = split(stream, GROUND, weight_bp=1000, copies_bp=500, parity_rate=0.0)
    plan = ours.plan(GROUND, weight_bp=1000, next_bp=5000, copies_bp=500)
    assert ours.judge(windows(traffic), plan) == Outcome(rolled_back_at=None, passed_at=None)
