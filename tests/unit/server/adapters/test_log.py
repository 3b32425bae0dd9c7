"""Logs are one JSON object a line."""

import errno
import io
import json
import logging

import pytest

from server.adapters.log import JsonLog


def test_events_carry_level_name_and_fields() -> None:
    """Line breaks in values stay inside the line."""
    stream = io.StringIO()
    log = JsonLog(stream)
    log.info("ready", after_s=1.5)
    log.error("failed", reason="two\nlines")
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {"level": "info", "event": "ready", "after_s": 1.5},
        {"level": "error", "event": "failed", "reason": "two\nlines"},
    ]


def test_records_of_libraries_take_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings and errors; an exception comes with its trace."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    stream = io.StringIO()
    JsonLog(stream).take_over()
    library = logging.getLogger("some.library")
    library.info("unheard")
    library.warning("careful %d", 3)
    try:
        raise ValueError("inside")
    except ValueError:
        library.exception("broken")
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (first["level"], first["logger"], first["message"]) == ("info", "some.library", "careful 3")
    assert second["level"] == "error"
    assert "ValueError: inside" in second["error"]


def test_a_stream_that_cannot_be_written_stops_nothing() -> None:
    """A full disk under a redirected stderr must not become an error of the request that was logged."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    JsonLog(Full()).error("failed", reason="x")
