"""The script for a machine with a GPU, on one without."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from integration.server.running import ROOT

from server.adapters.worker.folder import inspect

DEVICE = ROOT / "tests" / "device"


def test_without_a_gpu_it_says_that_it_was_skipped(tmp_path: Path) -> None:
    """Visibly, and without failing: there is nothing to try."""
    environment = {"PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        ["/bin/sh", str(DEVICE / "run.sh"), str(tmp_path)], capture_output=True, text=True, timeout=120, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("SKIPPED: ")
    assert "no CUDA device is seen" in done.stdout
    assert (tmp_path / "summary.txt").read_text() == done.stdout


def test_its_seeded_model_is_one_that_the_server_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of MiniLM's shape, with a tokenizer of its own; nothing is carried."""
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    command = [sys.executable, str(DEVICE / "seeded_model.py"), str(tmp_path / "model")]
    subprocess.run(command, check=True, capture_output=True, timeout=240, env={**os.environ, "PYTHONPATH": str(ROOT)})
    found = inspect(tmp_path / "model", "sentence-transformers", None, tmp_path / "cache")
    assert len(found.revision) == 64
    assert json.loads((tmp_path / "model" / "config.json").read_text())["vocab_size"] == 30522


def test_the_wheels_to_carry_cover_what_the_script_looks_for() -> None:
    """By the names that pip knows them under."""
    carried = {line.partition("==")[0] for line in (DEVICE / "wheels.txt").read_text().splitlines()}
    names = {"yaml": "pyyaml", "huggingface_hub": "huggingface-hub", "prometheus_client": "prometheus-client"}
    done = subprocess.run([sys.executable, "-S", str(DEVICE / "needs.py")], capture_output=True, text=True, timeout=60)
    assert {names.get(each, each) for each in done.stdout.split()} <= carried
