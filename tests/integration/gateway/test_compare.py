"""Real gateways that compare answers field by field: wrong ones are rolled back, those within the policy are not."""

from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from fakes.arm_server import ArmServer
from fakes.gateway_process import GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

from wire import admin

FAST: dict[str, Any] = {"min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2}
LABEL = {"path": "outputs.scores", "rule": "label"}
TOP_K = {"path": "outputs.*", "rule": "top_k", "k": 3, "overlap_min": 0.9, "rank_min": 0.9}
NUDGE = 1e-3
"""Every score differs by this much, none changes its place."""


def compare(field: dict[str, Any]) -> dict[str, Any]:
    return {"parity": None, "compare": {"kinds": {"oip_infer": {"fields": [field], "ignore": ["id"]}}}}


def advanced(g: GatewayProcess) -> bool:
    return "advance" in [line.kind for line in g.history()]


@pytest.mark.parametrize(("field", "binary"), [(LABEL, False), (TOP_K, True)])
def test_a_candidate_that_answers_wrongly_is_rolled_back_by_its_field(
    field: dict[str, Any], binary: bool, tmp_path: Path
) -> None:
    """Scores in JSON or behind it: other labels, or another order, are told by field; no text is kept anywhere."""
    with (
        ArmServer(binary=binary) as baseline,
        ArmServer(dtype="bfloat16", binary=binary, nudge=NUDGE) as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
        SteadyLoad(g.data_url, infer=True) as load,
    ):
        g.run_plan(**{**FAST, "min_step_s": 40}, steps=[10, 100], **compare(field))
        g.wait_judging()
        wait_until(lambda: g.status().parity.pairs > 20, "pairs")
        assert g.status().parity.bad == 0
        candidate.turned = True
        wait_until(lambda: g.status().state == "rolled_back", "rolled back")
        status = g.status()
        assert status.run is not None
        assert (status.run.outcome, status.run.metric, status.run.rule) == ("ROLLED_BACK", "parity", "evidence")
        seen = next(each for each in status.parity.fields if each.field == field["path"])
        assert (seen.content, set(seen.kinds)) == ("oip_infer", {"ok", "tolerance"})
        assert seen.bad > 0
        assert status.parity.worst.partition(": ")[2].startswith(f"{field['path']}: ")
        told = msgspec.json.decode(g.admin.get(admin.EXPLAIN_PATH).content, type=admin.Explanation)
        detail = next(fact.text for fact in told.facts if fact.label == "Detail")
        assert field["path"] in detail
        assert set(load.statuses) == {200}
        g.stop()
        kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"text 0" in path.read_bytes()]
        assert kept == []


@pytest.mark.parametrize("field", [LABEL, TOP_K])
def test_a_candidate_within_the_policy_goes_on(field: dict[str, Any], tmp_path: Path) -> None:
    """No score is equal, every label and every order is; nothing is left out of the comparison."""
    with (
        ArmServer(delay_s=0.005) as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.005, nudge=NUDGE) as candidate,
        GatewayProcess(tmp_path, baseline.url, candidate.url) as g,
        SteadyLoad(g.data_url, infer=True) as load,
    ):
        g.run_plan(**FAST, steps=[0, 100], **compare(field))
        wait_until(lambda: advanced(g), "an advance")
        parity = g.status().parity
        assert (parity.bad, parity.not_compared) == (0, {})
        assert parity.pairs > FAST["min_events"]
        assert set(load.statuses) == {200}


def test_a_policy_that_can_decide_nothing_does_not_start(tmp_path: Path) -> None:
    """Every problem in one refusal, before any traffic moves."""
    fields = [{**TOP_K, "k": 3.0}, {"path": "outputs[0]", "rule": "label"}]
    with ArmServer() as baseline, ArmServer() as candidate, GatewayProcess(tmp_path, baseline.url, candidate.url) as g:
        with pytest.raises(AssertionError) as refused:
            g.run_plan(**{**compare(LABEL), "compare": {"kinds": {"oip_infer": {"fields": fields, "rest": "no"}}}})
        for problem in (
            "fields[0].k: 3.0 must be a whole number",
            "fields[1].path: 'outputs[0]' can never match",
            "oip_infer.rest: 'no' must be true or false",
        ):
            assert problem in str(refused.value)
        assert g.status().state == "idle"
        assert httpx.get(g.data_url + "/v2/health/live", trust_env=False).status_code == 200
