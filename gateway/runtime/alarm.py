"""Holds that somebody has to hear of: told once when they begin, and once when they are over."""

from typing import Final

from gateway.core.events import JournalEntry
from gateway.core.rollout import GATEWAY
from gateway.core.verdict import Verdict, VerdictName

REASONS: Final = frozenset({"shared_outage", "judge_failed"})
"""Nothing advances while they last, no rollback comes by itself, and waiting alone mends neither."""


class Alarm:
    """Watches the verdicts of one gateway."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def changed(self, verdict: Verdict | None) -> JournalEntry | None:
        """The line to journal when an alarm begins, becomes another or ends; None while nothing changes."""
        held = verdict is not None and verdict.name is VerdictName.HOLD and verdict.reason in REASONS
        reason = verdict.reason if held and verdict is not None else None
        if reason == self.reason:
            return None
        over, self.reason = self.reason, reason
        if reason is None:
            return JournalEntry(kind="alarm", who=GATEWAY, text=f"over: {over}", data={"over": over})
        assert verdict is not None, "a reason comes from a verdict"
        return JournalEntry(kind="alarm", who=GATEWAY, text=f"{reason}: {verdict.text}", data={"reason": reason})
