"""The server's bench runs from end to end; what it measures in a second says nothing and is not looked at."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.server_cast import SORTED
from bench.server_work import weights

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".cache" / "bench-peers"
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.mark.skipif(not (PEERS / ".fresh").exists(), reason="LitServe and Mosec are not installed: make bench-server")
@pytest.mark.skipif(weights() is None, reason="the weights are not installed: locks/weights.txt")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the bench needs two cores")
def test_one_quick_round_of_every_server(tmp_path: Path) -> None:
    """All of them start, answer as the model does, and are ended."""
    out = tmp_path / "result.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.server", "--peers", str(PEERS), "--quick", "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(out.read_text())
    assert result["wrong"] == []
    assert set(result["rounds"][0]) == {"ours", "ours-bfloat16", "plain", "litserve", "mosec", SORTED}
    assert set(result["layers"][0]) == {"ours", "plain", "litserve", "mosec"}
