import logging
import os
import stat
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


def test_the_log_is_its_owners(tmp_path: Path) -> None:
    """Nobody else may read it, also when it was there before."""
    fresh, old = tmp_path / "fresh.jsonl", tmp_path / "old.jsonl"
    old.write_text("")
    old.chmod(0o644)
    for path in (fresh, old):
        AccessLog(path).close()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="this system has no device that is always full")
def test_a_full_disk_costs_lines_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    """Lines are dropped and counted, and that is said once."""
    log = AccessLog(Path("/dev/full"))
    with caplog.at_level(logging.ERROR):
        for _ in range(600):
            log.line("x")
        log.flush()
        log.close()
    assert log.lost == 600
    assert [record.fields["event"] for record in caplog.records] == ["access_log_failed"]  # type: ignore[attr-defined]  # set by extra


def test_a_line_that_was_cut_off_does_not_swallow_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After room was made the log goes on with whole lines."""
    path = tmp_path / "access.jsonl"
    log = AccessLog(path)
    room = 5

    def write(descriptor: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(28, "No space left on device")
        written = really_write(descriptor, data[:room])
        room -= written
        return written

    really_write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", write)
        log.line("one")
        log.line("two")
        log.flush()
    log.line("three")
    log.close()
    assert path.read_text() == "one\nt\nthree\n"
    assert log.lost == 1


def test_a_path_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """It is said at the start, not at the first line."""
    with pytest.raises(OSError, match="access"):
        AccessLog(tmp_path / "nowhere" / "access.jsonl")
