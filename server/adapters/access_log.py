"""The access log: one JSON object an inference request, for tests and audits of who was sent what."""

from pathlib import Path
from typing import TextIO

import msgspec


class AccessLogFile:
    """Appends to a file, one line each, written whole and at once; without a path it keeps nothing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None

    def open(self) -> None:
        """Raises OSError."""
        if self._path is not None:
            self._file = self._path.open("a", encoding="utf-8", buffering=1)

    def write(self, fields: dict[str, object]) -> None:
        if self._file is not None:
            self._file.write(msgspec.json.encode(fields).decode("utf-8") + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
