import json
import logging
import sys

from gateway.adapters.json_lines import JsonLines


def test_a_record_is_one_line_with_its_fields() -> None:
    """Level, logger and message are always there; fields are merged in, whatever they hold."""
    record = logging.makeLogRecord(
        {
            "name": "gateway.worker",
            "levelno": 30,
            "levelname": "WARNING",
            "msg": "two\nlines",
            "fields": {"event": "x", "o": {1}},
        }
    )
    line = JsonLines().format(record)
    assert "\n" not in line
    assert json.loads(line) == {
        "level": "warning", "logger": "gateway.worker", "message": "two\nlines", "event": "x", "o": "{1}",
    }  # fmt: skip


def test_an_exception_is_in_the_line() -> None:
    """With its traceback."""
    try:
        raise ValueError("why")
    except ValueError:
        record = logging.makeLogRecord({"msg": "m", "exc_info": sys.exc_info()})
    assert "ValueError: why" in json.loads(JsonLines().format(record))["exception"]
