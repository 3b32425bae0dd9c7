"""What the traffic promises: counted in idle, printed by start, shown by the status, the same after a restart."""

import signal
from pathlib import Path

from fakes.arm_server import ArmServer
from fakes.gateway_process import GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from ctl import status_view

TIMES = {"min_step_s": 4, "min_events": 20, "min_windows": 3, "bake_s": 2, "steps": [10, 100]}


def test_start_prints_the_expected_times_and_the_status_shows_them(tmp_path: Path) -> None:
    """Without traffic nothing is foretold; with it each step has its time, which a killed gateway finds again."""
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16") as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
    ):
        with SteadyLoad(g.data_url):
            assert "No times are foretold: traffic has not been counted" in g.run_plan(**TIMES).detail
            g.command("rollback")
            # The rate is asked for by the run's own rule: six windows of 1 s of counting, then those of the last 30.
            began = g.status().at
            wait_until(lambda: g.status().at > began + 8.0, "enough seconds of traffic")
            detail = g.run_plan(**TIMES).detail
            assert "judged requests a second (counted at the start) the steps should take: 10 % about " in detail
            assert ", 100 % (the bake) about " in detail
            g.wait_judging()
            run = g.status().run
        assert run is not None
        assert run.outlook is not None
        assert run.outlook.rate is not None
        assert 1.0 < run.outlook.rate < 120.0
        assert run.outlook.text in detail
        assert run.outlook.horizon_s >= 720.0
        assert run.longest_step_s is not None
        assert run.longest_step_s >= 60.0
        shown = " ".join(status_view.full(g.status()).split())
        assert f"Expected {run.outlook.text}" in shown
        g.stop(signal.SIGKILL)
        g.start()
        again = g.status().run
        assert again is not None
        assert again.outlook == run.outlook
