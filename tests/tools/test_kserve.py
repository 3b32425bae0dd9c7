"""KServe's own REST client against a ready server, and the requests of it that `make test` replays.

``CANARY_RECORD=1 make test-tools`` writes those anew.
"""

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from integration.server.running import MODEL, ROOT, RunningServer, running

pytestmark = pytest.mark.tool

CLIENT = Path(__file__).with_name("kserve_client.py")
RECORDED = ROOT / "tests" / "data" / "kserve_requests.json"
KEPT = ("content-type", "inference-header-content-length")


@pytest.fixture(scope="module")
def python() -> Path:
    """The interpreter that has the client, or a skip that says how to get it; where tools are required a failure."""
    found = ROOT / ".tools" / "kserve" / "bin" / "python"
    if not found.exists():
        reason = "KServe's client is missing: scripts/install-tools"
        pytest.fail(reason) if os.environ.get("CANARY_TOOLS_REQUIRED") else pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running(tmp_path_factory.mktemp("kserve")) as server:
        assert server.wait_state("ready", "failed")["state"] == "ready"
        yield server


def asked(python: Path, url: str) -> dict[str, Any]:
    done = subprocess.run([python, CLIENT, url, MODEL], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_it_understands_the_server_and_is_understood(python: Path, server: RunningServer) -> None:
    """Health by status and body, texts and ids in bytes and in JSON both ways, half precision, errors."""
    found = asked(python, str(server.data.base_url))
    assert [found.pop(name) for name in ("live", "ready", "model ready", "other ready")] == [True, True, True, False]
    assert "this server serves" in found.pop("unknown model")
    assert "allowed are 0 to 30521" in found.pop("unknown token")
    vectors = [item["embedding"] for item in server.embed(["Hello world", "naïve café"]).json()["data"]]
    assert len(found) == 12
    for name, answer in found.items():
        rows = len(answer["values"])
        assert (answer["id"], answer["shape"]) == (name, [2 if name.startswith("text") else 1, 384])
        assert answer["datatype"] == ("FP16" if name == "narrow" else "FP32")
        bound = 1e-3 if name == "narrow" else 1e-5
        assert np.abs(np.array(answer["values"]) - np.array(vectors[:rows])).max() < bound


class Recorder(BaseHTTPRequestHandler):
    """Keeps what is asked and gives answers that the client can read."""

    seen: list[dict[str, Any]]

    def do_GET(self) -> None:
        self._answer({"live": True, "ready": True})

    def do_POST(self) -> None:
        output = {"name": "embedding", "shape": [1, 1], "datatype": "FP32", "data": [0.0]}
        self._answer({"model_name": MODEL, "id": "0", "outputs": [output]})

    def _answer(self, document: dict[str, Any]) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name: self.headers[name] for name in KEPT if name in self.headers}
        encoded = base64.b64encode(body).decode()
        self.seen.append({"method": self.command, "path": self.path, "headers": headers, "body": encoded})
        content = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *given: Any) -> None: ...


def test_the_recorded_requests_are_still_what_it_sends(python: Path) -> None:
    """To the byte."""
    seen: list[dict[str, Any]] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Recording", (Recorder,), {"seen": seen})) as recorder:
        thread = threading.Thread(target=recorder.serve_forever)
        thread.start()
        try:
            asked(python, f"http://127.0.0.1:{recorder.server_port}")
        finally:
            recorder.shutdown()
            thread.join()
    version = next(
        line for line in (ROOT / "locks" / "kserve.in").read_text().splitlines() if line.startswith("kserve")
    )
    document = {"source": f"sent by {version}", "requests": seen}
    if os.environ.get("CANARY_RECORD"):
        RECORDED.write_text(json.dumps(document, indent=1) + "\n")
    assert json.loads(RECORDED.read_text()) == document
