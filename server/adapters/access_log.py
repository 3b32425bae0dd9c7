"""The access log: one JSON object an inference request, for tests and audits of who was sent what."""

import os
from io import FileIO
from pathlib import Path

import msgspec

from server.ports.telemetry import Log


class AccessLogFile:
    """Appends to a file, one line each, written whole and at once; without a path it keeps nothing.

    A line that cannot be written (a full disk) is lost, and the first one is an event of ``log``: the answer to the
    client is worth more.
    """

    def __init__(self, path: Path | None, log: Log) -> None:
        self._path = path
        self._log = log
        self._file: FileIO | None = None
        self._torn = False
        self._told = False

    def open(self) -> None:
        """Creates the file for its owner alone. Raises OSError."""
        if self._path is not None:
            self._file = FileIO(self._path, "a", opener=lambda path, flags: os.open(path, flags, 0o600))

    @property
    def kept(self) -> bool:
        """See ports."""
        return self._file is not None

    def write(self, fields: dict[str, object]) -> None:
        if self._file is None:
            return
        line = (b"\n" if self._torn else b"") + msgspec.json.encode(fields) + b"\n"
        try:
            written = self._file.write(line)
        except OSError as error:
            self._lost(str(error))
            return
        # A disk that fills up takes a part of the line.
        self._torn = written < len(line)
        if self._torn:
            self._lost(f"{written} of {len(line)} bytes were written")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _lost(self, why: str) -> None:
        if not self._told:
            self._told = True
            self._log.error("access_log_lost", path=str(self._path), error=why)
