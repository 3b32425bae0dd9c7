"""What the runtime needs from outside: small protocols, each with one job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.core.events import JournalEntry
from gateway.core.run import Rollout, Run
from gateway.core.snapshot import ToWorker


class Clock(Protocol):
    """Wall time is for stamps and windows, monotonic time for durations. Both in seconds."""

    def wall(self) -> float: ...

    def monotonic(self) -> float: ...


class StateDirError(Exception):
    """State on disk cannot be used; the message says why and what to do. Ends the start."""


class StoreUnavailable(Exception):
    """The store did not take or give; what was asked for did not happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalLine:
    """One line as stored. ``seq`` rises without end; lines are never changed or removed."""

    seq: int
    at: float
    run_id: str | None
    epoch: int
    kind: str
    who: str
    text: str
    data: dict[str, Any]


class Store(Protocol):
    """Rollout state and journal. Raises StoreUnavailable."""

    async def load(self) -> tuple[Rollout, dict[str, Any] | None]:
        """The rollout and the judge's checkpoint; a fresh one when nothing was stored."""
        ...

    async def save(self, rollout: Rollout, lines: Sequence[JournalEntry], at: float) -> None:
        """Writes state and journal in one transaction."""
        ...

    async def checkpoint(self, epoch: int, state: dict[str, Any]) -> None:
        """Keeps the judge's state for a restart; one of another epoch is dropped at load."""
        ...

    async def run(self, run_id: str) -> Run | None:
        """A run of this rollout, open or ended, as it was stored last; None when there is none."""
        ...

    async def history(self, *, limit: int, run_id: str | None) -> list[JournalLine]:
        """The newest ``limit`` lines, oldest first."""
        ...

    async def decision(self, *, run_id: str, kinds: Sequence[str], newest: bool) -> JournalLine | None:
        """The newest or the oldest line of a run among ``kinds``; None when there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceRow:
    """What was recorded up to and with one window (core/tape.py). ``run_id`` is empty while nothing was judged.

    part: told apart by where recording began anew: a run's begin, a restart. position: rises by one from row to row
        of a part; a number that is missing is a row that is. window, at: of the last in it. width_s: of its windows.
    """

    run_id: str
    part: int
    position: int
    window: int
    width_s: float
    at: float
    data: bytes


class EvidenceStore(Protocol):
    """The recording. Raises StoreUnavailable."""

    async def record(self, rows: Sequence[EvidenceRow]) -> None:
        """Writes them in this order, over those of the same run, part and position; old ones make room."""
        ...

    async def outline(self, run_id: str) -> tuple[int, list[EvidenceRow]]:
        """How many rows a run has, and the first row of each of its parts, in the order in which they were written."""
        ...

    async def tape(self, run_id: str, *, after: int, limit: int) -> list[tuple[int, EvidenceRow]]:
        """The next ``limit`` rows of a run behind place ``after`` (0: the beginning), each with its own place."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmHealth:
    """What one readiness poll found. ``identity`` is None when the arm does not report one."""

    ready: bool
    detail: str
    identity: dict[str, Any] | None = None
    warm_up: dict[str, Any] | None = None


class ReadinessProbe(Protocol):
    """Asks one arm whether it is ready. Never raises for what the arm does; says it in ``detail``."""

    async def poll(self) -> ArmHealth: ...


class WorkerLink(Protocol):
    """One data worker as the control process holds it."""

    @property
    def name(self) -> str: ...

    def send(self, message: ToWorker) -> None:
        """Queues one message; silently lost when the worker is gone."""
        ...
