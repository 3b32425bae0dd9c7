"""Bodies as the servers and the gateway send them."""

from typing import Any

import pytest

from wire.admin import ArmView, LatencyView, MetricView, ParityView, RunView, Status, VerdictView
from wire.health import BucketReport, HealthBody

AT = 1_800_000_000.0


def health(warm_s: float = 0.02, *, source: Any = "eager", **changes: Any) -> HealthBody:
    table = [
        BucketReport(bucket=bucket, first_s=1.0, warm_s=warm_s * factor, calls=3, compiles=0, source=source)
        for bucket, factor in (("1x16", 1.0), ("1x128", 4.0), ("8x128", 20.0))
    ]
    fields: dict[str, Any] = {
        "state": "ready", "elapsed_s": 9.0, "bucket": 12, "buckets": 12, "cold_s": 8.0, "warm_up": table,
    }  # fmt: skip
    return HealthBody(**(fields | changes))


def run_view(**changes: Any) -> RunView:
    fields: dict[str, Any] = {
        "run_id": "r7", "rollout": "demo", "kind": "migration", "plan_digest": "ab12", "state": "stepping", "epoch": 3,
        "step": 1, "steps": [0, 1000, 5000, 10000], "weight": 1000, "started_at": AT - 60, "step_since": AT - 14,
        "reason": "r", "who": "demo", "live_candidate_requests": 41,
    }  # fmt: skip
    return RunView(**(fields | changes))


def status(**changes: Any) -> Status:
    latency = LatencyView(count=100, p50=12.3, p95=40.0, p99=77.7)
    arms = [
        ArmView(name="cpu", role="baseline", url="http://a", ready=True, live=900, latency=latency, recent=latency),
        ArmView(name="tpu", role="candidate", url="http://b", ready=False, live=100, copies=450, failed=2),
    ]
    metric = MetricView(
        metric="error", allowed=0.05, limit_ms=None, candidate_events=80, candidate_bad=9, baseline_events=700,
        baseline_bad=0, evidence=21.0, bar=20.0, proof=None, proof_bar=3.0, passes=False,
    )  # fmt: skip
    verdict = VerdictView(
        verdict="HOLD", reason="not_proven", text="error: 9 of 80 failed; " + "because " * 60, metric=None, at=AT,
        evidence=0.61, bar=20.0, metrics=[metric], missing=["80 events, 12 more needed"] * 20,
    )  # fmt: skip
    fields: dict[str, Any] = {
        "rollout": "demo", "replica": "0", "at": AT, "state": "stepping", "weight": 1000, "epoch": 3, "arms": arms,
        "workers": [], "store": "sqlite", "snapshot_version": 9, "run": run_view(), "verdict": verdict,
        "parity": ParityView(pairs=120, bad=0, min_cosine=0.99123),
    }  # fmt: skip
    return Status(**(fields | changes))


@pytest.fixture
def make() -> Any:
    """Makers of health, run and status with given fields changed."""

    class Makers:
        health = staticmethod(health)
        run = staticmethod(run_view)
        status = staticmethod(status)

    return Makers
