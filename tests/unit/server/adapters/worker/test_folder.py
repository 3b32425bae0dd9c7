"""What a model folder says about itself."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.folder import ModelFolder, inspect
from server.core.types import ModelFormat

FILE_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
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
    save_file({"w": np.zeros(2, np.float32)}, folder / "model.safetensors")
    return folder


def classifier(folder: Path, **changes: Any) -> Path:
    folder.mkdir(parents=True)
    config = {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "id2label": {"0": "bad", "1": "good", "2": "odd"},
        **changes,
    }
    (folder / "config.json").write_text(json.dumps(config))
    save_file({"w": np.zeros(2, np.float32)}, folder / "model.safetensors")
    return folder


def look(
    folder: Path, cache: Path, sha256: str | None = None, kind: ModelFormat = "sentence-transformers"
) -> ModelFolder:
    return inspect(folder, kind, sha256, cache)


def test_the_real_folder_passes_by_the_digest_of_its_file(model_folder: Path, tmp_path: Path) -> None:
    """What `sha256sum` prints pins the file; the revision is the digest of the tensors in it."""
    found = look(model_folder, tmp_path, FILE_SHA256)
    assert len(found.revision) == 64
    assert found.revision != FILE_SHA256


def test_other_weights_than_the_configured_ones_are_refused(tmp_path: Path) -> None:
    """Both digests are named."""
    with pytest.raises(EngineFailed, match=rf"model\.sha256.*{FILE_SHA256}"):
        look(make(tmp_path / "m"), tmp_path, FILE_SHA256)


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
        look(make(tmp_path / "m", **changes), tmp_path)


@pytest.mark.parametrize("name", ["modules.json", "config.json", "1_Pooling/config.json", "model.safetensors"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """By its whole path."""
    folder = make(tmp_path / "m")
    (folder / name).unlink()
    with pytest.raises(EngineFailed, match=str(folder / name)):
        look(folder, tmp_path)


@pytest.mark.parametrize("name", ["modules.json", "config.json", "1_Pooling/config.json"])
@pytest.mark.parametrize("text", ["null", "5", '"x"', "[1]", "[" * 100_000, "NaN", ""])
def test_a_file_of_something_else_is_named(tmp_path: Path, name: str, text: str) -> None:
    """Whatever stands in it."""
    folder = make(tmp_path / "m")
    (folder / name).write_text(text)
    with pytest.raises(EngineFailed, match=name):
        look(folder, tmp_path)


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """Before anything is read."""
    with pytest.raises(EngineFailed, match="is not a folder"):
        look(tmp_path / "absent", tmp_path)


@pytest.mark.parametrize(
    ("changes", "scores"),
    [
        ({}, "softmax"),
        ({"problem_type": "multi_label_classification"}, "sigmoid"),
        ({"id2label": {"0": "score"}}, "none"),
    ],
)
def test_a_classifier_says_its_labels_and_what_turns_logits_into_scores(
    tmp_path: Path, changes: dict[str, Any], scores: str
) -> None:
    """In the order of the logits."""
    folder = classifier(tmp_path / "m", **changes)
    found = look(folder, tmp_path, kind="sequence-classification")
    assert found.labels == tuple(changes.get("id2label", {"0": "bad", "1": "good", "2": "odd"}).values())
    assert found.scores == scores


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"model_type": "t5"}, "model_type 't5'"),
        ({"architectures": ["BertModel"]}, "architectures"),
        ({"id2label": {"0": "a", "2": "b"}}, "id2label"),
        ({"id2label": {}}, "id2label"),
        ({"problem_type": "guess"}, "problem_type 'guess'"),
    ],
)
def test_a_classifier_that_leaves_something_open_is_refused(tmp_path: Path, changes: dict[str, Any], part: str) -> None:
    """Labels that nobody named are no answer."""
    with pytest.raises(EngineFailed, match=part):
        look(classifier(tmp_path / "m", **changes), tmp_path, kind="sequence-classification")
