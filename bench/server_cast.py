"""Starts the servers of the bench on their core, and ends them."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.server_load import post
from bench.server_work import MODEL

ROOT: Final = Path(__file__).resolve().parents[1]
START_S: Final = 180.0
OURS: Final = "ours"
MODULES: Final = {
    "litserve": "bench.server_litserve",
    "mosec": "bench.server_mosec",
    "mosec-sorted": "bench.server_mosec",
}
CATALOGUE: Final = {
    "batch": [1, 2, 3, 4, 6, 8, 12, 16],
    "length": [6, 8, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64],
}


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers. ``group``: of all of its processes; ``front``: the one that speaks HTTP."""

    port: int
    path: str
    group: int
    front: int

    def requests(self, texts: list[str]) -> list[bytes]:
        more = {"model": MODEL} if self.path.startswith("/v1") else {}
        return [post(self.path, json.dumps({"input": text, **more}).encode()) for text in texts]


@contextmanager
def serving(name: str, folder: Path | None, *, peers: Path | None, cores: set[int], work: Path) -> Iterator[Running]:
    """``folder`` None is a model that costs nothing; for ours it must be a folder. Raises OSError."""
    port = _free_port()
    if name == OURS:
        assert folder is not None, "our server has no constant model; give it a small one"
        words = ["-m", "server", "--config", str(_config(folder, port, work))]
    else:
        words = ["-m", MODULES.get(name, "bench.server_peers"), name, str(port), "-" if folder is None else str(folder)]
    with started(words, peers=peers, cores=cores, log=work / f"{name}.log") as process:
        path = "/v1/embeddings" if name == OURS else "/embed"
        running = Running(port, path, process.pid, process.pid)
        try:
            _wait(running, process)
        except OSError as error:
            raise OSError(f"{name} did not start: {error}: {(work / f'{name}.log').read_text()[-2000:]}") from error
        yield running


def interpreter_of(peers: Path) -> str:
    return str(peers / "bin" / "python")


def python_path() -> str:
    """What is installed here comes first: of the peers' environment only what is missing."""
    return os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])


@contextmanager
def started(
    words: list[str], *, peers: Path | None, cores: set[int], log: Path, more: Mapping[str, str] | None = None
) -> "Iterator[subprocess.Popen[bytes]]":
    """A Python process with a group of its own on ``cores``; what it prints is in ``log``, ``more`` is for its
    environment.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    environment |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **(more or {})}
    interpreter = sys.executable
    if peers is not None and words[1] in MODULES.values():
        interpreter, environment["PYTHONPATH"] = interpreter_of(peers), python_path()
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # A child inherits it.
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [interpreter, *words],
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


def one_layer(folder: Path, to: Path) -> Path:
    """Our server's cheapest model of the same width: the first layer, with an inner width of 8."""
    from safetensors.numpy import load_file, save_file

    for path in folder.rglob("*"):
        if path.is_file() and path.name != "model.safetensors":
            (to / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
            (to / path.relative_to(folder)).write_bytes(path.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    (to / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 1, "intermediate_size": 8}))
    kept: dict[str, Any] = {}
    for name, value in load_file(folder / "model.safetensors").items():
        if ".layer." in name and ".layer.0." not in name:
            continue
        if ".intermediate.dense" in name:
            kept[name] = value[:8].copy()
        elif ".layer.0.output.dense.weight" in name:
            kept[name] = value[:, :8].copy()
        else:
            kept[name] = value
    save_file(kept, to / "model.safetensors", metadata={"format": "pt"})
    return to


def _config(folder: Path, port: int, work: Path) -> Path:
    cache = work / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    path = work / "server.yaml"
    document = {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": {"name": MODEL, "path": str(folder), "format": "sentence-transformers"},
        "device": "cpu",
        "catalogue": CATALOGUE,
        "warm_up": {"min_calls": 2, "max_calls": 4},
        "listen": {"port": port},
        "admin": {"port": 0},
        "cache_dir": str(cache),
        "queue": {"max_rows": 1024, "max_wait_ms": 500},
    }
    path.write_text(json.dumps(document))  # JSON is YAML.
    return path


def _wait(running: Running, process: "subprocess.Popen[bytes]") -> None:
    url = f"http://127.0.0.1:{running.port}{running.path}"
    body = json.dumps({"input": "red shirt", "model": MODEL}).encode()
    end = time.monotonic() + START_S
    while True:
        asked = urllib.request.Request(url, body, {"content-type": "application/json"})  # our own port
        try:
            with urllib.request.urlopen(asked, timeout=10):  # noqa: S310
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
