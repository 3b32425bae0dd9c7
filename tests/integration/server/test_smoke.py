"""The smoke with its real processes, on small models."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import tiny_models
from integration.server.running import ROOT


@pytest.fixture(autouse=True)
def _no_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch in this process loads no backend by itself."""
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


def smoke(where: Path, model: dict[str, Any], device: str, **changes: Any) -> tuple[int, dict[str, Any], str]:
    """Exit code, sheet as JSON, sheet as a page."""
    document = {
        "apiVersion": "canary/v1",
        "kind": "Server",
        "model": {"name": "tiny", **model},
        "device": device,
        "catalogue": {"batch": [2], "length": [8]},
        "cache_dir": str(where / "cache"),
        **changes,
    }
    (where / "server.yaml").write_text(yaml.safe_dump(document))
    command = [
        sys.executable,
        "-m",
        "server",
        "smoke",
        "--config",
        str(where / "server.yaml"),
        "--out",
        str(where / "out"),
    ]
    environment = {**os.environ, "CANARY_ALLOW_EMULATOR": "1", "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT, env=environment)
    assert (where / "out" / "acceptance.json").exists(), done.stderr
    sheet: dict[str, Any] = json.loads((where / "out" / "acceptance.json").read_text())
    return done.returncode, sheet, (where / "out" / "acceptance.md").read_text()


def outcomes(sheet: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["outcome"] for check in sheet["checks"]}


@pytest.mark.emulator
def test_an_export_is_accepted_on_the_emulated_tpu(model_folder: Path, tmp_path: Path) -> None:
    """Its graph was made on a CPU; it is moved, compiled, served, and found in the compile cache by the server."""
    folder = tiny_models.export(tmp_path / "model")
    (folder / "tokenizer.json").write_bytes((model_folder / "tokenizer.json").read_bytes())
    code, sheet, page = smoke(tmp_path, {"path": str(folder), "format": "torch-export"}, "tpu-emulator")
    assert code == 0, page
    assert sheet["accepted"] is True
    assert outcomes(sheet)["checkpoint round trip"] == "passed"
    assert outcomes(sheet)["port audit: CPU fallback"] == "passed"
    assert "**ACCEPTED: " in page
    assert "Emulated: the software path" in page
    assert "measured on the TPU emulator" in page
    assert "&lt;TorchTpu/Performance/" in page
    assert "| 2x8 | cache |" in page


def test_a_model_of_pictures_is_tried_and_served(tmp_path: Path) -> None:
    """Named inputs of any kind, and several outputs."""
    folder = tiny_models.weights(tmp_path / "model", tiny_models.pictures())
    tiny_models.declare(folder, **tiny_models.PICTURES)
    model = {"path": str(folder), "format": "python-factory", "factory": "fakes.tiny_models:pictures"}
    code, sheet, page = smoke(tmp_path, model, "cpu", catalogue={"batch": [1, 2]})
    found = outcomes(sheet)
    assert found["eager: parity with the CPU in float32"] == "passed"
    assert found["service: answers"] == "passed", page
    assert (code, sheet["accepted"]) == (0, True), page
    assert "reference rows computed alone" in page


def test_weights_that_do_not_load_give_a_sheet_that_says_so(tmp_path: Path) -> None:
    """Every field has its reason; the exit code is 1."""
    folder = tiny_models.weights(tmp_path / "model", tiny_models.module(wide=4))
    model = {"path": str(folder), "format": "python-factory", "factory": "fakes.tiny_models:module"}
    code, sheet, page = smoke(tmp_path, model, "cpu")
    assert (code, sheet["accepted"]) == (1, False)
    assert "do not fit the factory's module" in page
