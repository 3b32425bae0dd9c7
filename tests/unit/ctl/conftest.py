"""A small admin port that speaks the wire types, for the command line to be pointed at."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
import pytest

from wire.admin import (
    ArmView,
    CommandResult,
    Explanation,
    Fact,
    History,
    JournalLine,
    LatencyView,
    MetricView,
    ParityView,
    Replay,
    RunView,
    Status,
    VerdictView,
    WorkerView,
)

AT = 1_800_000_000.0


def run_view(**changes: Any) -> RunView:
    fields: dict[str, Any] = {
        "run_id": "r7", "rollout": "demo", "kind": "migration", "plan_digest": "ab12", "state": "stepping", "epoch": 3,
        "step": 1, "steps": [0, 1000, 5000, 10000], "weight": 1000, "started_at": AT - 60, "step_since": AT - 14,
        "reason": "try the new chips", "who": "ann@desk",
    }  # fmt: skip
    return RunView(**(fields | changes))


def status(**changes: Any) -> Status:
    latency = LatencyView(count=100, p50=12.345, p95=40.0, p99=77.7)
    arms = [
        ArmView(name="cpu", role="baseline", url="http://a", ready=True, device="cpu", live=900, latency=latency),
        ArmView(
            name="tpu", role="candidate", url="http://b", ready=False, detail="warming bucket 3 of 12", emulated=True,
            device="tpu-emulator", live=100, copies=450, failed=2, unavailable=1, latency=LatencyView(count=0),
        ),
    ]  # fmt: skip
    metrics = [
        MetricView(
            metric="lat_p95", allowed=0.05, limit_ms=400.0, candidate_events=80, candidate_bad=1, baseline_events=700,
            baseline_bad=2, evidence=0.61, bar=20.0, proof=1.2, proof_bar=3.0, passes=False,
        ),
        MetricView(
            metric="error", allowed=0.05, limit_ms=None, candidate_events=80, candidate_bad=0, baseline_events=700,
            baseline_bad=0, evidence=0.2, bar=20.0, proof=None, proof_bar=3.0, passes=True,
        ),
    ]  # fmt: skip
    verdict = VerdictView(
        verdict="HOLD", reason="not_proven", text="lat_p95: 1 of 80 above 400 ms, 5 % allowed; not yet proven.",
        metric=None, at=AT, evidence=0.61, bar=20.0, metrics=metrics, missing=["80 events, 12 more needed"],
        notes=["control off"],
    )  # fmt: skip
    fields: dict[str, Any] = {
        "rollout": "demo", "replica": "r0", "at": AT, "state": "stepping", "weight": 1000, "epoch": 3, "arms": arms,
        "workers": [WorkerView(name="w0", pid=42, acknowledged_version=9, age_s=0.31, in_flight=2)], "store": "sqlite",
        "snapshot_version": 9, "run": run_view(), "verdict": verdict,
        "parity": ParityView(pairs=120, bad=1, min_cosine=0.99123, max_abs=0.01, shed=3, worst="id-5"),
    }  # fmt: skip
    return Status(**(fields | changes))


def explanation(**changes: Any) -> Explanation:
    fields: dict[str, Any] = {
        "at": AT, "state": "rolled_back", "weight": 0, "headline": "Rolled back from 10 % for lat_p95: 9 % too slow.",
        "facts": [Fact(label="Seen", text="38 of 412 " * 20), Fact(label="Zero", text="31 ms")],
        "next": 'Change one thing. Then begin again: `canaryctl start PLAN --reason "..."`', "run_id": "r7",
    }  # fmt: skip
    return Explanation(**(fields | changes))


class FakeAdmin:
    """Steer it by ``answers``: (method, path) to (status, body). ``requests`` keeps what came: method, path with
    query, headers in lower case, body."""

    def __init__(self) -> None:
        result = CommandResult(
            state="rolled_back", epoch=4, weight=0, detail="by hand", acknowledged=["w0"], time_to_zero_ms=12.0
        )
        lines = [JournalLine(seq=1, at=AT, run_id="r7", epoch=3, kind="start", who="ann@desk", text="run opened")]
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {
            ("GET", "/v1/status"): (200, status()),
            ("GET", "/v1/explain"): (200, explanation()),
            ("GET", "/v1/history"): (200, History(lines=lines)),
            ("POST", "/v1/start"): (200, result),
            ("POST", "/v1/replay"): (
                200,
                Replay(
                    run_id="r7",
                    plan_digest="d",
                    other_plan=None,
                    windows=3,
                    changes=[],
                    final=None,
                    decisions=[],
                    same=None,
                ),
            ),
            **{
                ("POST", f"/v1/commands/{name}"): (200, result)
                for name in ("pause", "resume", "rollback", "promote", "finish")
            },
        }
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                head = {name.lower(): value for name, value in self.headers.items()}
                fake.requests.append((self.command, self.path, head, body))
                code, answer = fake.answers.get((self.command, self.path.partition("?")[0]), (404, b"nothing here"))
                raw = answer if isinstance(answer, bytes) else msgspec.json.encode(answer)
                self.send_response(code)
                self.send_header("content-length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    fake = FakeAdmin()
    yield fake
    fake.close()


@pytest.fixture
def sample() -> Any:
    """Makers of a status, a run and an explanation with given fields changed."""
    return {"status": status, "run": run_view, "explanation": explanation}
