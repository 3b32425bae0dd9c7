"""The highest rate at which a server answers within a p99: ``throughput.py CONFIG PORTS_FILE OUT P99_MS``.

Each step is a run of our load generator, which sends at a constant rate whatever the answers do and counts from the
planned start. The rate doubles while a step holds; then one step lies between the last that held and the first that did
not. A step in which the generator itself was late proves nothing and ends the search.
"""

import http.client
import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FIRST_RATE = 10.0
STEP_S = 4.0
SEARCH_S = 32.0
READY_S = 120.0
LATE_SHARE = 0.01
USERS = 256


def main(config: Path, ports_file: Path, out: Path, p99_ms: float) -> int:
    """0 when at least one rate held. Writes throughput.json; the last line printed is the result."""
    server = subprocess.Popen([sys.executable, "-m", "server", "--config", str(config)])
    try:
        url = f"http://127.0.0.1:{_ready(server, ports_file)}"
        steps = _search(url, out, p99_ms)
    finally:
        server.terminate()
        server.wait(30)
    held = [step for step in steps if step["held"]]
    best = max((step["rate"] for step in held), default=None)
    found = {"p99_limit_ms": p99_ms, "seconds_each": STEP_S, "requests_a_second": best, "steps": steps}
    (out / "throughput.json").write_text(json.dumps(found, indent=2) + "\n")
    for step in steps:
        print(json.dumps(step))
    if best is None:
        print(f"no rate held a p99 of {p99_ms:g} ms")
        return 1
    at_least = "" if len(held) < len(steps) and steps[-1]["why"] != "generator" else "at least "
    print(f"{at_least}{best:g} requests/s of the load generator's mix within a p99 of {p99_ms:g} ms")
    return 0


def _search(url: str, out: Path, p99_ms: float) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    rate, until = FIRST_RATE, time.monotonic() + SEARCH_S
    while time.monotonic() < until:
        steps.append(_step(url, out / f"rate-{rate:g}", rate, p99_ms))
        if not steps[-1]["held"]:
            break
        rate *= 2
    if len(steps) > 1 and steps[-1]["why"] == "server" and time.monotonic() < until:
        between = 1.5 * steps[-2]["rate"]
        steps.append(_step(url, out / f"rate-{between:g}", between, p99_ms))
    return steps


def _step(url: str, out: Path, rate: float, p99_ms: float) -> dict[str, Any]:
    words = ["run", "--host", url, "--model", "seeded", "--rate", str(rate), "--seconds", str(STEP_S)]
    words += ["--users", str(USERS), "--out", str(out)]
    subprocess.run([sys.executable, "-m", "loadtest", *words], check=False)
    stats = json.loads((out / "stats.json").read_text())
    p99 = stats["latency"]["p99"]
    late = stats["late"] > LATE_SHARE * stats["planned"]
    good = p99 is not None and p99 <= p99_ms and not stats["failures"] and not stats["unsent"]
    why = "" if good and not late else "generator" if late and not stats["failures"] else "server"
    return {"rate": rate, "held": not why, "why": why, "answered": stats["answered"], "failures": stats["failures"],
            "late": stats["late"], "p50_ms": stats["latency"]["p50"], "p99_ms": p99}  # fmt: skip


def _ready(server: "subprocess.Popen[bytes]", ports_file: Path) -> int:
    """The data port, once the server is ready."""
    until = time.monotonic() + READY_S
    while time.monotonic() < until and server.poll() is None:
        if ports_file.exists():
            ports = json.loads(ports_file.read_text())
            connection = http.client.HTTPConnection("127.0.0.1", ports["data"], timeout=10)
            connection.request("GET", "/v2/health/ready")
            status = connection.getresponse().status
            connection.close()
            if status == 200:
                return int(ports["data"])
        time.sleep(0.1)
    raise SystemExit(f"the server is not ready (exit code {server.poll()})")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), float(sys.argv[4])))
