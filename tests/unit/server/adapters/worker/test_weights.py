"""The digest of weights: of the tensors, however they are stored."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.weights import weight_files, weights_digest

TENSORS = {"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.ones(4, np.float16)}


def digest(
    tmp_path: Path, tensors: dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"], note: str = ""
) -> str:
    folder = tmp_path / f"m{len(list(tmp_path.iterdir()))}"
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", metadata={"note": note})
    return weights_digest(weight_files(folder), tmp_path / "cache")


def test_what_is_written_beside_the_tensors_does_not_count(tmp_path: Path) -> None:
    """Another converter, the same model."""
    assert digest(tmp_path, TENSORS, "one") == digest(tmp_path, TENSORS, "another")


@pytest.mark.parametrize(
    "changed",
    [
        {**TENSORS, "a": np.zeros(4, np.float16)},
        {**TENSORS, "a": np.ones(4, np.float16).view(np.int16)},
        {**TENSORS, "b": TENSORS["b"].reshape(3, 2)},
        {"b": TENSORS["b"], "c": TENSORS["a"]},
    ],
)
def test_names_dtypes_shapes_and_bytes_all_count(
    tmp_path: Path, changed: dict[str, "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"]
) -> None:
    """One of them at a time."""
    assert digest(tmp_path, TENSORS) != digest(tmp_path, changed)


def test_shards_are_the_same_weights(tmp_path: Path) -> None:
    """The index names the files; how the tensors are spread does not count."""
    folder = tmp_path / "sharded"
    folder.mkdir()
    files = {name: f"model-0000{number}-of-00002.safetensors" for number, name in enumerate(TENSORS, start=1)}
    for name, file in files.items():
        save_file({name: TENSORS[name]}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assert weights_digest(weight_files(folder), tmp_path / "cache") == digest(tmp_path, TENSORS)


def test_an_index_cannot_lead_out_of_its_folder(tmp_path: Path) -> None:
    """The file at fault is named."""
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../x.safetensors"}}))
    with pytest.raises(EngineFailed, match=r"names '\.\./x\.safetensors'"):
        weight_files(tmp_path)


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    """What is kept belongs to what the file system says of the file."""
    file = tmp_path / "model.safetensors"
    save_file(TENSORS, file)
    first = weights_digest((file,), tmp_path / "cache")
    assert weights_digest((file,), tmp_path / "cache") == first
    save_file({**TENSORS, "a": np.zeros(4, np.float16)}, file)
    assert weights_digest((file,), tmp_path / "cache") != first


@pytest.mark.parametrize(
    "raw", [b"", b"weights", b"\xff" * 8 + b"{}", b"\x02\0\0\0\0\0\0\0{", b"\x04\0\0\0\0\0\0\0null"]
)
def test_a_broken_file_is_named(tmp_path: Path, raw: bytes) -> None:
    """Whatever its first bytes claim."""
    file = tmp_path / "model.safetensors"
    file.write_bytes(raw)
    with pytest.raises(EngineFailed, match=str(file)):
        weights_digest((file,), tmp_path / "cache")
