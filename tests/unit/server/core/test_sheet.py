"""A sheet leaves nothing out silently."""

import pytest

from server.core.sheet import STOP_RULE, Check, Fact, Listing, Outcome, Section, Sheet, Table, markdown


def sheet(*outcomes: Outcome) -> Sheet:
    checks = tuple(Check(f"c{number}", each, "1 | 2", "3", "cmd", "why") for number, each in enumerate(outcomes))
    facts = (
        Fact("memory", None, "counter", "it answers 0"),
        Fact("rows/s", 12.3456, "clock"),
        Fact("ok", True, "x"),
        Fact("weights", 90261504, "file", unit="bytes"),
        Fact("few", 2**20 - 1, "file", unit="bytes"),
        Fact("wait", 1234.5, "clock", unit="s"),
        Fact("parameters", 22565376, "file"),
    )
    empty = Table("Empty", (("shape", "s"),), (), "Not available: no process ran")
    full = Table("Full", (("shape", "s"), ("ms", "clock")), (("1x8", None), ("2x8", 1.5)))
    again = Table("Again", full.columns, (("<b>", 12345.6),))
    listing = Listing("Tolerance", "To paste:", ("compare:", "  defaults: float32"))
    return Sheet("T", "Emulated.", checks, listing, (Section("S", facts),), (empty, full, again))


@pytest.mark.parametrize(
    ("outcomes", "accepted"),
    [
        ([], False),
        ([Outcome.NOT_AVAILABLE], False),
        ([Outcome.PASSED], True),
        ([Outcome.PASSED, Outcome.NOT_AVAILABLE], True),
        ([Outcome.PASSED, Outcome.FAILED], False),
    ],
)
def test_it_is_accepted_when_something_was_checked_and_nothing_failed(outcomes: list[Outcome], accepted: bool) -> None:
    """An empty sheet proves nothing."""
    assert sheet(*outcomes).accepted is accepted


def test_the_page_names_every_reason_and_every_source() -> None:
    """And a pipe in a value does not break its row."""
    text = markdown(sheet(Outcome.FAILED))
    for part in (
        "**NOT ACCEPTED: 0 of 1 checks passed; failed: c0.**\n\nEmulated.\n\n" + STOP_RULE,
        "| c0 | **failed** | 1 \\| 2; why | 3 | cmd |",
        "To paste:\n\n```yaml\ncompare:\n  defaults: float32\n```\n",
        "| memory | not available: it answers 0 | counter |",
        "| rows/s | 12.35 | clock |",
        "| ok | yes | x |",
        "| weights | 86.1 MiB | file |",
        "| few | 1,048,575 bytes | file |",
        "| wait | 1,234 s | clock |",
        "| parameters | 22,565,376 | file |",
        "Not available: no process ran",
        "| &lt;b> | 12,346 |\n\n- columns as above",
        "| 1x8 | not available |",
        "- ms: clock",
    ):
        assert part in text


def test_the_first_line_names_what_did_not_pass() -> None:
    """A sheet that is accepted though something could not be tried must not read like one without a gap."""
    assert sheet(Outcome.PASSED).verdict == "ACCEPTED: 1 of 1 checks passed."
    assert sheet(Outcome.PASSED, Outcome.NOT_AVAILABLE).verdict == (
        "ACCEPTED: 1 of 2 checks passed; could not be made: c1."
    )
    assert sheet(Outcome.FAILED, Outcome.NOT_AVAILABLE).verdict == (
        "NOT ACCEPTED: 0 of 2 checks passed; failed: c0; could not be made: c1."
    )
    assert STOP_RULE not in markdown(sheet(Outcome.PASSED))


def test_a_field_without_value_and_reason_cannot_be_built() -> None:
    """Nor one with both."""
    for value, why in ((None, ""), (1, "because")):
        with pytest.raises(ValueError, match="allowed is one of them"):
            Fact("x", value, "y", why)
    with pytest.raises(ValueError, match="no rows and no reason"):
        Table("t", (("a", "b"),), ())
    with pytest.raises(ValueError, match="allowed is one of them"):
        Listing("t", "p", ())
    with pytest.raises(ValueError, match="1 cells"):
        Table("t", (("a", "b"),), ((1, 2),))
