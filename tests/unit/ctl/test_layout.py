from typing import Literal

import pytest

from ctl.layout import NARROWEST, WIDTH, clock, figure, paragraph, percent, printable, span, table, width


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "0 s"),
        (14, "14 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
        (-3, "0 s"),
    ],
)
def test_span(seconds: float, text: str) -> None:
    """Durations are in the two largest units that say something."""
    assert span(seconds) == text


def test_figures() -> None:
    """Shares are percent, absent figures a dash, stamps UTC."""
    assert (percent(1000), percent(5), percent(10000)) == ("10 %", "0.05 %", "100 %")
    assert (figure(None), figure(0.123456, 3)) == ("-", "0.123")
    assert clock(0.0) == "1970-01-01 00:00:00Z"


def test_table_aligns() -> None:
    """Cells stand under their heads, numbers to the right."""
    assert table([("Arm", "<"), ("Live", ">")], [("cpu", "900"), ("tpu", "7")]) == [
        "Arm  Live",
        "cpu   900",
        "tpu     7",
    ]


def test_paragraph_wraps_beside_its_label() -> None:
    """Long text stays within the width and leaves the margin free."""
    lines = paragraph("Verdict", "word " * 60)
    assert lines[0].startswith("Verdict   word")
    assert all(len(line) <= WIDTH for line in lines)
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert paragraph("Empty", "") == ["Empty"]


@pytest.mark.parametrize(("columns", "wide"), [(80, 80), (240, WIDTH), (10, NARROWEST)])
def test_on_a_terminal_its_width_holds(monkeypatch: pytest.MonkeyPatch, columns: int, wide: int) -> None:
    """Up to 100 columns; no text column of a table is cut to nothing, and no figure at all."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    assert width() == wide
    lines = paragraph("Verdict", "word " * 60)
    assert wide - 10 <= max(map(len, lines)) <= wide
    heads: list[tuple[str, Literal["<", ">"]]] = [("Name", "<"), ("Kind", "<"), *[(f"F{n}", ">") for n in range(6)]]
    rows = table(heads, [["n" * 200, "k" * 100, *["123456"] * 6]])
    assert max(map(len, rows)) <= max(wide, 51)  # so long are the figures with the least of the text
    assert rows[1].startswith("n" * 3)
    assert rows[1].split()[2:] == ["123456"] * 6


def test_without_a_terminal_100_columns_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe, a file, or nowhere at all."""
    monkeypatch.setenv("COLUMNS", "60")
    assert width() == WIDTH
    monkeypatch.setattr("sys.stdout", None)
    assert width() == WIDTH


def test_nothing_in_the_journal_steers_the_terminal() -> None:
    """Escape sequences and bells are shown as replacement characters; text of any language stays."""
    assert printable("a\x1b[2Jb\x07 zurück 日本") == "a\ufffd[2Jb\ufffd zurück 日本"


def test_no_line_ends_within_a_command_or_before_a_unit() -> None:
    """A command can be copied, and a number keeps its unit."""
    text = " ".join(["word"] * 17) + ' 12 % `canaryctl start PLAN --reason "..."` ' + "word " * 9 + "400 ms"
    for indent in range(8, 60):
        lines = paragraph("", text, indent=indent)
        assert any('`canaryctl start PLAN --reason "..."`' in line for line in lines)
        assert not any(line.rstrip().endswith(("12", "400")) for line in lines)
        assert all(len(line) <= WIDTH for line in lines)
