"""Logs are one JSON object a line."""

import errno
import io
import json
import logging
import sys

import pytest

from server.adapters.log import MAX_TEXT, JsonLog

ALWAYS = {"ts": "1970-01-01T00:00:01.500Z", "run_id": "r1"}


def test_events_carry_level_name_and_fields() -> None:
    """Line breaks in values stay inside the line."""
    stream = io.StringIO()
    log = JsonLog(lambda: 1.5, "r1", stream)
    log.info("ready", after_s=1.5)
    log.error("failed", reason="two\nlines")
    assert [json.loads(line) for line in stream.getvalue().splitlines()] == [
        {**ALWAYS, "level": "info", "event": "ready", "after_s": 1.5},
        {**ALWAYS, "level": "error", "event": "failed", "reason": "two\nlines"},
    ]


def test_records_of_libraries_take_the_same_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings and errors; an exception comes with its trace."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(logging, "captureWarnings", lambda wanted: None)
    stream = io.StringIO()
    JsonLog(lambda: 1.5, "r1", stream).take_over()
    library = logging.getLogger("some.library")
    library.info("unheard")
    library.warning("careful %d", 3)
    try:
        raise ValueError("inside")
    except ValueError:
        library.exception("broken")
    first, second = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert (first["level"], first["logger"], first["message"]) == ("warning", "some.library", "careful 3")
    assert second["level"] == "error"
    assert "ValueError: inside" in second["error"]


def test_a_stream_that_cannot_be_written_stops_nothing() -> None:
    """A full disk under a redirected stderr must not become an error of the request that was logged."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    JsonLog(lambda: 1.5, "r1", Full()).error("failed", reason="x")


def test_what_serves_is_said_by_every_line_once_it_is_known() -> None:
    """An event's own fields never replace it, so a line can be trusted to name its process."""
    stream = io.StringIO()
    log = JsonLog(lambda: 1.5, "r1", stream)
    log.know(model="m", dtype="float32")
    log.warning("odd", model="another", run_id="another", rows=3)
    assert json.loads(stream.getvalue()) == {
        **ALWAYS, "level": "warning", "event": "odd", "model": "m", "dtype": "float32", "rows": 3
    }  # fmt: skip


def test_a_text_that_is_too_long_keeps_its_ends() -> None:
    """The start of a sentence and the end of a trace say what happened."""
    stream = io.StringIO()
    JsonLog(lambda: 1.5, "r1", stream).error("failed", reason="a" + "." * 3 * MAX_TEXT + "z")
    reason = json.loads(stream.getvalue())["reason"]
    assert (reason[0], reason[-1]) == ("a", "z")
    assert len(reason) < MAX_TEXT + 10
