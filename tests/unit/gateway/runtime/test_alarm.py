"""Holds that call somebody are told when they begin and when they end, and not every second between."""

import pytest

from gateway.core.verdict import Verdict, VerdictName
from gateway.runtime.alarm import Alarm
from gateway.runtime.analyst import hold


def rolled_back() -> Verdict:
    return Verdict(
        name=VerdictName.ROLL_BACK, reason="breaker", text="t", metric=None, rule="breaker", evidence=0.0, bar=20.0,
        rows=(), missing=(), notes=(),
    )  # fmt: skip


@pytest.mark.parametrize("reason", ["shared_outage", "judge_failed"])
def test_an_alarm_begins_once_and_ends_once(reason: str) -> None:
    """However often the same verdict comes, one line tells of it and one of its end."""
    alarm, held = Alarm(), hold(reason, "both arms fail")
    lines = [alarm.changed(verdict) for verdict in (None, held, held, held, hold("too_few", "t"), None)]
    assert lines == [
        None, f"{reason}: both arms fail", None, None, f"over: {reason}", None,
    ]  # fmt: skip


def test_one_alarm_may_become_another() -> None:
    """The new one is told at once."""
    alarm = Alarm()
    alarm.changed(hold("shared_outage", "a"))
    assert alarm.changed(hold("judge_failed", "b")) == "judge_failed: b"


def test_other_verdicts_are_no_alarm() -> None:
    """Ordinary holds and a rollback call nobody here: the rollback has a line of its own."""
    alarm = Alarm()
    assert [alarm.changed(verdict) for verdict in (hold("suspect", "t"), rolled_back(), None)] == [None] * 3
