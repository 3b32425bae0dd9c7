"""The access log file: whole lines, in order, in few writes."""

import contextlib
import logging
import os
import stat
from pathlib import Path
from typing import Final

log = logging.getLogger("gateway.access_log")

_FLUSH_LINES: Final = 256
_MODE: Final = 0o600


class AccessLog:
    """Appends lines. What is buffered is at most a few hundred lines; ``flush`` puts it into the file.

    Only opening can fail. Lines that the file does not take (a full disk) are dropped and counted in ``lost``, and that
    is said once: nothing that the gateway does for its clients depends on its log.
    """

    def __init__(self, path: Path) -> None:
        """OSError when the file cannot be opened. It is readable by its owner alone, an older one from now on."""
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _MODE)
        if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.fchmod(self._descriptor, _MODE)
        self._lines: list[str] = []
        self._is_torn = False
        self.lost = 0

    def line(self, text: str) -> None:
        self._lines.append(text)
        if len(self._lines) >= _FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        if not self._lines:
            return
        # What a full disk has cut off in the middle of a line must not swallow the next one.
        data = (b"\n" if self._is_torn else b"") + "\n".join([*self._lines, ""]).encode()
        self._lines.clear()
        try:
            while data:
                written = os.write(self._descriptor, data)
                self._is_torn = data[written - 1] != ord("\n")
                data = data[written:]
        except OSError as error:
            self._drop(data, error)

    def _drop(self, data: bytes, error: OSError) -> None:
        if self.lost == 0:
            fields = {"event": "access_log_failed", "error": str(error)}
            log.error("access log lines are dropped", extra={"fields": fields})
        self.lost += data.count(b"\n")

    def close(self) -> None:
        self.flush()
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
