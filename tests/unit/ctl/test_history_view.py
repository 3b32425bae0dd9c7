from ctl.history_view import journal
from ctl.layout import WIDTH
from wire.admin import JournalLine


def test_lines_in_order_with_wrapped_text() -> None:
    """Each journal line has its stamp, run, epoch, kind and caller; long text is wrapped below it."""
    lines = [
        JournalLine(seq=1, at=0.0, run_id="r", epoch=2, kind="start", who="ann", text="opened"),
        JournalLine(seq=2, at=1.0, run_id="r", epoch=2, kind="verdict", who="gateway", text="because " * 40),
        JournalLine(seq=3, at=1.0, run_id=None, epoch=2, kind="rearmed", who="gateway", text="other arms"),
    ]
    text = journal(lines)
    assert text.index("opened") < text.index("because")
    assert "    1  1970-01-01 00:00:00Z  run r  epoch 2  start  ann" in text
    assert "    3  1970-01-01 00:00:01Z  epoch 2  rearmed" in text
    assert all(len(line) <= WIDTH for line in text.splitlines())


def test_empty_journal() -> None:
    """Nothing journalled is said, not shown as nothing."""
    assert journal([]) == "the journal is empty"
