"""The tick: reports in, windows closed, the judge asked. Whatever goes wrong in here is a HOLD that can be seen."""

import logging
from collections import Counter, deque
from dataclasses import dataclass, replace
from typing import Any

from gateway.core.booking import book
from gateway.core.breaker import DEFAULT_THRESHOLD
from gateway.core.compare.paired import PairedLatency
from gateway.core.compare.parity import ParityStats
from gateway.core.compare.result import NotCompared
from gateway.core.evidence import ClosedWindow, Evidence
from gateway.core.findings import BreakerCounts, Gap, breaker_sentence
from gateway.core.floor import Floor, floor_of
from gateway.core.plan import MetricId, Plan
from gateway.core.run import Run
from gateway.core.snapshot import Pair, Report
from gateway.core.strata import count_of
from gateway.core.types import MOST_SHAPES, window_of
from gateway.core.verdict import RECENT_S, Judge, Verdict, VerdictName
from gateway.runtime.counted import EverCounted, Latencies
from gateway.runtime.pairs import Compare, Pairs
from gateway.runtime.tape import Tape
from gateway.runtime.traffic import Traffic

log = logging.getLogger("gateway.analyst")

RECENT_WINDOWS = 6
"""Base windows that make up what is called recent: 60 s of the default rule."""
IDLE_WINDOW_S = 10.0
MOST_A_LOOK = 200
"""Windows booked in one look, so that catching up holds nothing else up for long."""
MOST_UNJUDGED = 8640
"""A day of the default windows; of a judge that raises for longer the oldest are lost."""
MOST_KEYED = 64
"""Of those the newest that keep the keys of their requests: fewer keys can only hold a step."""
FLOOR = "floor"
"""Where a checkpoint keeps the noise floor, beside what is the judge's."""
LONGEST_STEP_BACK = 60
"""Windows by which a restored judge may be ahead of the clock; beyond it waiting would leave the run unjudged."""

Second = tuple[int, int, int, int]
"""(attempts, failed) of baseline and candidate in one second."""


@dataclass(frozen=True, slots=True)
class Final:
    """What was known when a run ended."""

    evidence: Evidence
    latencies: Latencies
    parity: ParityStats
    paired: PairedLatency
    floor: Floor | None
    not_compared: Counter[NotCompared]
    verdict: Verdict | None


