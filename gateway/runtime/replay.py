"""Judges recorded evidence again, by the same judge: what a run was decided on, or what another plan had made of it.

Only read. One replay runs at a time, in slices of a few milliseconds between which the control loop has its turn.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.core.plan import Plan
from gateway.core.recorded import FORMAT, verdict_data
from gateway.core.run import Run
from gateway.core.tape import Began, Closed, Told, plain, unpack
from gateway.core.whatif import as_if_started, notes_of, problems_of
from gateway.ports import EvidenceRow, EvidenceStore, JournalLine, Store
from gateway.runtime.playback import Playback, Seen

MOST_WINDOWS: Final = 8640
"""A day of the default windows."""
A_PAGE: Final = 50
A_SLICE: Final = 10
"""Things told between two turns of the control loop: some milliseconds."""
MOST_LINES: Final = 10_000
NUMBERS: Final = (
    "verdict", "reason", "metric", "rule", "evidence", "bar", "metrics", "breaker", "compiles", "strata", "stratum",
)  # fmt: skip
"""What must be the same to the last bit. Sentences may be worded anew by a later version."""


class CannotReplay(Exception):
    """``problems`` says what stands in the way: field, value, what is allowed."""

    def __init__(self, reason: Literal["busy", "no_run", "not_recorded", "plan"], text: str, *problems: str) -> None:
        super().__init__(text)
        self.reason, self.problems = reason, list(problems)


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of then beside the replay's. differs: the numbers that do; None where there is nothing to compare."""

    at: float
    kind: str
    text: str
    differs: tuple[str, ...] | None


@dataclass(slots=True)
class Replayed:
    """What came of it. changes: the verdicts, each time that one followed another. holes: what the recording lacks.

    plan: None for the run's own.
    """

    run: Run
    plan: Plan | None
    windows: int = 0
    changes: list[Seen] = field(default_factory=list)
    left_out: int = 0
    final: Seen | None = None
    decisions: list[Decision] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def same(self) -> bool | None:
        """As then, to the last bit; None where that cannot be said: another plan, a hole, or nothing was decided."""
        if self.plan is not None or self.holes or not self.decisions:
            return None
        return all(decision.differs == () for decision in self.decisions)


class Replayer:
    """Of one gateway."""

    def __init__(self, store: Store, evidence: EvidenceStore) -> None:
        self._store, self._evidence = store, evidence
        self._busy = False

    async def replay(self, run_id: str, *, plan: Plan | None = None, until: float | None = None) -> Replayed:
        """Judges a run again: by its own plan, or by ``plan``. ``until``: as if it were that wall time.

        Raises CannotReplay and StoreUnavailable.
        """
        if self._busy:
            raise CannotReplay("busy", "another replay is under way; ask again when it has ended")
        self._busy = True
        try:
            return await self._replay(run_id, plan, until)
        finally:
            self._busy = False

    async def _replay(self, run_id: str, plan: Plan | None, until: float | None) -> Replayed:
        run = await self._store.run(run_id)
        if run is None:
            raise CannotReplay("no_run", f"there is no run '{run_id}'; `canaryctl history` names the runs")
        if plan is not None and (problems := problems_of(plan, run.plan)):
            raise CannotReplay("plan", "the recording cannot be judged by this plan", *problems)
        rows, beginnings = await self._evidence.outline(run_id)
        if not beginnings:
            raise CannotReplay("not_recorded", f"nothing is recorded of run {run_id}, or it was removed by its age")
        if rows > MOST_WINDOWS:
            text = f"{rows} windows are recorded of run {run_id}; a replay takes at most {MOST_WINDOWS}"
            raise CannotReplay("not_recorded", text)
        end = float("inf") if until is None else until
        goes_on_from = await _goes_on_from(beginnings)
        asked = run.plan if plan is None else as_if_started(plan, run)
        playback = Playback(asked, goes_on_from=goes_on_from, until=end)
        await self._play(run_id, playback)
        if not playback.windows:
            raise CannotReplay("not_recorded", "no window of the run that could be judged is recorded", *playback.holes)
        found = Replayed(run, plan, playback.windows, playback.changes, playback.left_out)
        found.final = playback.first_rollback or playback.verdict(playback.at if until is None else until)
        found.holes = playback.holes
        if plan is not None:
            found.notes = [*notes_of(plan, run.plan), *playback.notes]
            return found
        lines = await self._store.history(limit=MOST_LINES, run_id=run_id)
        found.decisions = _decisions(
            [line for line in lines if line.at <= end and _is_the_judges(line)], playback.looks
        )
        found.holes += [f"the look of the {each.kind} is missing" for each in found.decisions if each.differs is None]
        return found

    async def _play(self, run_id: str, playback: Playback) -> None:
        """In the order in which it was written."""
        place, part, position, told_since = 0, 0, 0, 0
        while not playback.over and (page := await self._evidence.tape(run_id, after=place, limit=A_PAGE)):
            place = page[-1][0]
            for _, row in page:
                if row.part != part:
                    part, position = row.part, 0
                if row.position != position:
                    playback.hole(f"{row.position - position} rows before window {row.window} are missing")
                position = row.position + 1
                for told in _told(row, playback):
                    _tell(playback, told)
                    told_since += 1
                    if told_since >= A_SLICE or isinstance(told, Closed):
                        told_since = 0
                        await asyncio.sleep(0)


async def _goes_on_from(beginnings: list[EvidenceRow]) -> frozenset[str]:
    found = []
    for row in beginnings:
        await asyncio.sleep(0)
        try:
            found += [told.resumed for told in unpack(row.data) if isinstance(told, Began) and told.resumed is not None]
        except ValueError:
            continue  # said when it is its turn
    return frozenset(found)


def _told(row: EvidenceRow, playback: Playback) -> list[Told]:
    try:
        return unpack(row.data)
    except ValueError as error:
        playback.hole(f"the row of window {row.window} cannot be read: {error}")
        return []


def _tell(playback: Playback, told: Told) -> None:
    try:
        playback.tell(told)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:  # a hole, or foreign bytes
        playback.hole(f"what the judge was told cannot be told again: {type(error).__name__}: {error}")


def _is_the_judges(line: JournalLine) -> bool:
    """Decisions by people and by configuration have numbers beside them, too, and are none of the judge's."""
    judged = line.data.get("judged")
    if line.data.get("format") != FORMAT or not isinstance(judged, dict):
        return False
    stopped = line.kind == "rollback" and line.data.get("rule") in ("evidence", "breaker", "recompile")
    return stopped or line.kind in ("advance", "inconclusive")


def _decisions(lines: list[JournalLine], looks: list[Seen]) -> list[Decision]:
    """The look that a decision was taken on is the last before it, and after the decision before."""
    found, since = [], 0.0
    for line in lines:
        look = next((seen for seen in reversed(looks) if since < seen.at <= line.at), None)
        found.append(_decision(line, look))
        since = line.at
    return found


def _decision(line: JournalLine, look: Seen | None) -> Decision:
    if look is None:
        return Decision(line.at, line.kind, line.text, None)
    then, now = plain(line.data["judged"]), plain(verdict_data(look.verdict))
    differs = tuple(name for name in NUMBERS if name in then and now.get(name) != then[name])
    return Decision(line.at, line.kind, line.text, differs)
