"""What a rule saw when it fired is kept word for word, and older checkpoints are still read."""

import json

import pytest

from gateway.core.findings import BreakerCounts, CompileCounts, MetricRow, StratumFinding
from gateway.core.plan import MetricId
from gateway.core.stop import Stop, read_stop

ROW = MetricRow(
    metric=MetricId.ERROR,
    allowed=0.003,
    limit_ms=None,
    n_c=50,
    k_c=9,
    n_b=450,
    k_b=0,
    evidence=31.5,
    bar=20.0,
    proof=None,
    proof_bar=3.0,
    passes=False,
    windows=4,
)
BREAKER = BreakerCounts(baseline=(90, 0), candidate=(10, 9), seconds=3, scores=(0.0, 8.0), bar=8.0)


@pytest.mark.parametrize(
    "stop",
    [
        Stop(metric=MetricId.ERROR, text="error: 9 of 50.", evidence=31.5),
        Stop(metric=MetricId.ERROR, text="error: 9 of 10.", evidence=1.0, rows=(ROW,), breaker=BREAKER),
        Stop(
            metric="recompile",
            text="recompile: 2.",
            evidence=1.0,
            compiles=CompileCounts(met=2, allowed=0, answered=None, shapes=("1x128",)),
        ),
        Stop(
            metric=MetricId.ERROR,
            text="error: 9 of 50.",
            evidence=31.5,
            rows=(ROW,),
            strata=(StratumFinding(name="up to 512 B", evidence=40.0, rows=(ROW,)),),
            stratum="up to 512 B",
        ),
    ],
)
def test_a_stop_is_the_same_behind_json(stop: Stop) -> None:
    """Whatever rule fired, with all that it saw."""
    assert read_stop(json.loads(json.dumps(stop.checkpoint()))) == stop


def test_a_stop_of_an_older_checkpoint_has_its_text() -> None:
    """Numbers that were not kept are left out, and nothing is made up."""
    assert read_stop({"metric": "recompile", "text": "t", "evidence": 2}) == Stop(
        metric="recompile", text="t", evidence=2.0
    )


@pytest.mark.parametrize(
    "saved", [{}, {"metric": "magic", "text": "t", "evidence": 1}, {"metric": "error", "text": "t", "evidence": None}]
)
def test_what_is_no_stop_is_refused(saved: dict[str, object]) -> None:
    """By the errors that a checkpoint's reader expects."""
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_stop(saved)
