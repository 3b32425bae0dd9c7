from typing import Any

from demo.frame import WIDTH
from demo.summary import table


class _Seen:
    """The fields of a result that the table reads."""

    def __init__(self, **changes: Any) -> None:
        fields = {
            "expected": "ROLLED_BACK", "outcome": "ROLLED_BACK", "weight": 10.0,
            "metric": "recompile", "rule": "recompile", "fault_to_decision_s": 12.34, "time_to_zero_ms": 4.2,
            "locust_failures": 0, "locust_requests": 12345, "wrong_answers": 0, "compared_answers": 1234,
            "objections": [], "passed": True, "tolerated": False,
        }  # fmt: skip
        self.__dict__.update(fields | changes)


def lines(**seen: Any) -> list[str]:
    return table(seen)


def test_one_line_a_scenario() -> None:
    """Expected and real outcome, weight, metric, rule, how fast, and what clients saw stand in columns."""
    text = lines(recompile=_Seen(), good=_Seen(metric=None, rule=None, fault_to_decision_s=None))
    assert text[2].split() == [
        "recompile", "ROLLED_BACK", "ROLLED_BACK", "10", "%", "recompile", "recompile", "12.3", "s", "4", "ms",
        "0/12345", "0/1234",
    ]  # fmt: skip
    assert text[2].index("0/12345") == text[3].index("0/12345")
    assert len(text) == 4


def test_what_did_not_end_as_expected_is_marked() -> None:
    """A scenario that fails, is only tolerated, or was not played is marked, and why is said below the table."""
    text = lines(
        good=_Seen(),
        slow=_Seen(passed=False, objections=["outcome: PROMOTED; expected ROLLED_BACK"]),
        flap=_Seen(outcome="INCONCLUSIVE", tolerated=True),
        wrong=None,
    )
    assert [line[:6].rstrip() for line in text[2:6]] == ["  good", "! slow", "~ flap", "! wron"]
    assert "not played" in text[5]
    assert text[6:8] == [
        "! slow: outcome: PROMOTED; expected ROLLED_BACK",
        "! wrong: it could not be played; the reason is above",
    ]
    assert text[8].startswith("~ not promoted, but only held")


def test_the_widest_table_fits_the_terminal() -> None:
    """No line is longer than the terminal is wide, whatever the numbers."""
    wide = _Seen(
        outcome="INCONCLUSIVE", passed=False, locust_failures=12345, fault_to_decision_s=345.6, time_to_zero_ms=5432.1,
        wrong_answers=1234, objections=["because " * 40],
    )  # fmt: skip
    assert max(len(line) for line in lines(recompile=wide)) <= WIDTH
