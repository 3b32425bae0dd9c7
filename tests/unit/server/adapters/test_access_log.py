"""One line an inference request."""

import json
import stat
from pathlib import Path

import pytest

from server.adapters.access_log import AccessLogFile


class Log:
    """Keeps the names of events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def info(self, event: str, **fields: object) -> None:
        self.events.append(event)

    warning = error = info


def test_lines_are_readable_while_the_server_runs(tmp_path: Path) -> None:
    """Each is written whole and at once, after what was there."""
    path = tmp_path / "access.jsonl"
    path.write_text('{"request_id":"earlier"}\n')
    log = AccessLogFile(path, Log())
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
    log = AccessLogFile(None, Log())
    log.open()
    log.write({"request_id": "a"})
    log.close()


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    """Whatever the process's umask: it tells who asked when."""
    path = tmp_path / "access.jsonl"
    log = AccessLogFile(path, Log())
    log.open()
    log.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_is_told_once_and_stops_nothing() -> None:
    """The lines are lost, the answers are not."""
    told = Log()
    log = AccessLogFile(Path("/dev/full"), told)
    log.open()
    for _ in range(3):
        log.write({"request_id": "a"})
    log.close()
    assert told.events == ["access_log_lost"]


def test_a_torn_line_does_not_spoil_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that fills up takes half a line; when there is room again the next one stands alone."""
    path = tmp_path / "access.jsonl"
    told = Log()
    log = AccessLogFile(path, told)
    log.open()
    assert log._file is not None
    whole = log._file.write

    class Torn:
        write = staticmethod(lambda line: whole(line[:5]))

    with monkeypatch.context() as patched:
        patched.setattr(log, "_file", Torn)
        log.write({"request_id": "torn"})
    log.write({"request_id": "whole"})
    log.close()
    assert json.loads(path.read_text().splitlines()[-1]) == {"request_id": "whole"}
    assert told.events == ["access_log_lost"]
