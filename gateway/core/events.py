"""What can happen to a rollout, and what follows for journal and judge: plain values. The table is in rollout.py."""

from dataclasses import dataclass
from typing import Any

from gateway.core.findings import Verdict
from gateway.core.plan import Plan
from gateway.core.run import Arms


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    run_id: str
    plan: Plan
    plan_digest: str
    who: str
    reason: str
    arms: Arms


@dataclass(frozen=True, slots=True, kw_only=True)
class Validated:
    """Gate 1 is through.

    differences: the identity fields in which the arms differ.
    strict: the candidate serves declared shapes only; None when it does not say.
    """

    differences: tuple[str, ...]
    strict: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invalid:
    """Gate 1 found what must not differ."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RollBack:
    """By a person. The judge's rollback arrives as Judged."""

    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promote:
    """``override`` goes one step up without evidence; without it nothing here is waiting for a person."""

    who: str
    reason: str
    override: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    who: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """The control process came back and read this rollout from the store. ``arms``: as configured now."""

    arms: Arms


Event = Start | Validated | Invalid | Judged | Pause | Resume | RollBack | Promote | Finish | Restarted


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """One line for the append-only journal. The numbers beside a decision are added after it has been taken."""

    kind: str
    who: str
    text: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJudging:
    """A new step: promotion evidence begins again. ``fresh``: so does everything (a new run or epoch)."""

    fresh: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StopJudging:
    """No run is judged any more."""


Effect = JournalEntry | StartJudging | StopJudging