class Analyst:
    """Evidence of the present epoch and, while a run is open, its judge."""

    def __init__(self, compare: Compare, *, epoch: int, answer_timeout_s: float, now: float) -> None:
        self._answer_timeout_s = answer_timeout_s
        self._judge: Judge | None = None
        self._plan: Plan | None = None
        self.floor: Floor | None = None
        self.last_look = now
        self.counted_from = now
        self.verdict: Verdict | None = None
        self.tripped_by: str | None = None
        self.trip: BreakerCounts | None = None
        self._worker_seconds: dict[str, deque[Second]] = {}
        self.copies: dict[str, int] = {}
        self.compiled: dict[str, int] = {}
        self._seconds: list[Second] = []
        self._unjudged: deque[ClosedWindow] = deque(maxlen=MOST_UNJUDGED)
        """Closed windows that the judge has not booked: it raised, and is given them again."""
        self.ever = EverCounted()
        self.traffic = Traffic(now)
        self.pairs = Pairs(compare, self.ever)
        self._attached: set[str] = set()
        self.final: Final | None = None
        self.tape = Tape()
        self.observe(epoch=epoch, now=now)

    def observe(self, *, epoch: int, now: float, window_s: float = IDLE_WINDOW_S) -> None:
        """Counts without judging: idle, or between runs. Everything begins again."""
        self._judge, self._plan, self.floor = None, None, None
        self.tape.idle(now=now, width_s=window_s)
        self._begin(epoch=epoch, now=now, window_s=window_s)

    def stop(self, *, epoch: int, now: float, window_s: float) -> None:
        """Ends judging. In a new epoch counting begins again, and the last figures are kept to be looked at."""
        self._judge, self._plan = None, None
        self.tape.idle(now=now, width_s=window_s)
        if epoch != self.evidence.epoch:
            final = Final(
                self.evidence,
                self.latencies,
                self.parity,
                self.paired,
                self.floor,
                self.pairs.not_compared,
                self.verdict,
            )
            self._begin(epoch=epoch, now=now, window_s=window_s)
            self.floor, self.final = None, final

    def judge(
        self, run: Run, *, epoch: int, now: float, fresh: bool, resume: dict[str, Any] | None, sticky: bool = False
    ) -> None:
        """Begins a step of ``run``. ``fresh`` voids the evidence of before; else rollback evidence is carried on.

        sticky: requests are split by a key of theirs.
        """
        plan = run.plan
        first = window_of(now, plan.rule.window_s) + 1
        if fresh or self._judge is None:
            self.final = None
            self._plan = plan
            resumed = _resumed(plan, first, resume)
            self._judge = resumed or Judge(plan, first_window=first)
            self.floor = _resumed_floor(plan, resume)
            self.tape.judging(run.run_id, plan, now=now, first_window=first, resumed=resume if resumed else None)
            first = max(first, self._judge.next_window)
            self._begin(epoch=epoch, now=now, window_s=plan.rule.window_s, first_window=first)
        terms: dict[str, Any] = {
            "weight_bp": run.step_weight,
            "next_weight_bp": run.next_weight,
            "window": first,
            "now": now,
            "control": run.has_control,
            "baseline_required": run.has_control,
            "baking": run.is_last_step,
            "sticky": sticky,
            "max_step_s": run.max_step_s,
        }
        self._judge.start_step(**terms)
        self.tape.stepped(now, terms)
        self.verdict = None

    def _begin(self, *, epoch: int, now: float, window_s: float, first_window: int | None = None) -> None:
        self.counted_from = now
        self.evidence = Evidence(
            epoch=epoch,
            width_s=window_s,
            timeout_s=self._answer_timeout_s,
            first_window=window_of(now, window_s) + 1 if first_window is None else first_window,
            strata=count_of(self._plan.strata) if self._plan is not None else 0,
        )
        for name in self._attached:
            self.evidence.expect(name)
        self.pairs.begin(self.evidence)
        self.latencies = Latencies(RECENT_WINDOWS * window_s)
        self.compiled = {}
        self.paired = PairedLatency()
        self.copies = {}
        self.tripped_by, self.trip = None, None
        self._worker_seconds = {}
        self.verdict = None
        self._seconds = []
        self._unjudged.clear()
        self._failed_over = False
        self._next_second = now + 1.0

    def attach(self, worker: str) -> None:
        """A worker that will report: no window closes without it, unless it is overdue."""
        self._attached.add(worker)
        self.evidence.expect(worker)

    def detach(self, worker: str) -> None:
        """A worker that is gone reports nothing more."""
        self._attached.discard(worker)
        self.evidence.forget_worker(worker)

    def report(self, report: Report) -> None:
        """Takes a worker's news. News of another epoch is no evidence."""
        self.ever.add(report)
        self.traffic.add(report)
        late = self.evidence.late_events
        if report.epoch != self.evidence.epoch:
            return
        self.evidence.add(report)
        self.ever.late_events += self.evidence.late_events - late
        self.latencies.add(report)
        self.tape.answered(report)
        self._seconds.extend(report.seconds)
        self._failed_over = self._failed_over or report.recent_failovers > 0
        seconds = self._worker_seconds.setdefault(report.name, deque(maxlen=RECENT_S))
        seconds.extend(report.seconds)
        if report.tripped and self.tripped_by is None:
            self.tripped_by = report.name  # first: what is told of it must not keep the run from following
            self.trip = _trip(report, seconds, workers=len(self._attached))
        self._name_shapes(report.compiled)
        for key, n in report.copies.items():
            self.copies[key] = self.copies.get(key, 0) + n
        if report.paired is not None:
            self.paired.add_blocks(report.paired.clipped, report.paired.blocks)

    def _name_shapes(self, compiled: dict[str, int]) -> None:
        for shape, n in compiled.items():
            if shape in self.compiled or len(self.compiled) < MOST_SHAPES:
                self.compiled[shape] = self.compiled.get(shape, 0) + n

    @property
    def shapes(self) -> tuple[str, ...]:
        """Shapes that compiled on the candidate's request path in this epoch, those that most answers met first."""
        return tuple(sorted(self.compiled, key=lambda shape: (-self.compiled[shape], shape)))

    @property
    def parity(self) -> ParityStats:
        """What the compared pairs of this epoch amount to."""
        return self.pairs.stats

    def pair(self, pair: Pair) -> None:
        """Both answers to one request, to be compared. Of the baseline with itself they are no evidence."""
        if self._plan is None or not self._plan.compares or pair.epoch != self.evidence.epoch:
            return
        if pair.noise:
            if self.floor is not None:
                self.pairs.take_noise(pair, self._plan, self.floor)
            return
        self.pairs.take(pair, self._plan)

    def look(self, now: float) -> Verdict | None:
        """Closes what can be closed and judges. None while nothing is judged. Never raises.

        The verdict that ended a run stays to be looked at until counting begins again.
        """
        try:
            found = self._look(now)
        except Exception as error:
            log.exception("judge failed", extra={"fields": {"event": "judge_failed"}})
            found = hold("judge_failed", f"The judge raised {type(error).__name__}; nothing advances until it runs.")
        else:
            self.last_look = now
        self.verdict = found or self.verdict
        return found

    def _look(self, now: float) -> Verdict | None:
        judge, plan = self._judge, self._plan
        incomplete = self.evidence.incomplete_windows
        closed = list(self.evidence.close(now))
        self.ever.incomplete_windows += self.evidence.incomplete_windows - incomplete
        for window in closed:
            self.pairs.forget(window.window)
        if judge is None or plan is None:
            for window in closed:
                self.tape.closed(now, window)
            return None
        for window in closed:
            self._unjudged.append(window)
            if len(self._unjudged) > MOST_KEYED:
                self._unjudged[-1 - MOST_KEYED].keys.clear()
        # Before the windows, and the verdict after them in any case: one that cannot be judged silences no rule.
        self._feed_breaker(judge, now)
        raised: Exception | None = None
        beside: list[Gap] = []
        notes: tuple[str, ...] = ()
        try:
            self._book(judge, plan, now)
            beside = [*self._unbooked(), *(self.floor.gaps() if self.floor is not None else ())]
            self.tape.beside(now, beside)
            floor = () if self.floor is None else (self.floor.sentence,)
            notes = (*self.pairs.notes(), *self.evidence.notes(), *floor)
        except Exception as error:
            raised = error
        judge = self._judge or judge
        verdict = judge.verdict(now=now, beside=beside)
        if raised is not None and verdict.name is not VerdictName.ROLL_BACK:
            raise raised
        return replace(verdict, notes=(*verdict.notes, *notes))

    def _book(self, judge: Judge, plan: Plan, now: float) -> None:
        """Gives the judge the closed windows, each whole or not at all: one that raises is given to it again."""
        for _ in range(MOST_A_LOOK):
            if not self._unjudged:
                return
            window, before = self._unjudged[0], judge.checkpoint()
            try:
                book(judge, plan, window, self.shapes)
            except Exception:
                self._judge = Judge(plan, first_window=window.window, resume=before)
                raise
            self._unjudged.popleft()
            self.tape.closed(now, window, self.shapes)

    def _unbooked(self) -> list[Gap]:
        """Nothing passes on older windows while newer ones, which may speak against it, are known and not judged."""
        if not self._unjudged:
            return []
        return [Gap(reason="no_data", text=f"{len(self._unjudged)} closed windows are not judged yet")]

    def _feed_breaker(self, judge: Judge, now: float) -> None:
        """Once a second: what all workers together sent and saw fail since the last time."""
        if now < self._next_second <= now + 1.0:
            return  # further ahead than a second only if the clock was set back
        self._next_second = now + 1.0 if self._next_second > now else max(self._next_second + 1.0, now)
        sums = [sum(column) for column in zip(*self._seconds, strict=True)] or [0, 0, 0, 0]
        failed_over, self._seconds, self._failed_over = self._failed_over, [], False
        baseline, candidate = (sums[0], sums[1]), (sums[2], sums[3])
        judge.second(baseline=baseline, candidate=candidate, failed_over_recently=failed_over)
        self.tape.second(now, baseline, candidate, failed_over)

    def acts(self) -> None:
        """The verdict of the last look is about to be acted on."""
        if self._judge is not None:
            self.tape.looked(self.last_look, self.tripped_by, self.trip)

    def checkpoint(self) -> dict[str, Any] | None:
        """The judge's state for a restart, and the noise floor's; None while nothing is judged."""
        if self._judge is None:
            return None
        floor = {FLOOR: self.floor.checkpoint()} if self.floor is not None else {}
        state = {**self._judge.checkpoint(), **floor}
        self.tape.kept(state)
        return state

    @property
    def noise_copies(self) -> int:
        """Share of the baseline's requests to be copied to the baseline itself, basis points."""
        return self.floor.copies if self.floor is not None else 0


