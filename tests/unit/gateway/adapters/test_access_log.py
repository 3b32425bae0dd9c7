from pathlib import Path

import pytest

from gateway.adapters.access_log import AccessLog


def test_lines_are_in_the_file_after_a_flush(tmp_path: Path) -> None:
    """Before it they may be anywhere; after it they are whole and in order."""
    path = tmp_path / "access.jsonl"
    log = AccessLog(path)
    log.line("one")
    log.line("two")
    log.flush()
    assert path.read_text() == "one\ntwo\n"
    log.flush()
    log.line("three")
    log.close()
    assert path.read_text() == "one\ntwo\nthree\n"


def test_many_lines_are_not_kept_in_memory(tmp_path: Path) -> None:
    """The buffer is bounded whether or not anybody flushes."""
    path = tmp_path / "access.jsonl"
    log = AccessLog(path)
    for i in range(1000):
        log.line(str(i))
    assert len(path.read_text().splitlines()) > 700
    log.close()
    assert path.read_text().splitlines() == [str(i) for i in range(1000)]


def test_an_existing_log_is_continued(tmp_path: Path) -> None:
    """A worker that was started again writes on."""
    path = tmp_path / "access.jsonl"
    path.write_text("old\n")
    log = AccessLog(path)
    log.line("new")
    log.close()
    assert path.read_text() == "old\nnew\n"


def test_a_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """It is said at the start, not at the first line."""
    with pytest.raises(OSError, match="access"):
        AccessLog(tmp_path / "nowhere" / "access.jsonl")
