"""The real ``canary-gateway`` as a process on free ports, for integration tests."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import yaml

from wire import admin

DEMO_PLAN: dict[str, Any] = {
    "apiVersion": "canary/v1",
    "kind": "Plan",
    "rollout": "it",
    "preset": "demo",
    "steps": [0, 10, 50, 100],
    "slo": {
        "lat_p95": {"limit_ms": 2000, "allowed": 0.05},
        "error": {"allowed": 0.05},
        "refused": {"allowed": 0.05},
        "parity": {"allowed": 0.05},
    },
    "parity": {"cosine_min": 0.99},
    "copies": {"share": 50, "soak": True},
    "declared_differences": ["dtype"],
}
WAIT_S = 30.0


def wait_until(condition: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    """Polls a condition until it holds; fails with ``what`` after a bound."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


@dataclass
class GatewayProcess:
    """``folder`` keeps configuration, state and logs; starting again in the same folder resumes.

    ``module`` is what python runs, ``environment`` comes on top of the test's own.
    """

    folder: Path
    baseline: str
    candidate: str
    options: dict[str, Any] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    module: str = "gateway"
    environment: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        config = {
            "apiVersion": "canary/v1",
            "kind": "Gateway",
            "rollout": "it",
            "model": "m",
            "listen": {"port": 0},
            "admin": {"port": 0},
            "state_dir": str(self.folder / "state"),
            "ports_file": str(self.folder / "ports.json"),
            "access_log": str(self.folder / "access.log"),
            "drain": {"delay_s": 0.2, "limit_s": 5},
            "arms": {
                "baseline": {"name": "gpu", "url": self.baseline},
                "candidate": {"name": "tpu", "url": self.candidate},
            },
            **self.options,
        }
        path = self.folder / "gateway.yaml"
        path.write_text(yaml.safe_dump(config))
        ports_file = self.folder / "ports.json"
        ports_file.unlink(missing_ok=True)
        self.log = (self.folder / "gateway.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", self.module, "--config", str(path)],
            stderr=self.log,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
        )
        wait_until(lambda: ports_file.exists() or self.process.poll() is not None, "the gateway listens")  # type: ignore[union-attr]  # set just above
        assert ports_file.exists(), (self.folder / "gateway.log").read_text()
        ports = msgspec.json.decode(ports_file.read_bytes(), type=admin.Ports)
        assert ports.admin_token_file is not None
        self.data_url = f"http://127.0.0.1:{ports.data}"
        self.admin_url = f"http://127.0.0.1:{ports.admin}"
        token = Path(ports.admin_token_file).read_text().strip()
        self.headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        self.admin = httpx.Client(base_url=self.admin_url, timeout=15, trust_env=False)

    def stop(self, signum: int = signal.SIGTERM) -> int:
        """Sends a signal and waits for the end; the exit status."""
        assert self.process is not None
        self.process.send_signal(signum)
        code = self.process.wait(30)
        self.admin.close()
        self.log.close()
        self.process = None
        return code

    def __enter__(self) -> "GatewayProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.stop(signal.SIGKILL)

    def status(self) -> admin.Status:
        return msgspec.json.decode(self.admin.get(admin.STATUS_PATH).content, type=admin.Status)

    def history(self) -> list[admin.JournalLine]:
        answer = self.admin.get(admin.HISTORY_PATH, params={"limit": 1000})
        return msgspec.json.decode(answer.content, type=admin.History).lines

    def run_plan(self, **change: Any) -> admin.CommandResult:
        body = {"plan": {**DEMO_PLAN, **change}, "reason": "test", "who": "test"}
        answer = self.admin.post(admin.START_PATH, content=json.dumps(body), headers=self.headers)
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=admin.CommandResult)

    def wait_judging(self) -> None:
        """Waits until the step's first window has begun: what arrives now is evidence."""

        def begun() -> bool:
            status = self.status()
            judged = status.state in ("shadowing", "stepping", "baking")
            return judged and status.run is not None and status.at > status.run.step_since + 1.5

        wait_until(begun, "the first window of the step")

    def command(self, name: str, **more: Any) -> admin.CommandResult:
        body = {"reason": "test", "who": "test", **more}
        answer = self.admin.post(f"/v1/commands/{name}", content=json.dumps(body), headers=self.headers)
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=admin.CommandResult)

    def access_lines(self) -> list[dict[str, Any]]:
        """What the worker wrote to arms and acknowledged, in order."""
        lines = (self.folder / "access.log").read_text().splitlines()
        return [json.loads(line) for line in lines]
