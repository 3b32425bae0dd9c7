"""Logs: one JSON object a line, all of one form. Payloads and secrets are never passed here.

Each line has ``ts``, ``level``, ``event`` and ``run_id``, and from the moment they are known what serves: model,
revision, dtype, device, topology and versions. What the event adds comes after them and replaces none of them.
"""

import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TextIO

import msgspec

# Of a text in a field: a trace of a deep stack is the longest that helps anybody.
MAX_TEXT: Final = 8000


class JsonLog:
    """A Log (see ports) on a text stream, and the handler that brings libraries' records into the same form.

    ``wall``: seconds since 1970. ``run_id`` is of this process, drawn at its start.
    """

    def __init__(self, wall: Callable[[], float], run_id: str, stream: TextIO | None = None) -> None:
        self._wall = wall
        self._about: dict[str, object] = {"run_id": run_id}
        self._stream = sys.stderr if stream is None else stream

    def know(self, **fields: object) -> None:
        """What every line says from now on."""
        self._about = {**self._about, **fields}

    def info(self, event: str, **fields: object) -> None:
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write("error", event, fields)

    def take_over(self) -> None:
        """Sends warnings and errors of libraries, Python's own warnings, and what nobody caught through this log."""
        root = logging.getLogger()
        root.handlers = [_Handler(self)]
        root.setLevel(logging.WARNING)
        logging.captureWarnings(True)
        sys.excepthook = self._uncaught

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        self.error("uncaught", error=logging.Formatter().formatException((kind, error, trace)))

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        now = datetime.fromtimestamp(self._wall(), UTC)
        line = {
            "ts": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": level,
            "event": event,
            **self._about,
            **{name: _bounded(value) for name, value in fields.items() if name not in self._about},
        }
        try:
            self._stream.write(msgspec.json.encode(line, enc_hook=str).decode("utf-8") + "\n")
            self._stream.flush()
        except OSError:  # nobody reads it, or the disk is full: no reason to stop serving
            pass


class _Handler(logging.Handler):
    def __init__(self, log: JsonLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info is not None:
            fields["error"] = logging.Formatter().formatException(record.exc_info)
        if record.levelno >= logging.ERROR:
            self._log.error("library", **fields)
        else:
            self._log.warning("library", **fields)


def _bounded(value: object) -> object:
    """The end of a trace says what went wrong, the start of a sentence does: both are kept."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        half = MAX_TEXT // 2
        return f"{value[:half]} ... {value[-half:]}"
    return value
