"""Servers and a reference for the tests of this folder."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.server.running import RunningServer, folder, running


@pytest.fixture(scope="session")
def cpu_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One ready server for all tests that only ask it."""
    with running(tmp_path_factory.mktemp("cpu")) as server:
        assert server.wait_state("ready", "failed")["state"] == "ready"
        yield server


@pytest.fixture(scope="session")
def emulated_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The same on the emulated device, with as few programs as clients need."""
    where, shapes = tmp_path_factory.mktemp("emulated"), {"batch": [1, 2], "length": [16]}
    with running(where, emulator=True, device="tpu-emulator", catalogue=shapes) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        yield server


@pytest.fixture(scope="session", params=["cpu", pytest.param("emulated", marks=pytest.mark.emulator)])
def any_server(request: pytest.FixtureRequest) -> RunningServer:
    """Either of the two, for clients that must not notice which."""
    server: RunningServer = request.getfixturevalue(f"{request.param}_server")
    return server


@pytest.fixture
def start_server(tmp_path: Path) -> Callable[..., Any]:
    """``with start_server(**changes) as server`` in a folder of its own."""

    def start(**changes: Any) -> Any:
        return running(tmp_path, **changes)

    return start


@pytest.fixture(scope="session")
def model_folder() -> Path:
    """The real weights."""
    return folder()


REFERENCE = """
import json, sys
import torch
from transformers import AutoModel, AutoTokenizer
folder, texts = sys.argv[1], json.loads(sys.argv[2])
tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
vectors = []
with torch.no_grad():
    for text in texts:
        states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        mean = states.mean(dim=0)
        vectors.append((mean / mean.norm()).tolist())
print(json.dumps(vectors))
"""


@pytest.fixture(scope="session")
def reference() -> Callable[[list[str]], list[list[float]]]:
    """Vectors of texts from plain transformers on the CPU: one text a call, no padding, no batch, no compile."""

    def compute(texts: list[str]) -> list[list[float]]:
        done = subprocess.run(
            [sys.executable, "-c", REFERENCE, str(folder()), json.dumps(texts)],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
            env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "HF_HUB_OFFLINE": "1"},
        )
        vectors: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
        return vectors

    return compute
