"""A real gateway measures its baseline against itself: what is quiet is shown, what is noisy holds the step."""

from pathlib import Path
from typing import Any

import msgspec
from fakes.arm_server import ArmServer
from fakes.gateway_process import DEMO_PLAN, GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from ctl.status_view import full
from wire import admin

PLAN: dict[str, Any] = {
    "min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2,
    "steps": [0, 100], "noise_floor": {"pairs": 20},
}  # fmt: skip
TIGHT = {**DEMO_PLAN["slo"], "parity": {"allowed": 0.005}}
PATIENT = {**DEMO_PLAN["slo"], "parity": {"allowed": 0.84}}
"""20 bad pairs of 20 are more than this explains (3 %), and it takes about a minute of them to convict anyone."""


def reason(g: GatewayProcess) -> str:
    verdict = g.status().verdict
    return verdict.reason if verdict is not None else ""


def lacks(g: GatewayProcess, what: str) -> bool:
    verdict = g.status().verdict
    return verdict is not None and any(missing.startswith(what) for missing in verdict.missing)


def kinds(g: GatewayProcess) -> list[str]:
    run = g.status().run
    return [line.kind for line in g.history() if run is not None and line.run_id == run.run_id]


def test_a_baseline_that_agrees_with_itself_is_measured_and_holds_nothing(tmp_path: Path) -> None:
    """Copies of its own requests reach the baseline, marked, until there are enough; no pair of the arms is theirs."""
    with (
        ArmServer(delay_s=0.005) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005) as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
    ):
        with SteadyLoad(g.data_url) as load:
            g.run_plan(**PLAN)
            wait_until(lambda: g.status().noise.pairs > 0, "a pair of the baseline with itself")
            wait_until(lambda: "advance" in kinds(g), "the first step passes")
            wait_until(lambda: g.status().noise.pairs >= 1, "the floor is still shown")
            status = g.status()
            assert (status.noise.wanted, status.noise.bad, status.noise.in_noise) == (20, 0, False)
            assert status.noise.text.startswith("noise floor: the baseline disagrees with itself in 0 of")
            assert "\nNoise" in full(status)
            assert status.parity.bad == 0
            assert any(key.startswith("noise:pair") for key in status.control["copies"])
        copies = [seen for seen in baseline.seen if seen.shadow]
        assert copies
        live = len([seen for seen in baseline.seen if not seen.shadow])
        assert len(copies) < 0.12 * live + 20
        assert set(load.statuses) == {200}


def test_a_baseline_that_is_noisy_by_itself_holds_the_step_also_after_a_restart(tmp_path: Path) -> None:
    """The hold has the numbers and what to do; a new run against quiet arms is not held."""
    with (
        ArmServer(delay_s=0.005, noisy=True) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005) as candidate,
    ):
        g = GatewayProcess(tmp_path, baseline.url, candidate.url)
        with g, SteadyLoad(g.data_url, rate=100) as load:
            g.run_plan(**PLAN, slo=PATIENT, copies={"share": 5})
            wait_until(lambda: g.status().noise.in_noise, "enough pairs differ")
            wait_until(lambda: reason(g) == "noise_floor", "the step is held")
            status = g.status()
            assert status.verdict is not None
            assert (status.state, status.weight, status.verdict.verdict) == ("shadowing", 0, "HOLD")
            assert "embedding: min 0.99 lies in the noise" in status.verdict.text
            explained = msgspec.json.decode(g.admin.get(admin.EXPLAIN_PATH).content, type=admin.Explanation)
            assert "(hold: noise_floor, parity)" in explained.headline
            assert explained.next.startswith("Start a new run with a tolerance above that noise")
            before = status.noise
            since = status.at
            wait_until(lambda: g.status().at > since + 3, "the judge's state is kept")
            assert g.stop() == 0
            assert set(load.statuses) <= {200, "ConnectError", "ReadError", "RemoteProtocolError"}
        with g, SteadyLoad(g.data_url) as load:
            # Not by the reason: before the first copy it is no_data, and after a few their pairs convict.
            wait_until(lambda: lacks(g, "noise floor: "), "held again")
            assert g.status().noise.pairs >= before.pairs
            assert "advance" not in kinds(g)
            g.command("rollback")
            baseline.noisy = False
            g.run_plan(**PLAN)
            wait_until(lambda: "advance" in kinds(g), "an advance")
            assert set(load.statuses) == {200}


def test_a_parity_rollback_beside_a_noisy_baseline_says_so(tmp_path: Path) -> None:
    """The rule does not wait for the floor; the explanation tells what the floor knows."""
    with (
        ArmServer(delay_s=0.005, noisy=True) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005) as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
        SteadyLoad(g.data_url, rate=100) as load,
    ):
        g.run_plan(**PLAN, slo=TIGHT)
        wait_until(lambda: g.status().state == "rolled_back", "rolled back")
        explained = msgspec.json.decode(g.admin.get(admin.EXPLAIN_PATH).content, type=admin.Explanation)
        assert (explained.metric, explained.rule) == ("parity", "evidence")
        assert "noise floor: the baseline disagrees with itself in" in next(
            fact.text for fact in explained.facts if fact.label == "Detail"
        )
        assert g.status().noise.pairs > 0
        assert set(load.statuses) == {200}
