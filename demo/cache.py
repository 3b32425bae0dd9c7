"""The folder of compile caches: created, marked as ours, emptied on demand and only then."""

import shutil
from pathlib import Path
from typing import Final

from demo.failures import DemoFailed

TAG: Final = "CACHEDIR.TAG"
# The first line is what backup programs look for (Cache Directory Tagging Specification); the second tells ours apart.
_SIGNATURE: Final = "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled programs; safe to delete.\n"


class NotOurs(DemoFailed):
    """A folder that the demo did not make is not emptied."""


def prepare(folder: Path, *, cold: bool) -> None:
    """Create ``folder`` (0700) and tag it; ``cold`` empties it first. Raises NotOurs and OSError.

    A folder that already holds something is used and never tagged: a later ``cold`` would delete what was there.
    """
    if folder.exists() and any(folder.iterdir()):
        if not cold:
            return
        if not _is_ours(folder):
            raise NotOurs(f"--cold: {folder} was not made by the demo (its {TAG} is not there); empty it by hand")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / TAG).write_text(_SIGNATURE)


def _is_ours(folder: Path) -> bool:
    try:
        return (folder / TAG).read_bytes() == _SIGNATURE.encode()
    except FileNotFoundError:
        return False
