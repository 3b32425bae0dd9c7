from typing import Any

from demo.frame import WIDTH
from demo.summary import table


class _Seen:
    """The fields of a result that the table reads."""

    def __init__(self, **changes: Any) -> None:
        fields = {
            "scenario": "recompile", "expected": "ROLLED_BACK", "outcome": "ROLLED_BACK", "weight": 10.0,
            "metric": "recompile", "rule": "recompile", "fault_to_decision_s": 12.34, "time_to_zero_ms": 4.2,
            "locust_failures": 0, "locust_requests": 12345, "wrong_answers": 0, "compared_answers": 1234,
            "objections": [], "passed": True,
        }  # fmt: skip
        self.__dict__.update(fields | changes)


def lines(*seen: Any) -> list[str]:
    return table(seen)


def test_one_line_a_scenario() -> None:
    """Expected and real outcome, weight, metric, rule, how fast, and what clients saw stand in columns."""
    text = lines(_Seen(), _Seen(scenario="good", metric=None, rule=None, fault_to_decision_s=None))
    assert text[2].split() == [
        "recompile", "ROLLED_BACK", "ROLLED_BACK", "10", "%", "recompile", "recompile", "12.3", "s", "4", "ms",
        "0/12345", "0/1234",
    ]  # fmt: skip
    assert text[2].index("0/12345") == text[3].index("0/12345")
    assert max(len(line) for line in text) <= WIDTH
    assert len(text) == 4


def test_what_did_not_end_as_expected_is_marked() -> None:
    """A scenario that fails says so in its line, and why below the table."""
    text = lines(_Seen(), _Seen(scenario="slow", passed=False, objections=["outcome: PROMOTED; expected ROLLED_BACK"]))
    assert "NOT" not in text[2]
    assert text[3].endswith("<- NOT as expected")
    assert text[4] == "  ! slow: outcome: PROMOTED; expected ROLLED_BACK"
