"""What the demo reads of the load generator's statistics files."""

from pathlib import Path

import msgspec

from demo.decode import decode


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The fields shown; the files hold more."""

    planned: int = 0
    sent: int = 0
    answered: int = 0
    failures: int = 0
    failures_by_code: dict[str, int] = {}
    last_failure: str = ""
    failovers: int = 0
    late: int = 0
    unsent: int = 0
    compared: int = 0
    wrong_answers: int = 0
    min_cosine: float | None = None
    switched_at: float | None = None


def read(path: Path) -> Load | None:
    """None until the file is there. Raises NotAsDocumented."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    return decode(raw, Load, str(path))
