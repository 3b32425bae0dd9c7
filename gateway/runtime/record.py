"""The numbers that stand beside a decision in the journal, and the line of a decision when it is asked for later.

All of this is for people. A rollback is routed before anything in here is asked, and whatever goes wrong in here is
logged and leaves a gap in an explanation, never in the routing.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from gateway.core.events import JournalEntry
from gateway.core.findings import Verdict
from gateway.core.recorded import FORMAT, figures_data, verdict_data
from gateway.core.run import Outcome, Rollout, State
from gateway.core.types import Role
from gateway.ports import Store, StoreUnavailable
from gateway.runtime.analyst import Analyst
from gateway.runtime.counted import live_requests
from gateway.runtime.figures import figures

log = logging.getLogger("gateway.record")
T = TypeVar("T")

READ_WITHIN_S = 1.0
NUMBERED: Final = frozenset({"rollback", "advance", "inconclusive", "override", "done"})
"""Kinds of journal lines that get the numbers of their moment."""
_ENDS: Final = ("rollback", "refused")
_KINDS: Final[dict[State, tuple[str, ...]]] = {
    State.ROLLED_BACK: _ENDS,
    State.DONE: ("done",),
    State.PAUSED: ("pause",),
}
"""The line that tells how a state was come to. Of rollbacks it is the run's first: later ones repeat it."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The line of a decision. ``gap``: why it is not at hand; empty when it is, or when there is none to be had."""

    line: JournalEntry | None = None
    gap: str = ""


class Record:
    """Of the present run."""

    def __init__(self, store: Store, analyst: Analyst) -> None:
        self._store, self._analyst = store, analyst
        self._kept: JournalEntry | None = None
        self._read: tuple[tuple[str, State], Recalled] | None = None

    def numbered(self, lines: list[JournalEntry], verdict: Verdict | None, now: float) -> list[JournalEntry]:
        """``lines`` with verdict and figures of wall time ``now`` where they belong. Never raises."""
        if not any(line.kind in NUMBERED for line in lines):
            return lines
        numbers = {
            "format": FORMAT,
            "judged": _guarded(lambda: verdict_data(verdict)) if verdict is not None else None,
            "figures": _guarded(lambda: figures_data(figures(self._analyst, now))),
        }
        return [replace(line, data={**line.data, **numbers}) if line.kind in NUMBERED else line for line in lines]

    def live(self) -> tuple[int | None, float | None]:
        """Live requests that went to the candidate, and since when they were counted. Never raises."""
        return _guarded(lambda: live_requests(self._analyst.evidence, Role.CANDIDATE)), self._analyst.counted_from

    def keep(self, lines: list[JournalEntry]) -> None:
        """Remembers the line that says where the run stands; a start forgets it."""
        for line in lines:
            if line.kind == "start":
                self._kept = None
            elif any(line.kind in kinds for kinds in _KINDS.values()):
                self._kept = line

    def at_hand(self, rollout: Rollout) -> Recalled:
        """The line of the rollout's state without asking the store."""
        kinds = _kinds(rollout)
        if self._kept is not None and self._kept.kind in kinds:
            return Recalled(self._kept)
        return self._read[1] if self._read and self._read[0] == _key(rollout) else Recalled()

    async def recall(self, rollout: Rollout) -> Recalled:
        """The same, from the journal after a restart. The store is asked once; a failure is asked about again."""
        run, kinds, key = rollout.run, _kinds(rollout), _key(rollout)
        if run is None or not kinds or (self._kept is not None and self._kept.kind in kinds):
            return self.at_hand(rollout)
        if self._read is not None and self._read[0] == key:
            return self._read[1]
        try:
            async with asyncio.timeout(READ_WITHIN_S):
                line = await self._store.decision(run_id=run.run_id, kinds=kinds, newest=kinds is not _ENDS)
        except (StoreUnavailable, TimeoutError):
            return Recalled(gap="the store did not give the run's journal")
        found = Recalled(gap="the run's journal has no line of it")
        if line is not None:
            found = Recalled(JournalEntry(kind=line.kind, who=line.who, text=line.text, data=line.data))
        self._read = key, found
        return found


def _kinds(rollout: Rollout) -> tuple[str, ...]:
    """None for a rollback while no run was open: it ended nothing."""
    ended = rollout.run is not None and rollout.run.outcome in (Outcome.ROLLED_BACK, Outcome.REFUSED)
    return () if rollout.state is State.ROLLED_BACK and not ended else _KINDS.get(rollout.state, ())


def _key(rollout: Rollout) -> tuple[str, State]:
    return rollout.run.run_id if rollout.run else "", rollout.state


def _guarded(make: Callable[[], T]) -> T | None:
    try:
        return make()
    except Exception:
        log.exception("figures left out", extra={"fields": {"event": "figures_left_out"}})
        return None


def numbers_of(recalled: Recalled) -> dict[str, Any]:
    """What a line holds, if it is of a format that is known."""
    return recalled.line.data if recalled.line and recalled.line.data.get("format") == FORMAT else {}
