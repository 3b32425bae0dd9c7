"""Models of every format behind the real front process: loaded, warmed, described and asked."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import tiny_models

IDS = {"name": "input_ids", "datatype": "INT64", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}


@pytest.mark.parametrize(
    ("kind", "make", "output"),
    [
        ("sequence-classification", tiny_models.classifier, "logits"),
        ("torch-export", tiny_models.export, "scores"),
        ("python-factory", tiny_models.weights, "scores"),
    ],
)
def test_a_model_of_each_format_is_served(
    start_server: Callable[..., Any],
    model_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    make: Callable[[Path], Path],
    output: str,
) -> None:
    """Its metadata names its own output, and its numbers come back for each row."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")
    folder = make(tmp_path / "model")
    (folder / "tokenizer.json").write_bytes((model_folder / "tokenizer.json").read_bytes())
    model: dict[str, Any] = {"name": "tiny", "path": str(folder), "format": kind}
    if kind == "python-factory":
        model["factory"] = "fakes.tiny_models:module"
    with start_server(model=model) as server:
        health = server.wait_state("ready", "failed")
        assert health["state"] == "ready", health["detail"]
        described = server.data.get("/v2/models/tiny").json()
        assert described["outputs"] == [{"name": output, "datatype": "FP32", "shape": [-1, 3]}]
        answer = server.data.post("/v2/models/tiny/infer", json={"inputs": [IDS]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"][0]["shape"] == [2, 3]
