"""What a model's folder says about itself, checked before torch is imported.

What the loader does not know is refused: a pooling left out, or labels that nobody named, give plausible wrong answers.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from server.adapters.worker.declaration import Declaration, read_declaration
from server.adapters.worker.engine import EngineFailed
from server.adapters.worker.export_archive import check_archive
from server.adapters.worker.weights import file_digest, pin, weight_files, weights_digest
from server.core.signature import Scores
from server.core.types import ModelFormat

MODULES: Final = ["Transformer", "Pooling", "Normalize"]
POOLING: Final = "pooling_mode_mean_tokens"
EXPORT: Final = "model.pt2"
CLASSIFIERS: Final = ("bert", "distilbert", "roberta", "xlm-roberta")
SCORES: Final[dict[str, Scores]] = {
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
    "regression": "none",
}


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A folder whose loader is known. ``revision`` is the digest of its weights, and of an export's program with them.

    ``labels`` and ``scores`` are a classifier's, ``declaration`` is there for formats that need one.
    """

    path: Path
    revision: str
    files: tuple[Path, ...]
    labels: tuple[str, ...] = ()
    scores: Scores = "none"
    declaration: Declaration | None = None

    @property
    def declared(self) -> Declaration:
        assert self.declaration is not None, "inspect() reads it for the formats that ask"
        return self.declaration


def inspect(path: Path, model_format: ModelFormat, sha256: str | None, cache: Path) -> ModelFolder:
    """Reads the small files and the digest of the weights. Raises EngineFailed, naming file and value."""
    if not path.is_dir():
        raise EngineFailed(f"model.path: {path} is not a folder")
    match model_format:
        case "sentence-transformers":
            _check_encoder(path)
            return _safetensors(path, sha256, cache)
        case "sequence-classification":
            labels, scores = _classifier(path)
            return _safetensors(path, sha256, cache, labels, scores)
        case "torch-export":
            export = path / EXPORT
            declaration = read_declaration(path)
            check_archive(export)
            pin((export,), sha256)
            return ModelFolder(path, file_digest(export), (export,), declaration=declaration)
        case "python-factory":
            return _safetensors(path, sha256, cache, declaration=read_declaration(path))


def _safetensors(
    path: Path,
    sha256: str | None,
    cache: Path,
    labels: tuple[str, ...] = (),
    scores: Scores = "none",
    declaration: Declaration | None = None,
) -> ModelFolder:
    files = weight_files(path)
    pin(files, sha256)
    return ModelFolder(path, weights_digest(files, cache), files, labels, scores, declaration)


def _check_encoder(path: Path) -> None:
    """``modules.json`` says what follows the encoder."""
    modules = _read(path / "modules.json", list)
    if not all(isinstance(module, dict) for module in modules):
        raise EngineFailed(f"model.path: {path / 'modules.json'} holds other things than modules, allowed are objects")
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


def _classifier(path: Path) -> tuple[tuple[str, ...], Scores]:
    """Labels in the order of the logits, and what turns those into scores."""
    config = _read(path / "config.json")
    kind = config.get("model_type")
    if kind not in CLASSIFIERS:
        raise EngineFailed(f"model.path: config.json has model_type {kind!r}, allowed are {', '.join(CLASSIFIERS)}")
    architectures = config.get("architectures") or []
    if len(architectures) != 1 or not str(architectures[0]).endswith("ForSequenceClassification"):
        raise EngineFailed(
            f"model.path: config.json has architectures {architectures}, allowed is one ...ForSequenceClassification"
        )
    named = config.get("id2label") or {}
    if not isinstance(named, dict) or sorted(named) != sorted(map(str, range(len(named)))) or not named:
        raise EngineFailed(f"model.path: config.json has id2label {named}, allowed are names for 0, 1, ... in full")
    problem = config.get("problem_type") or ("regression" if len(named) == 1 else "single_label_classification")
    if problem not in SCORES:
        raise EngineFailed(f"model.path: config.json has problem_type {problem!r}, allowed are {', '.join(SCORES)}")
    return tuple(str(named[str(number)]) for number in range(len(named))), SCORES[problem]


def _read(path: Path, kind: type[dict[Any, Any] | list[Any]] = dict) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise EngineFailed(f"model.path: {path} cannot be read: {error}") from error
    if not isinstance(found, kind):
        raise EngineFailed(f"model.path: {path} holds a {type(found).__name__}, allowed is a {kind.__name__}")
    return found