def _resumed(plan: Plan, first: int, saved: dict[str, Any] | None) -> Judge | None:
    """The judge of a checkpoint; None when there is none, or none that still means anything."""
    if saved is None:
        return None
    try:
        judge = Judge(plan, first_window=first, resume=saved)
    except ValueError as error:
        fields = {"event": "checkpoint_dropped", "detail": str(error)}
        log.warning("the judge begins afresh", extra={"fields": fields})
        return None
    if judge.next_window > first + LONGEST_STEP_BACK:
        fields = {"event": "checkpoint_dropped", "detail": "the clock stepped back"}
        log.warning("the judge begins afresh", extra={"fields": fields})
        return None
    return judge


def _resumed_floor(plan: Plan, saved: dict[str, Any] | None) -> Floor | None:
    """The noise floor of a checkpoint, or an empty one; None where the plan wants none."""
    try:
        return floor_of(plan, saved.get(FLOOR) if saved is not None else None)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        fields = {"event": "checkpoint_dropped", "detail": f"noise floor: {type(error).__name__} {error}"}
        log.warning("the noise floor begins afresh", extra={"fields": fields})
        return floor_of(plan, None)


def hold(reason: str, text: str) -> Verdict:
    """A HOLD that the judge itself could not give."""
    return Verdict(
        name=VerdictName.HOLD, reason=reason, text=text, metric=None, rule=None, evidence=0.0, bar=0.0, rows=(),
        missing=(), notes=(),
    )  # fmt: skip


