"""Tells a judge what a recording holds, one thing after the other, and notes what it says to that."""

from dataclasses import dataclass
from typing import Any, Final

from gateway.core.booking import book
from gateway.core.findings import Gap, Verdict, VerdictName
from gateway.core.plan import Plan
from gateway.core.tape import Began, Beside, Closed, Kept, Looked, Second, Stepped, Told
from gateway.core.verdict import Judge
from gateway.runtime.analyst import tripped

MOST_CHANGES: Final = 500
MOST_HOLES: Final = 50


@dataclass(frozen=True, slots=True)
class Seen:
    """A verdict at wall time ``at`` and live weight ``weight`` (basis points)."""

    at: float
    weight: int
    verdict: Verdict


class Playback:
    """Feeds what was told to a judge of ``plan``, up to wall time ``until``.

    goes_on_from: digests of the states from which a restart went on.
    """

    def __init__(self, plan: Plan, *, goes_on_from: frozenset[str], until: float) -> None:
        self._plan, self._goes_on_from, self._until = plan, goes_on_from, until
        self._judge: Judge | None = None
        self._kept: dict[str, dict[str, object]] = {}
        self._weight, self._stepped = 0, False
        self._beside: tuple[Gap, ...] = ()
        self._proven: Seen | None = None
        self.at = 0.0
        self.over = False
        self.windows = 0
        self.changes: list[Seen] = []
        self.left_out = 0
        self.looks: list[Seen] = []
        self.first_rollback: Seen | None = None
        self.holes: list[str] = []
        self.notes: list[str] = []

    def tell(self, told: Told) -> None:
        """The next thing."""
        if not isinstance(told, Kept):
            if told.at > self._until:
                self.over = True
            if self.over:
                return
            self.at = told.at
        if isinstance(told, Began):
            self._begin(told)
            return
        judge = self._judge
        if judge is None:
            return  # behind a hole, until somebody begins anew
        match told:
            case Stepped():
                judge.start_step(**self._terms(told))
                self._step(told)
            case Second():
                judge.second(baseline=told.baseline, candidate=told.candidate, failed_over_recently=told.failed_over)
                if told.candidate[1] or told.baseline[1]:
                    self._look(told.at)
            case Closed():
                book(judge, self._plan, told.window, told.shapes)
                self.windows += 1
                self._look(told.at)
            case Beside():
                self._beside = told.gaps
            case Looked():
                self._acted_on(told)
            case Kept():
                if told.digest in self._goes_on_from:
                    self._kept[told.digest] = judge.checkpoint()

    def hole(self, text: str) -> None:
        """Something is missing here. What comes behind it is judged on what there is."""
        if len(self.holes) <= MOST_HOLES and text not in self.holes:
            self.holes.append(text if len(self.holes) < MOST_HOLES else "and more")

    def verdict(self, at: float) -> Seen | None:
        """The verdict at ``at``; None before the first step."""
        if self._judge is None or not self._stepped:
            return None
        return Seen(at, self._weight, self._judge.verdict(now=at, beside=self._beside))

    def _begin(self, told: Began) -> None:
        state = self._kept.get(told.resumed) if told.resumed is not None else None
        if told.resumed is not None and state is None:
            self.hole("the state from which a restart went on is not in it")
        self._judge, self._beside = Judge(self._plan, first_window=told.first_window, resume=state), ()

    def _terms(self, told: Stepped) -> dict[str, Any]:
        """Of then, but a length that this plan names stands as written."""
        return told.terms if self._plan.stretch_s is not None else {**told.terms, "max_step_s": None}

    def _step(self, told: Stepped) -> None:
        if self._stepped and told.weight != self._weight:
            left = f"{self._weight / 100:g} %"
            if self._proven is None:
                self.notes.append(f"this plan would not have left {left} yet when the recorded run did")
            elif (waited := told.at - self._proven.at) > 2 * self._plan.rule.window_s:
                self.notes.append(f"this plan would have left {left} {waited:.0f} s before the recorded run did")
        self._weight, self._stepped, self._proven = told.weight, True, None

    def _look(self, at: float) -> None:
        judge = self._judge
        assert judge is not None, "only what a judge was told is looked at"
        self._see(Seen(at, self._weight, judge.verdict(now=at, beside=self._beside)))

    def _acted_on(self, told: Looked) -> None:
        judge = self._judge
        assert judge is not None, "only a judge's verdict is acted on"
        verdict = judge.verdict(now=told.at, beside=self._beside)
        if told.worker is not None and verdict.name is not VerdictName.ROLL_BACK:
            verdict = tripped(told.worker, told.trip, verdict)
        seen = Seen(told.at, self._weight, verdict)
        self.looks.append(seen)
        self._see(seen)

    def _see(self, seen: Seen) -> None:
        verdict = seen.verdict
        if verdict.name is VerdictName.ADVANCE and self._proven is None:
            self._proven = seen
        if verdict.name is VerdictName.ROLL_BACK and self.first_rollback is None:
            self.first_rollback = seen
        last = self.changes[-1] if self.changes else None
        if last is not None and (last.weight, last.verdict.name, last.verdict.reason) == (
            seen.weight, verdict.name, verdict.reason,
        ):  # fmt: skip
            return
        if len(self.changes) < MOST_CHANGES:
            self.changes.append(seen)
        else:
            self.left_out += 1
