"""A replay in words: what was, whether it is the same, and what stands in the way of saying so."""

from typing import Any

import pytest

from ctl.replay_view import full
from wire.admin import Replay, ReplayedDecision, ReplayedVerdict

AT = 1_800_000_000.0


def verdict(**change: Any) -> ReplayedVerdict:
    fields: dict[str, Any] = {
        "at": AT, "weight": 1000, "verdict": "ROLL_BACK", "reason": "evidence", "metric": "lat_p95",
        "evidence": 84.26, "text": "179 of 267 (67 %) answers took longer than 80 ms; allowed: 5 %. " * 3,
    }  # fmt: skip
    return ReplayedVerdict(**(fields | change))


def replay(**change: Any) -> Replay:
    fields: dict[str, Any] = {
        "run_id": "r7", "plan_digest": "ab12", "other_plan": None, "windows": 31, "same": True,
        "changes": [verdict(verdict="HOLD", reason="too_few", metric=None, evidence=0.8125), verdict()],
        "final": verdict(), "decisions": [ReplayedDecision(at=AT, kind="rollback", text="t", differs=[])],
    }  # fmt: skip
    return Replay(**(fields | change))


def test_the_verdicts_in_their_order_and_that_all_was_as_then() -> None:
    """Time, weight, verdict, reason, metric, E; nothing is wider than a terminal."""
    text = full(replay())
    assert text.splitlines()[0] == "Run r7, 31 windows judged again by its own plan."
    assert "2027-01-15 08:00:00Z  10 %  ROLL_BACK  evidence  lat_p95   84.3" in text
    assert "As then   yes, every number of every decision" in text
    assert "rollback 2027-01-15 08:00:00Z: the same" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"same": False, "decisions": [ReplayedDecision(at=AT, kind="advance", text="t", differs=["evidence"])]},
         ["As then   NO", "advance 2027-01-15 08:00:00Z: differs in evidence"]),
        ({"same": None, "holes": ["3 rows before window 9 are missing"]},
         ["cannot be said: the recording has holes", "Missing   3 rows before window 9"]),
        ({"same": None, "decisions": []}, ["nothing had been decided by the judge"]),
        ({"same": None, "other_plan": "cautious", "decisions": [], "notes": ["this plan would not have left 10 %"]},
         ["by another plan (preset cautious)", "not asked: another plan", "Note      this plan would not"]),
        ({"left_out": 4}, ["and 4 more changes"]),
        ({"final": None, "same": None}, ["nothing had been decided"]),
        ({"same": None, "holes": ["x"], "decisions": [ReplayedDecision(at=AT, kind="advance", text="t", differs=None)]},
         ["no look recorded"]),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_not_said(change: dict[str, Any], words: list[str]) -> None:
    """Another plan, a hole, another number."""
    text = full(replay(**change))
    assert [word for word in words if word not in text] == []


def test_nothing_steers_the_terminal() -> None:
    """Names and sentences come from elsewhere."""
    assert "\x1b" not in full(replay(run_id="r\x1b[2J", holes=["a\x1b"], final=verdict(text="\x1b[1m")))
