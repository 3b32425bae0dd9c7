"""The words of a verdict: numbers, limits, samples."""

import pytest

from gateway.core.findings import (
    BreakerCounts,
    CompileCounts,
    MetricRow,
    breaker_sentence,
    evidence_sentence,
    metric_sentence,
    percent,
    recompile_sentence,
    share_of,
)
from gateway.core.plan import MetricId


def row(metric: MetricId, *, limit_ms: float | None = None, n_b: int = 9000, k_b: int = 18) -> MetricRow:
    return MetricRow(
        metric=metric,
        allowed=0.01,
        limit_ms=limit_ms,
        n_c=1200,
        k_c=3,
        n_b=n_b,
        k_b=k_b,
        evidence=31.25,
        bar=20.0,
        proof=1.5,
        proof_bar=3.0,
        passes=False,
    )


@pytest.mark.parametrize(
    ("share", "text"), [(0.0, "0 %"), (0.0025, "0.25 %"), (0.06, "6 %"), (1.0, "100 %"), (1 / 3, "33.3 %")]
)
def test_shares_read_as_percent(share: float, text: str) -> None:
    """Three digits, however small the share."""
    assert percent(share) == text


def test_a_share_of_nothing_is_no_percentage() -> None:
    """Without events there is no rate to print."""
    assert share_of(0, 0) == "none counted"


def test_a_latency_sentence_has_limit_and_baseline() -> None:
    """What was slow, how slow, how much is allowed, how the baseline did."""
    assert metric_sentence(row(MetricId.LAT_P99, limit_ms=120.0)) == (
        "lat_p99: 3 of 1,200 (0.25 %) candidate answers took longer than 120 ms; allowed: 1 %;"
        " baseline: 18 of 9,000 (0.2 %)"
    )


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (MetricId.ERROR, "candidate requests failed or found it unavailable"),
        (MetricId.REFUSED, "candidate answers refused what the baseline serves"),
        (MetricId.PARITY, "pairs differ by more than the tolerance"),
    ],
)
def test_every_metric_says_what_is_bad(metric: MetricId, words: str) -> None:
    """Each metric has its own words for a bad event."""
    assert f"3 of 1,200 (0.25 %) {words}; allowed: 1 %" in metric_sentence(row(metric))


def test_parity_has_no_baseline() -> None:
    """A pair has both arms in it; there is no baseline rate to print."""
    assert "baseline" not in metric_sentence(row(MetricId.PARITY))


def test_the_evidence_sentence_has_evidence_and_bar() -> None:
    """The total, its bar, and the part of the metric that is named."""
    text = evidence_sentence(row(MetricId.ERROR), 42.0)
    assert text.endswith("Evidence against the candidate 42, bar 20; error contributes most (31.2).")


def test_the_breaker_sentence_has_both_arms() -> None:
    """Attempts, failures and scores of both arms."""
    seen = BreakerCounts(baseline=(90, 0), candidate=(10, 10), seconds=4, scores=(0.0, 16.0), bar=8.0)
    text = breaker_sentence(seen)
    assert text == (
        "error: 10 of 10 (100 %) candidate attempts failed in the last 4 s (breaker score 16, bar 8);"
        " baseline: 0 of 90 (0 %) (score 0)."
    )


@pytest.mark.parametrize(
    ("answered", "where"), [(1500, "among 1,500 answers of this step"), (None, "in the step before")]
)
def test_the_recompile_sentence_says_which_step(answered: int | None, where: str) -> None:
    """Answers are counted per step, and the sentence says in which."""
    text = recompile_sentence(CompileCounts(met=2, allowed=0, answered=answered))
    assert f"recompile: 2 answers waited for a compile on the candidate's request path {where}; allowed: 0" in text


def test_the_recompile_sentence_names_shapes() -> None:
    """Those that compiled, most often first; of many the first six."""
    few = CompileCounts(met=1, allowed=0, answered=412, shapes=("4x128", "1x128"))
    assert (
        "1 answer waited for a compile on the candidate's request path (shapes so far in this run: 4x128, 1x128) among"
        " 412 answers"
    ) in recompile_sentence(few)
    many = CompileCounts(met=16, allowed=0, answered=1, shapes=tuple(f"{n}x8" for n in range(1, 17)))
    assert "(shapes so far in this run: 1x8, 2x8, 3x8, 4x8, 5x8, 6x8 and 10 more)" in recompile_sentence(many)


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        (MetricId.TTFT, "candidate streams began later than 800 ms after the request;"),
        (MetricId.ITL, "candidate streams had more than 5 % of their gaps longer than 800 ms;"),
        (MetricId.STREAM_BROKEN, "candidate streams were broken off by it;"),
    ],
)
def test_a_sentence_about_streams(metric: MetricId, words: str) -> None:
    """What makes a stream bad, in words, with limit and baseline."""
    told = metric_sentence(row(metric, limit_ms=800.0))
    assert told.startswith(f"{metric}: 3 of 1,200 (0.25 %) {words} allowed: 1 %; baseline: 18 of 9,000")
