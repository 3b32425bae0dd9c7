"""A real gateway says how much slower the candidate answers the same request, and lets that decide nothing."""

from pathlib import Path
from typing import Any

import msgspec
from fakes.arm_server import ArmServer
from fakes.gateway_process import GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from ctl.status_view import full
from wire import admin

PLAN: dict[str, Any] = {
    "min_step_s": 40, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2,
    "steps": [30, 100], "copies": {"share": 100, "soak": True},
}  # fmt: skip
DETAIL = "Latency of candidate / baseline, same request: "


def test_a_slow_candidate_has_a_factor_above_one_with_an_interval(tmp_path: Path) -> None:
    """Copies go both ways and first as often as last; 60 ms are within the limits, so the run goes on."""
    with (
        ArmServer(delay_s=0.01) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.06) as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
    ):
        with SteadyLoad(g.data_url, clients=8, rate=40) as load:
            g.run_plan(**PLAN)
            wait_until(lambda: g.status().paired.blocks >= 8, "eight blocks")
            status = g.status()
            explained = msgspec.json.decode(g.admin.get(admin.EXPLAIN_PATH).content, type=admin.Explanation)
        paired = status.paired
        assert paired.low is not None
        assert paired.median is not None
        assert paired.high is not None
        assert 1.0 < paired.low <= paired.median <= paired.high
        assert paired.text.endswith("information, decides nothing")
        assert paired.text in " ".join(full(status).split())
        assert DETAIL in next(fact.text for fact in explained.facts if fact.label == "Detail")
        assert (status.state, status.weight) == ("stepping", 3000)
        assert any(name.startswith("baseline:pair") for name in status.control["copies"])
        g.command("rollback")
        ended = g.status()
        assert ended.paired.pairs >= paired.pairs
        assert DETAIL in g.admin.get(admin.EXPLAIN_PATH).text
        assert set(load.statuses) == {200}
