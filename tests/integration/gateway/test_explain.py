"""The real gateway explains what it did, on the metric at fault, before and after a restart of the control process."""

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.arm_server import ArmServer
from fakes.gateway_process import DEMO_PLAN, GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from wire import admin

FAST = {"min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2, "steps": [50, 100]}
TOLD_ALIKE = ("Seen", "Limit", "Baseline", "Samples", "Rule", "Detail", "Clients", "Zero")


def explain(g: GatewayProcess) -> admin.Explanation:
    answer = g.admin.get(admin.EXPLAIN_PATH)
    assert answer.status_code == 200, answer.text
    return msgspec.json.decode(answer.content, type=admin.Explanation)


def printed(g: GatewayProcess) -> str:
    """What an operator reads."""
    command = [sys.executable, "-m", "ctl", "--url", g.admin_url, "explain"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def facts(explanation: admin.Explanation) -> dict[str, str]:
    return {fact.label: fact.text for fact in explanation.facts}


def slow(arm: ArmServer) -> None:
    arm.delay_s = 0.15


def wrong(arm: ArmServer) -> None:
    arm.turned = True


def compiling(arm: ArmServer) -> None:
    arm.headers = {"x-canary-compiles": "2", "x-canary-compiled": "4x128,1x128,; rm"}


@pytest.mark.parametrize(
    ("fault", "metric", "words", "change"),
    [
        (
            slow,
            "lat_p95",
            ["took longer than 80 ms", "p95 of successful answers since judging began"],
            "the phase that grew",
        ),
        (wrong, "parity", ["compared pairs disagree", "smallest cosine"], "the one of these"),
        (
            compiling,
            "recompile",
            ["waited for a compile", "1x128, 4x128"],
            "declare 1x128, 4x128",
        ),
    ],
    ids=["slow", "wrong", "recompile"],
)
def test_the_same_rollback_is_told_the_same_before_and_after_a_restart(
    tmp_path: Path, fault: Callable[[ArmServer], None], metric: str, words: list[str], change: str
) -> None:
    """Number, limit, baseline, samples and the one change: from memory, then from the journal."""
    slo = {**DEMO_PLAN["slo"], "lat_p95": {"limit_ms": 80, "allowed": 0.05}}
    plan: dict[str, Any] = {**FAST, "slo": slo}
    with ArmServer(delay_s=0.005) as baseline, ArmServer(dtype="bfloat16", delay_s=0.005) as candidate:
        g = GatewayProcess(tmp_path, baseline.url, candidate.url)
        with g:
            with SteadyLoad(g.data_url):
                g.run_plan(**plan)
                g.wait_judging()
                wait_until(lambda: bool(explain(g).facts), "an explanation while it runs")
                assert explain(g).headline.startswith("Step 1 of 2 at 50 %: ")
                fault(candidate)
                wait_until(lambda: g.status().state == "rolled_back", "rolled back", 60)
            wait_until(lambda: any(line.kind == "zero" for line in g.history()), "measured")
            before, text = explain(g), printed(g)
            assert g.stop(signal.SIGKILL) == -signal.SIGKILL
        with g:
            after, text_after = explain(g), printed(g)
    assert (before.outcome, before.metric, before.verdict) == ("ROLLED_BACK", metric, "ROLL_BACK")
    assert before.headline.startswith(f"Rolled back from 50 % for {metric}: ")
    told = facts(before)
    assert all(told[label] for label in TOLD_ALIKE)
    assert before.next.count("Change one thing: ") == 1
    assert change in before.next
    assert all(word in text.replace("\n          ", " ") for word in words)
    assert max(map(len, text.splitlines())) <= 100
    assert (after.headline, facts(after), after.next) == (before.headline, told, before.next)
    assert (after.metric, after.rule, after.shapes) == (before.metric, before.rule, before.shapes)
    assert text_after == text
