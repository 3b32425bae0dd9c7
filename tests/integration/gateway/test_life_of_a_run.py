"""The real gateway processes in front of two arms: from start to verdict, through crash and rollback."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from fakes.arm_server import ArmServer
from fakes.gateway_process import GatewayProcess, wait_until
from fakes.steady_load import SteadyLoad

FAST = {"min_step_s": 4, "max_step_s": 60, "min_events": 20, "min_windows": 3, "bake_s": 2}


def gateway(tmp_path: Path, baseline: ArmServer, candidate: ArmServer, **options: Any) -> GatewayProcess:
    return GatewayProcess(tmp_path, baseline.url, candidate.url, options)


def test_a_good_candidate_is_promoted_and_finished(tmp_path: Path) -> None:
    """Two workers: shadow, steps, bake, done on merged evidence; clients see only 200; SIGTERM drains and exits 0."""
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16") as candidate,
        gateway(tmp_path, baseline, candidate, workers=2) as g,
    ):
        wait_until(lambda: g.admin.get("/readyz").status_code == 200, "ready")
        with SteadyLoad(g.data_url) as load:
            g.run_plan(**FAST)
            wait_until(lambda: g.status().state == "done", "promoted", 90)
        status = g.status()
        assert status.run is not None
        assert [worker.name for worker in status.workers] == ["w0", "w1"]
        assert (status.run.outcome, status.weight) == ("PROMOTED", 10_000)
        assert status.parity.pairs > 0
        assert (status.parity.bad, status.parity.min_cosine) == (0, pytest.approx(1.0))
        assert set(load.statuses) == {200}
        kinds = [line.kind for line in g.history()]
        assert kinds[:3] == ["start", "validated", "step"]
        assert kinds[-1] == "done"
        assert g.command("finish").state == "idle"
        assert next(a for a in g.status().arms if a.role == "baseline").name == "tpu"
        assert g.stop() == 0


def test_a_candidate_that_fails_is_rolled_back_and_no_client_notices(tmp_path: Path) -> None:
    """5xx from the candidate: failed over, booked, rolled back from live weight with metric error."""
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as candidate, gateway(tmp_path, baseline, candidate) as g:
        with SteadyLoad(g.data_url) as load:
            g.run_plan(**{**FAST, "steps": [50, 100]})
            wait_until(lambda: any(not s.shadow for s in candidate.seen), "live traffic on the candidate")
            candidate.answers = lambda text: 500
            wait_until(lambda: g.status().state == "rolled_back", "rolled back")
        run = g.status().run
        assert run is not None
        assert (run.metric, run.decided_weight) == ("error", 5000)
        assert run.time_to_zero_ms is not None
        assert set(load.statuses) == {200}


def test_a_refusal_of_what_the_baseline_serves_is_booked_and_the_client_gets_the_baselines_answer(
    tmp_path: Path,
) -> None:
    """400 from the candidate, 200 from the baseline: refused, client 200. 400 from both: client 400, in no metric."""
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as candidate, gateway(tmp_path, baseline, candidate) as g:
        candidate.answers = lambda text: 400 if "long" in text else 200
        baseline.answers = lambda text: 400 if "longest" in text else 200
        g.run_plan(**{**FAST, "steps": [100], "copies": {"share": 50, "soak": True}})
        g.wait_judging()

        def send(text: str) -> int:
            answer = httpx.post(g.data_url + "/v1/embeddings", json={"model": "m", "input": text}, trust_env=False)
            return answer.status_code

        assert [send("long"), send("longest"), send("short")] == [200, 400, 200]
        wait_until(lambda: next(a for a in g.status().arms if a.role == "candidate").refused == 1, "booked")
        assert next(a for a in g.status().arms if a.role == "candidate").failed == 0


def test_requests_are_judged_by_class_where_the_plan_says_so(tmp_path: Path) -> None:
    """From the client's body to the status: each request in the table of its class, and both in the whole."""
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as candidate, gateway(tmp_path, baseline, candidate) as g:
        g.run_plan(**{**FAST, "steps": [100], "strata": {"by": "body_bytes", "edges": [512, 4096]}})
        g.wait_judging()
        for text in ("short", "long" * 2000, "longer" * 2000):
            body = {"model": "m", "input": text}
            assert httpx.post(g.data_url + "/v1/embeddings", json=body, trust_env=False).status_code == 200

        def answered() -> dict[str, int]:
            verdict = g.status().verdict
            found = (
                {s.name: {m.metric: m.candidate_events for m in s.metrics} for s in verdict.strata} if verdict else {}
            )
            return {name: events["error"] for name, events in found.items()}

        expected = {"up to 512 B": 1, "513 to 4096 B": 0, "above 4096 B": 2}
        wait_until(lambda: answered() == expected, "every request in its class")


