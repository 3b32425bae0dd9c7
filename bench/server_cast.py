"""Starts the servers of the bench on their core, and ends them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.server_load import post
from bench.server_work import DIM, MODEL

ROOT: Final = Path(__file__).resolve().parents[1]
START_S: Final = 300.0
QUEUE_SHARE: Final = 0.6
OURS: Final = "ours"
OURS_BF16: Final = "ours-bfloat16"
DOCUMENTED: Final = ("plain", "litserve", "mosec")
SORTED: Final = "mosec-sorted"
MODULES: Final = {
    "plain": "bench.server_peers",
    "litserve": "bench.server_litserve",
    "mosec": "bench.server_mosec",
    SORTED: "bench.server_mosec",
}
PACKAGES: Final = {"litserve": "litserve", "mosec": "mosec", SORTED: "mosec"}
# Eager on a CPU every token of padding costs its share: many widths, every batch size, of long texts only small ones.
CATALOGUE: Final = {
    "batch": list(range(1, 17)),
    "length": [6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64],
    "exclude": [{"batch": {"from": 9}, "length": {"from": 24}}, {"batch": {"from": 5}, "length": {"from": 40}}],
}
QUICK_CATALOGUE: Final = {"batch": [1, 4], "length": [16, 64]}
LAYER_CATALOGUE: Final = {"batch": [1, 2, 4, 8, 16, 32, 64], "length": [8]}


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the servers run: their cores, the peers' environment, a scratch folder, and the weights."""

    cores: frozenset[int]
    peers: Path | None
    work: Path
    weights: Path
    quick: bool = False

    def interpreter(self, name: str) -> tuple[str, dict[str, str]]:
        """What runs a server, and the variables that go with it. What is installed here comes first: of the peers'
        environment only what is missing.
        """
        if self.peers is None or name not in PACKAGES:
            return sys.executable, {}
        path = os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])
        return str(self.peers / "bin" / "python"), {"PYTHONPATH": path}

    def missing(self) -> dict[str, str]:
        """Who cannot be imported, and why."""
        found = {}
        for name, package in PACKAGES.items():
            interpreter, variables = self.interpreter(name)
            try:
                tried = subprocess.run(
                    [interpreter, "-c", f"import {package}"],
                    env={**os.environ, **variables},
                    capture_output=True,
                    text=True,
                    check=False,
                )
            except OSError as error:
                found[name] = str(error)
                continue
            if tried.returncode:
                found[name] = tried.stderr.strip().splitlines()[-1]
        return found


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers. ``group``: of all of its processes."""

    port: int
    path: str
    group: int

    def requests(self, inputs: Sequence[object]) -> list[bytes]:
        more = {"model": MODEL} if self.path.startswith("/v1") else {}
        return [post(self.path, json.dumps({"input": each, **more}).encode()) for each in inputs]

    def vector(self, body: bytes) -> list[float]:
        """Of an answer."""
        found: Any = json.loads(body)
        vector: list[float] = (found["data"][0] if self.path.startswith("/v1") else found)["embedding"]
        return vector


@contextmanager
def serving(name: str, stage: Stage, *, layer: bool = False, limit_s: float = 1.0) -> Iterator[Running]:
    """``layer``: with a model that costs nothing. Our queue is bounded by ``limit_s``, the peers' as they come.

    Raises OSError.
    """
    port, ours = _free_port(), name in (OURS, OURS_BF16)
    if ours:
        words = ["-m", "server", "--config", str(_config(stage, port, name, limit_s, layer=layer))]
    else:
        words = ["-m", MODULES[name], name, str(port), "-" if layer else str(stage.weights)]
    log = stage.work / f"{name}.log"
    with started(name, words, stage, log) as process:
        running = Running(port, "/v1/embeddings" if ours else "/embed", process.pid)
        try:
            _wait(running, process)
        except OSError as error:
            raise OSError(f"{name} did not start: {error}: {log.read_text()[-2000:]}") from error
        yield running


def started(name: str, words: list[str], stage: Stage, log: Path) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """A Python process with a group of its own on the stage's cores; what it prints is in ``log``."""
    interpreter, variables = stage.interpreter(name)
    return running([interpreter, *words], stage.cores, log, variables)


@contextmanager
def running(
    command: list[str], cores: Collection[int], log: Path, variables: Mapping[str, str]
) -> "Iterator[subprocess.Popen[bytes]]":
    """A process with a group of its own on ``cores``, with ``variables`` besides those of every server here."""
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
        **variables,
    }
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # A child inherits it, and whatever it starts.
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
    finally:
        os.sched_setaffinity(0, before)
    try:
        yield process
    finally:
        # Some servers leave their workers behind when only the main process is told.
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def _config(stage: Stage, port: int, name: str, limit_s: float, *, layer: bool) -> Path:
    cache = stage.work / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    model = {"name": MODEL, "path": str(stage.weights), "format": "sentence-transformers"}
    catalogue: dict[str, Any] = QUICK_CATALOGUE if stage.quick else CATALOGUE
    if layer:
        factory = "bench.server_constant:build"
        model |= {"path": str(_constant_model(stage)), "format": "python-factory", "factory": factory}
        catalogue = LAYER_CATALOGUE
    document = {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": model,
        "device": "cpu",
        "dtype": "bfloat16" if name == OURS_BF16 else "float32",
        "catalogue": catalogue,
        "warm_up": {"min_calls": 2, "max_calls": 3},
        "listen": {"port": port},
        "admin": {"port": 0},
        "cache_dir": str(cache),
        "queue": {"max_rows": 1024, "max_wait_ms": round(QUEUE_SHARE * limit_s * 1000)},
    }
    path = stage.work / f"{name}.yaml"
    path.write_text(json.dumps(document))  # JSON is YAML.
    return path


def _constant_model(stage: Stage) -> Path:
    """A folder for ``bench.server_constant``, with the tokenizer of the weights."""
    import numpy as np
    from safetensors.numpy import save_file

    folder = stage.work / "constant"
    if not folder.exists():
        folder.mkdir()
        (folder / "tokenizer.json").write_bytes((stage.weights / "tokenizer.json").read_bytes())
        save_file({"row": np.full(DIM, 0.05, dtype=np.float32)}, folder / "model.safetensors")
        tokens = [{"name": name, "datatype": "INT64", "shape": [-1, -1]} for name in ("input_ids", "attention_mask")]
        output = {"name": "embedding", "datatype": "FP32", "shape": [-1, DIM]}
        declared = {"inputs": tokens, "outputs": [output], "vocabulary": 30522, "max_length": 512}
        (folder / "canary-model.json").write_text(json.dumps(declared))
    return folder


def _wait(running: Running, process: "subprocess.Popen[bytes]") -> None:
    """Until it answers. Raises OSError."""
    url = f"http://127.0.0.1:{running.port}{running.path}"
    body = json.dumps({"input": "red shirt", "model": MODEL}).encode()
    end = time.monotonic() + START_S
    while True:
        asked = urllib.request.Request(url, body, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(asked, timeout=10):  # noqa: S310  # our own port
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
