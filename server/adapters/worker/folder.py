"""What a sentence-transformers folder says about itself, checked before torch is imported.

``modules.json`` says what follows the encoder. What the loader does not know is refused, since a pooling left
out gives plausible wrong vectors.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from server.adapters.worker.engine import EngineFailed

WEIGHTS: Final = "model.safetensors"
MODULES: Final = ["Transformer", "Pooling", "Normalize"]
POOLING: Final = "pooling_mode_mean_tokens"


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A BERT encoder with mean pooling and normalisation. ``revision`` is the SHA-256 of its weights."""

    path: Path
    revision: str

    @property
    def weights(self) -> Path:
        return self.path / WEIGHTS


def inspect(path: Path, sha256: str | None) -> ModelFolder:
    """Reads the folder's JSON files and the digest of its weights. Raises EngineFailed, naming file and value."""
    if not path.is_dir():
        raise EngineFailed(f"model.path: {path} is not a folder")
    modules = _read(path / "modules.json")
    kinds = [str(module.get("type", "")).rsplit(".", 1)[-1] for module in modules]
    if kinds != MODULES:
        raise EngineFailed(f"model.path: modules.json lists {kinds}, allowed is {MODULES}")
    pooling = _read(path / str(modules[1].get("path", "")) / "config.json")
    modes = sorted(name for name, on in pooling.items() if name.startswith("pooling_mode_") and on)
    if modes != [POOLING]:
        raise EngineFailed(f"model.path: the pooling's config.json sets {modes}, allowed is {POOLING} alone")
    kind = _read(path / "config.json").get("model_type")
    if kind != "bert":
        raise EngineFailed(f"model.path: config.json has model_type {kind!r}, allowed is 'bert'")
    return ModelFolder(path, _digest(path / WEIGHTS, sha256))


def _digest(weights: Path, expected: str | None) -> str:
    try:
        with weights.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise EngineFailed(f"model.path: {weights} cannot be read: {error}") from error
    if expected is not None and found != expected:
        raise EngineFailed(f"model.sha256: {weights} has {found}, the configuration says {expected}")
    return found


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineFailed(f"model.path: {path} cannot be read: {error}") from error
