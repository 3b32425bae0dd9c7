"""What a model folder says about itself."""

import json
from pathlib import Path
from typing import Any

import pytest

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.folder import inspect

WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
KINDS = ("Transformer", "Pooling", "Normalize")


def make(
    folder: Path, kinds: tuple[str, ...] = KINDS, pooling: dict[str, Any] | None = None, bert: str = "bert"
) -> Path:
    (folder / "1_Pooling").mkdir(parents=True)
    modules = [{"path": "1_Pooling" if kind == "Pooling" else "", "type": f"x.models.{kind}"} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    given = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False} if pooling is None else pooling
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(given))
    (folder / "config.json").write_text(json.dumps({"model_type": bert}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_the_real_folder_passes_with_its_digest(model_folder: Path) -> None:
    """The revision is the SHA-256 of the weights."""
    assert inspect(model_folder, WEIGHTS_SHA256).revision == WEIGHTS_SHA256


def test_other_weights_than_the_configured_ones_are_refused(tmp_path: Path) -> None:
    """Both digests are named."""
    with pytest.raises(EngineFailed, match=rf"model\.sha256.*{WEIGHTS_SHA256}"):
        inspect(make(tmp_path / "m"), WEIGHTS_SHA256)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"kinds": ("Transformer", "Pooling")}, "modules.json lists"),
        ({"kinds": ("Transformer", "Pooling", "Dense", "Normalize")}, "Dense"),
        ({"pooling": {"pooling_mode_cls_token": True}}, "pooling_mode_cls_token"),
        ({"pooling": {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}}, "max_tokens"),
        ({"bert": "llama"}, "model_type 'llama'"),
    ],
)
def test_what_the_loader_does_not_know_is_refused(tmp_path: Path, changes: dict[str, Any], part: str) -> None:
    """A pooling left out would give plausible wrong vectors."""
    with pytest.raises(EngineFailed, match=part):
        inspect(make(tmp_path / "m", **changes), None)


@pytest.mark.parametrize("name", ["modules.json", "config.json", "1_Pooling/config.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """By its whole path."""
    folder = make(tmp_path / "m")
    (folder / name).unlink()
    with pytest.raises(EngineFailed, match=str(folder / name)):
        inspect(folder, None)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(EngineFailed, match="is not a folder"):
        inspect(tmp_path / "absent", None)
