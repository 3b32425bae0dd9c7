from typing import Any

from ctl.explain_view import full
from ctl.layout import WIDTH
from wire.admin import Fact


def test_three_blocks_within_100_columns(sample: Any) -> None:
    """Headline, facts beside their labels, and what to do next."""
    headline, facts, following = full(sample["explanation"]()).split("\n\n")
    assert headline == "Rolled back from 10 % for lat_p95: 9 % too slow."
    assert facts.splitlines()[0].startswith("Seen      38 of 412")
    assert facts.splitlines()[1].startswith(" " * 10)
    assert facts.splitlines()[-1] == "Zero      31 ms"
    assert following.startswith("Next      Change one thing.")
    assert max(len(line) for line in full(sample["explanation"]()).splitlines()) <= WIDTH


def test_without_facts_two_blocks_are_left(sample: Any) -> None:
    """An idle gateway has none."""
    assert len(full(sample["explanation"](facts=[])).split("\n\n")) == 2


def test_nothing_of_a_foreign_gateway_steers_the_terminal(sample: Any) -> None:
    """Whatever it sends, headline, labels, facts and next step are text."""
    text = full(
        sample["explanation"](
            headline="\x1b[2Jgone", facts=[Fact(label="\x07Seen", text="\x1b]0;title")], next="\x9b31m"
        )
    )
    assert not any(c != "\n" and not c.isprintable() for c in text)
