"""A real gateway whose requests are split by a header: few tenants hold a step, many pass it."""

from pathlib import Path
from typing import Any

from fakes.arm_server import ArmServer
from fakes.gateway_process import GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

PLAN: dict[str, Any] = {
    "min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2,
    # Every request is copied, so that no tenant's luck decides whether the candidate sees any.
    "steps": [0, 100], "copies": {"share": 100, "soak": True},
}  # fmt: skip


def missing(g: GatewayProcess) -> list[str]:
    verdict = g.status().verdict
    return list(verdict.missing) if verdict is not None and verdict.verdict == "HOLD" else []


def kinds(g: GatewayProcess, run_id: str) -> list[str]:
    return [line.kind for line in g.history() if line.run_id == run_id]


def run_id(g: GatewayProcess) -> str:
    run = g.status().run
    assert run is not None
    return run.run_id


def test_two_tenants_hold_the_step_and_three_hundred_pass_it(tmp_path: Path) -> None:
    """With two nothing but keys is missing and nothing advances; with many the same plan goes on. No file has a key."""
    with (
        ArmServer(delay_s=0.005) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005) as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url, options={"key": {"header": "x-tenant"}}) as g,
    ):
        with SteadyLoad(g.data_url, tenants=2) as load:
            g.run_plan(**PLAN)
            wait_until(
                lambda: [text[:16] for text in missing(g)] == ["keys: 2 distinct"], "nothing but keys is missing"
            )
            since = g.status().at
            wait_until(lambda: g.status().at > since + 3, "three more windows")
            status = g.status()
            assert status.verdict is not None
            assert (status.state, status.weight, status.verdict.reason) == ("shadowing", 0, "too_few_keys")
            assert "needs at least 200; the largest has" in status.verdict.text
            assert any("distinct keys in this step: baseline 2, candidate 0" in note for note in status.verdict.notes)
            assert "advance" not in kinds(g, run_id(g))
            assert set(load.statuses) == {200}
        g.command("rollback")
        with SteadyLoad(g.data_url, tenants=300) as load:
            g.run_plan(**PLAN)
            wait_until(lambda: "advance" in kinds(g, run_id(g)), "an advance")
            assert set(load.statuses) == {200}
        g.stop()
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) > 3
        assert [path for path in files if b"acme" in path.read_bytes()] == []
