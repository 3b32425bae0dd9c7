"""The folder of compile caches: created, marked as ours, emptied on demand and only then."""

import shutil
from pathlib import Path
from typing import Final

from demo.options import DEFAULT_CACHE

TAG: Final = "CACHEDIR.TAG"
# The text that backup programs look for (Cache Directory Tagging Specification).
_SIGNATURE: Final = "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled programs; safe to delete.\n"


class NotOurs(Exception):
    """A folder that the demo did not make is not emptied."""


def prepare(folder: Path, *, cold: bool) -> None:
    """Create ``folder`` (0700) and tag it; ``cold`` empties it first. Raises NotOurs."""
    tag = folder / TAG
    if cold and folder.exists():
        if not (tag.exists() or folder == DEFAULT_CACHE.resolve() or not any(folder.iterdir())):
            raise NotOurs(f"--cold: {folder} was not made by the demo (it has no {TAG}); empty it by hand")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not tag.exists():
        tag.write_text(_SIGNATURE)
