"""Holds that somebody has to hear of: told once when they begin, and once when they are over.

They go to the log and not to the store: the journal is written together with the rollout's state, and an alarm that is
raised while a command waits for the store would carry the state of before.
"""

from typing import Final

from gateway.core.verdict import Verdict, VerdictName

REASONS: Final = frozenset({"shared_outage", "judge_failed"})
"""Nothing advances while they last, no rollback comes by itself, and waiting alone mends neither."""


class Alarm:
    """Watches the verdicts of one gateway."""

    def __init__(self) -> None:
        self.reason: str | None = None

    def changed(self, verdict: Verdict | None) -> str | None:
        """What to tell when an alarm begins, becomes another or ends; None while nothing changes."""
        held = verdict is not None and verdict.name is VerdictName.HOLD and verdict.reason in REASONS
        reason = verdict.reason if held and verdict is not None else None
        if reason == self.reason:
            return None
        over, self.reason = self.reason, reason
        return f"over: {over}" if verdict is None or reason is None else f"{reason}: {verdict.text}"
