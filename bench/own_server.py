"""Our server as a process of its own on whatever device, until it is warm, and what can be seen of it."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.server_cast import running
from bench.server_work import MODEL

START_S: Final = 900.0


class Server:
    """A process that listens."""

    def __init__(self, process: "subprocess.Popen[bytes]", ports: dict[str, int]) -> None:
        self._process = process
        self.port, self._admin, self.pid = ports["data"], ports["admin"], ports["pid"]

    def end(self) -> int:
        """Asks it to leave. The exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    def get(self, path: str) -> bytes:
        """Of the admin port, whatever the status is."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._admin}{path}", timeout=30) as answer:
                content: bytes = answer.read()
        except urllib.error.HTTPError as refused:
            content = refused.read()
        return content

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.get("/livez"))
        return found

    def metrics(self, name: str) -> dict[str, float]:
        """By the value of their one label, or under nothing."""
        found = {}
        for line in self.get("/metrics").decode().splitlines():
            key, _, value = line.rpartition(" ")
            if key == name or key.startswith(name + "{"):
                found[key.partition('="')[2].rstrip('"}')] = float(value)
        return found

    def memory(self) -> dict[str, int]:
        """Resident bytes of front and worker."""
        (worker,) = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return {"front": _resident(self.pid), "worker": _resident(int(worker))}


@contextmanager
def started(
    folder: Path, work: Path, *, device: str, batch: Sequence[int], length: Sequence[int], cache: Path
) -> Iterator[Server]:
    """A ready server of ``folder``, whose files are in ``work``. Raises OSError, with the end of its log."""
    ports, log = work / "ports.json", work / "server.log"
    ports.unlink(missing_ok=True)
    document = {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": {"name": MODEL, "path": str(folder), "format": "sentence-transformers"},
        "device": device,
        "catalogue": {"batch": list(batch), "length": list(length)},
        "listen": {"port": 0},
        "admin": {"port": 0},
        "cache_dir": str(cache),
        "ports_file": str(ports),
        "queue": {"max_rows": 256, "max_wait_ms": 600_000},
        "drain": {"delay_s": 0.2},
    }
    config = work / "server.yaml"
    config.write_text(json.dumps(document))  # JSON is YAML.
    more = {"CANARY_ALLOW_EMULATOR": "1"} if device == "tpu-emulator" else {}
    command = [sys.executable, "-m", "server", "--config", str(config)]
    with running(command, os.sched_getaffinity(0), log, more) as process:
        end = time.monotonic() + START_S

        def check(alive: bool) -> None:
            if not alive or process.poll() is not None or time.monotonic() > end:
                raise OSError(f"the server did not get ready: {log.read_text()[-2000:]}")
            time.sleep(0.05)

        while not ports.exists():
            check(True)
        server = Server(process, json.loads(ports.read_text()))
        while (state := server.health()["state"]) != "ready":
            check(state != "failed")
        yield server


def _resident(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise OSError(f"process {pid} has no VmRSS")
