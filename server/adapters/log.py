"""Logs: one JSON object a line. Payloads and secrets are never passed here."""

import logging
import sys
from typing import TextIO

import msgspec


class JsonLog:
    """A Log (see ports) on a text stream, and the handler that brings libraries' records into the same form."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream

    def info(self, event: str, **fields: object) -> None:
        self._write("info", event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write("error", event, fields)

    def take_over(self) -> None:
        """Sends warnings and errors of libraries through this log."""
        root = logging.getLogger()
        root.handlers = [_Handler(self)]
        root.setLevel(logging.WARNING)

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        line = msgspec.json.encode({"level": level, "event": event, **fields}, enc_hook=str)
        try:
            self._stream.write(line.decode("utf-8") + "\n")
            self._stream.flush()
        except OSError:  # nobody reads it, or the disk is full: no reason to stop serving
            pass


class _Handler(logging.Handler):
    def __init__(self, log: JsonLog) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        fields: dict[str, object] = {"logger": record.name, "message": record.getMessage()}
        if record.exc_info is not None:
            fields["error"] = logging.Formatter().formatException(record.exc_info)
        if record.levelno >= logging.ERROR:
            self._log.error("library", **fields)
        else:
            self._log.info("library", **fields)
