"""The access log file: whole lines, in order, in few writes."""

from pathlib import Path
from typing import Final

_FLUSH_LINES: Final = 256


class AccessLog:
    """Appends lines. What is buffered is at most a few hundred lines; ``flush`` puts it into the file."""

    def __init__(self, path: Path) -> None:
        """OSError when the file cannot be opened."""
        self._file = path.open("ab", buffering=0)
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        self._lines.append(text)
        if len(self._lines) >= _FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        if self._lines:
            self._lines.append("")
            self._file.write("\n".join(self._lines).encode())
            self._lines.clear()

    def close(self) -> None:
        self.flush()
        self._file.close()
