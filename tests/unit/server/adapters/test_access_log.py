"""One line an inference request."""

import json
from pathlib import Path

from server.adapters.access_log import AccessLogFile


def test_lines_are_readable_while_the_server_runs(tmp_path: Path) -> None:
    """Each is written whole and at once, after what was there."""
    path = tmp_path / "access.jsonl"
    path.write_text('{"request_id":"earlier"}\n')
    log = AccessLogFile(path)
    log.open()
    log.write({"request_id": "a", "status": 200})
    log.write({"request_id": "b", "status": 503})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["request_id"] for line in lines] == ["earlier", "a", "b"]
    log.close()
    log.write({"request_id": "late"})
    assert "late" not in path.read_text()


def test_without_a_path_nothing_is_kept() -> None:
    """The log is optional."""
    log = AccessLogFile(None)
    log.open()
    log.write({"request_id": "a"})
    log.close()