@pytest.mark.parametrize(
    "garbage",
    [
        b'{"data": [{"index": 0, "embedding": [' + b"9" * 400 + b"]}]}",
        b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=["number", "brackets", "bytes"],
)
def test_whatever_a_candidate_answers_to_copies_no_client_notices(tmp_path: Path, garbage: bytes) -> None:
    """Answers that break decoders differ: rolled back for parity from the shadow step, and clients see 200."""
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as candidate, gateway(tmp_path, baseline, candidate) as g:
        candidate.garbage = garbage
        with SteadyLoad(g.data_url) as load:
            g.run_plan(**FAST)
            wait_until(lambda: g.status().state == "rolled_back", "rolled back", 60)
        run = g.status().run
        assert run is not None
        assert (run.metric, run.decided_weight, run.live_candidate_requests) == ("parity", 0, 0)
        assert set(load.statuses) == {200}


def test_nothing_of_the_old_epoch_is_written_after_the_acknowledgement(tmp_path: Path) -> None:
    """Rollback under load: what the candidate got of the old epoch was written before the worker's ack, none after."""
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16", delay_s=0.05) as candidate,
        gateway(tmp_path, baseline, candidate) as g,
    ):
        with SteadyLoad(g.data_url, rate=150, clients=8) as load:
            g.run_plan(**{**FAST, "steps": [50, 100]})
            wait_until(lambda: sum(not s.shadow for s in candidate.seen) > 100, "live traffic")
            old_epoch = g.status().epoch
            result = g.command("rollback")
            assert (result.state, result.missing, result.acknowledged) == ("rolled_back", [], ["w0"])
            baseline_seen = len(baseline.seen)
            wait_until(lambda: len(baseline.seen) > baseline_seen + 50, "traffic goes on")
        wait_until(lambda: g.admin.get("/livez").status_code == 200, "alive")
        assert set(load.statuses) == {200}
        lines = g.access_lines()
        ack = next(i for i, line in enumerate(lines) if "ack" in line and line["epoch"] > old_epoch)
        to_candidate = [i for i, line in enumerate(lines) if line.get("arm") == "tpu"]
        assert to_candidate
        assert max(to_candidate) < ack
        written = {lines[i]["request_id"] for i in to_candidate}
        assert {s.request_id for s in candidate.seen} <= written
        assert all(s.epoch <= old_epoch for s in candidate.seen)


def test_a_killed_gateway_resumes_the_same_step_and_does_not_advance_without_fresh_evidence(tmp_path: Path) -> None:
    """kill -9 in mid-canary: same step, epoch and journal; silence afterwards advances nothing; evidence does."""
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as candidate:
        g = gateway(tmp_path, baseline, candidate)
        with g:
            with SteadyLoad(g.data_url):
                g.run_plan(**FAST)
                wait_until(lambda: g.status().state == "stepping", "stepping", 60)
            before, journal = g.status(), g.history()
            assert g.stop(signal.SIGKILL) == -signal.SIGKILL
        with g:
            after = g.status()
            assert before.run is not None
            assert after.run is not None
            assert (after.epoch, after.weight, after.run.step, after.run.run_id) == (
                before.epoch, before.weight, before.run.step, before.run.run_id,
            )  # fmt: skip
            kept = g.history()
            assert kept[: len(journal)] == journal
            assert [line.kind for line in kept[len(journal) :]] == ["restart"]
            wait_until(lambda: g.status().verdict is not None, "judging")
            since = g.status().at
            wait_until(lambda: g.status().at > since + 6, "six silent seconds")
            assert g.status().weight == before.weight
            with SteadyLoad(g.data_url):
                wait_until(lambda: g.status().weight > before.weight, "advance on fresh evidence", 60)


def test_a_second_gateway_on_the_same_state_is_refused_with_the_pid(tmp_path: Path) -> None:
    """One control process per state directory; the second says who holds it."""
    with ArmServer() as baseline, ArmServer(dtype="bfloat16") as candidate, gateway(tmp_path, baseline, candidate) as g:
        assert g.process is not None
        second = subprocess.run(
            [sys.executable, "-m", "gateway", "--config", str(tmp_path / "gateway.yaml")],
            capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert f"process {g.process.pid}" in second.stderr


def test_a_second_gateway_on_the_same_port_is_refused(tmp_path: Path) -> None:
    """SO_REUSEPORT would let it take half of the traffic without a word."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with (
        ArmServer() as baseline,
        ArmServer(dtype="bfloat16") as candidate,
        gateway(tmp_path / "one", baseline, candidate) as first,
    ):
        port = int(first.data_url.rsplit(":", 1)[1])
        second = gateway(tmp_path / "two", baseline, candidate, listen={"port": port})
        with pytest.raises(AssertionError, match=f"listen: 127.0.0.1:{port} cannot be bound"):
            second.start()
        assert second.process is not None
        assert second.process.wait(10) == 1
        second.log.close()