def _trip(report: Report, seconds: "deque[Second]", *, workers: int) -> BreakerCounts:
    """What a worker's own breaker saw since the candidate began to fail there, within its last seconds."""
    failing: list[Second] = []
    score = 0
    for second in seconds:
        score = max(0, score + 2 * second[3] - second[2])
        failing = [*failing, second] if score else []
    b_n, b_failed, c_n, c_failed = (sum(column) for column in zip(*failing, strict=True)) if failing else (0, 0, 0, 0)
    return BreakerCounts(
        baseline=(b_n, b_failed),
        candidate=(c_n, c_failed),
        seconds=len(failing),
        scores=report.breaker,
        bar=DEFAULT_THRESHOLD,
        worker=report.name,
        workers=max(1, workers),
    )


def tripped(worker: str, trip: BreakerCounts | None, seen: Verdict | None) -> Verdict:
    """A worker's own breaker took the candidate out: the run follows. Rows are what the judge saw last."""
    counted = breaker_sentence(trip) if trip and trip.seconds else "error: more than half of the attempts failed."
    return Verdict(
        name=VerdictName.ROLL_BACK,
        reason="breaker",
        text=f"{counted} The breaker of worker {worker} fired.",
        metric=MetricId.ERROR,
        rule="breaker",
        evidence=seen.evidence if seen else 0.0,
        bar=seen.bar if seen else 0.0,
        rows=seen.rows if seen else (),
        missing=(),
        notes=seen.notes if seen else (),
        breaker=trip if trip and trip.seconds else None,
        strata=seen.strata if seen else (),
    )
