"""A sheet leaves nothing out silently."""

import pytest

from server.core.sheet import Check, Fact, Outcome, Section, Sheet, Table, markdown


def sheet(*outcomes: Outcome) -> Sheet:
    checks = tuple(Check(f"c{number}", each, "1 | 2", "3", "cmd", "why") for number, each in enumerate(outcomes))
    facts = (Fact("memory", None, "counter", "it answers 0"), Fact("rows/s", 12.3456, "clock"), Fact("ok", True, "x"))
    empty = Table("Empty", (("shape", "s"),), (), "no process ran")
    full = Table("Full", (("shape", "s"), ("ms", "clock")), (("1x8", None), ("2x8", 1.5)))
    return Sheet("T", "Emulated.", checks, (Section("S", facts),), (empty, full))


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
        "**NOT ACCEPTED.** Emulated.",
        "| c0 | failed | 1 \\| 2; why | 3 | cmd |",
        "| memory | not available: it answers 0 | counter |",
        "| rows/s | 12.35 | clock |",
        "| ok | yes | x |",
        "Not available: no process ran",
        "| 1x8 | not available |",
        "- ms: clock",
    ):
        assert part in text


def test_a_field_without_value_and_reason_cannot_be_built() -> None:
    """Nor one with both."""
    for value, why in ((None, ""), (1, "because")):
        with pytest.raises(ValueError, match="allowed is one of them"):
            Fact("x", value, "y", why)
    with pytest.raises(ValueError, match="no rows and no reason"):
        Table("t", (("a", "b"),), ())
    with pytest.raises(ValueError, match="1 cells"):
        Table("t", (("a", "b"),), ((1, 2),))
