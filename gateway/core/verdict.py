"""The judge: counts of closed windows in, a verdict with its reasons out.

Order of the rules, first that speaks: recompiles (stop rule), breaker, evidence against the candidate, shared outage
(hold), promotion, step too old (inconclusive), hold. No data is never a pass, and nothing here raises a weight: the
verdict is a value.

A rule that has once fired stays fired; a rollback cannot be talked back by quieter windows between two looks.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gateway.core.breaker import BreakerWatch, Pulse
from gateway.core.findings import (
    Blamed,
    BreakerCounts,
    CompileCounts,
    Gap,
    MetricRow,
    Rule,
    Verdict,
    VerdictName,
    breaker_sentence,
    evidence_sentence,
    find_row,
    metric_sentence,
    recompile_sentence,
)
from gateway.core.keys import KeyCounts
from gateway.core.mirror_load import Lanes, MirrorLoad
from gateway.core.plan import MetricId, Plan
from gateway.core.sequential import Cell
from gateway.core.step import Quad, Step, StepTerms, resume_step
from gateway.core.step_keys import StepKeys
from gateway.core.step_strata import StepStrata
from gateway.core.stop import Stop, read_stop
from gateway.core.stratified import Strata, evidence_against
from gateway.core.types import FULL_WEIGHT, MOST_SHAPES, Role

__all__ = ["Judge", "MetricRow", "Verdict", "VerdictName"]

CHECKPOINT_FORMAT: Final = 1
RECENT_S: Final = 10

# A hold names the first of these that applies; the others are in `missing`.
_REASONS: Final = (
    "no_data",
    "noise_floor",
    "suspect",
    "breaker_rising",
    "refused_unchecked",
    "baseline_out_of_slo",
    "too_few_keys",
    "too_few",
    "not_proven",
    "too_young",
)
_COMES: Final = frozenset({"too_few", "not_proven", "too_young"})
"""Reasons that end by themselves while traffic goes on as it does."""
_RULES: Final[tuple[Rule, ...]] = ("recompile", "breaker", "evidence")


class Judge:
    """Judges one run of ``plan`` from ``first_window`` on, or from where a checkpoint of the same plan was taken.

    Windows are closed in order, each once; those left out were empty. Call ``start_step`` before anything else.
    ValueError when ``resume`` is no checkpoint of this plan.
    """

    def __init__(self, plan: Plan, *, first_window: int, resume: Mapping[str, Any] | None = None) -> None:
        self._plan = plan
        self._against = evidence_against(plan, first_window=first_window)
        self._watch = BreakerWatch(threshold=plan.rule.breaker_threshold, hold_s=plan.rule.breaker_hold_s)
        self._pulse = Pulse.QUIET
        self._recent: deque[Quad] = deque(maxlen=RECENT_S)
        self._stops: dict[Rule, Stop] = {}
        self._step: Step | None = None
        self._strata = StepStrata(plan)
        self._keys = StepKeys()
        self._mirror = MirrorLoad(plan.rule)
        self._shapes: tuple[str, ...] = ()
        if resume is not None:
            self._restore(resume)

    def start_step(
        self,
        *,
        weight_bp: int,
        next_weight_bp: int,
        window: int,
        now: float,
        control: bool,
        baseline_required: bool,
        baking: bool = False,
        sticky: bool = False,
        max_step_s: float | None = None,
    ) -> None:
        """A step begins: promotion evidence and step counts start over, evidence against the candidate carries on.

        The same weight again is the same step after a pause or a restart: what met a compile in it carries on, too.

        weight_bp, next_weight_bp: this weight and the one that passing leads to (itself after the last), basis points.
        window: the first window that belongs to the step. now: seconds, same clock as in ``verdict``.
        control: the baseline's present rate stands under the limits. baseline_required: no pass without its counts.
        baking: the step passes only after the plan's bake time.
        sticky: requests are split by a key of theirs; the step passes only on enough keys.
        max_step_s: how long it may last, the bake not counted; None: as long as the plan says.
        """
        if not 0 <= weight_bp <= FULL_WEIGHT:
            raise ValueError(f"weight_bp: {weight_bp} must lie between 0 and {FULL_WEIGHT}")
        if not max(1, weight_bp) <= next_weight_bp <= FULL_WEIGHT:
            raise ValueError(f"next_weight_bp: {next_weight_bp} must lie between {max(1, weight_bp)} and {FULL_WEIGHT}")
        terms = StepTerms(
            weight_bp=weight_bp,
            next_weight_bp=next_weight_bp,
            window=window,
            started=now,
            control=control,
            baseline_required=baseline_required,
            baking=baking,
            max_step_s=max_step_s,
        )
        self._step = self._step.following(terms) if self._step else Step(plan=self._plan, terms=terms)
        self._strata.start(terms)
        self._keys.start(sticky=sticky)
        self._mirror.start()

    def close_window(
        self,
        window: int,
        cells: Mapping[MetricId, Cell],
        *,
        compiles: int,
        answered: int,
        refused_unchecked: Quad = (0, 0, 0, 0),
        excused: int = 0,
        shapes: tuple[str, ...] = (),
        strata: Strata = (),
        keys: Mapping[Role, KeyCounts] | None = None,
        lanes: Mapping[MetricId, Lanes] | None = None,
    ) -> None:
        """Books a closed window. Metrics without a cell had no event; metrics that the plan does not use are ignored.

        compiles: candidate's answers that met a compile. answered: its successful answers.
        excused: answers that met a compile and are in no latency metric. shapes: those that compiled so far in this
            run, most often first; after a restart, since then.
        refused_unchecked: candidate n, k, baseline n, k of refusals that could not be put to the baseline.
        strata: the same cells by class of requests, where the plan has any.
        keys: of its live requests, where they are split by a key of theirs.
        lanes: of the latency metrics, the candidate's live and copied answers apart.
        ValueError when the window is closed already or the counts of refusals are impossible; nothing is booked then.
        """
        step = self._present_step()
        n_c, k_c, n_b, k_b = refused_unchecked
        if not (0 <= k_c <= n_c and 0 <= k_b <= n_b):
            raise ValueError(f"refused_unchecked: {refused_unchecked} must be (n_c, k_c, n_b, k_b) with 0 <= k <= n")
        first_open, in_step = self._against.next_window, window >= step.terms.window
        if in_step:  # windows of the step before are held to what that step was held to
            self._against.set_control(step.terms.control)
        held_to = self._against.close(window, cells, strata)
        self._shapes = tuple(dict.fromkeys((*shapes, *self._shapes)))[:MOST_SHAPES]
        if in_step:
            step.cross_gap(first_open, window)
            step.count(compiles=compiles, answered=answered, excused=excused, refused_unchecked=refused_unchecked)
            step.close(window, cells, held_to)
            self._strata.close(first_open, window, strata, self._against.held_in_strata)
            self._keys.add(keys or {})
            self._mirror.add(window, lanes or {})
        else:
            step.count_before(compiles=compiles, answered=answered)
        self._check_recompiles(step)
        self._check_evidence(step)

    def second(self, *, baseline: tuple[int, int], candidate: tuple[int, int], failed_over_recently: bool) -> None:
        """Books one second's (attempts, failed) of each arm for the breaker.

        failed_over_recently: a request was failed over within the last ten seconds.
        """
        self._pulse = self._watch.second(
            baseline=baseline, candidate=candidate, failed_over_recently=failed_over_recently
        )
        self._recent.append((*candidate, *baseline))
        if self._watch.candidate.score == 0:
            self._recent.clear()  # what is told of it begins where it begins to fail
        if self._pulse is Pulse.CANDIDATE_SICK and "breaker" not in self._stops:
            seen = self._breaker_counts()
            self._stop("breaker", MetricId.ERROR, breaker_sentence(seen), breaker=seen)

    def verdict(self, *, now: float, beside: Sequence[Gap] = (), foresee: bool = True) -> Verdict:
        """What follows from all that was booked, at ``now`` seconds.

        beside: what else forbids to pass. foresee: a hold says when it should end, which is a third of the work.
        """
        step = self._present_step()
        for rule in _RULES:
            if (stop := self._stops.get(rule)) is not None:
                return self._say(VerdictName.ROLL_BACK, rule, stop.text, stop.metric, rule=rule, stop=stop)
        if self._pulse is Pulse.BOTH_SICK:
            text = f"Both arms fail, moving traffic would help nobody. {breaker_sentence(self._breaker_counts())}"
            return self._say(VerdictName.HOLD, "shared_outage", text, MetricId.ERROR)
        gaps = [
            *self._suspicions(),
            *self._keys.gaps(),
            *beside,
            *step.gaps(now=now, next_window=self._against.next_window),
        ]
        gaps.sort(key=lambda gap: _REASONS.index(gap.reason))
        if not gaps:
            return self._say(VerdictName.ADVANCE, "proven", self._proven_text(step, now), None)
        missing = tuple(gap.text for gap in gaps)
        text = self._lacking_text(gaps[0])
        age, longest = now - step.terms.started, step.terms.longest_age_s(self._plan)
        if age > longest:
            text = f"Not settled after {age:.0f} s (limit {longest:g} s); a person decides. {text}"
            return self._say(
                VerdictName.INCONCLUSIVE, "stuck", text, gaps[0].metric, missing=missing, stratum=gaps[0].stratum
            )
        comes = foresee and all(gap.reason in _COMES for gap in gaps)
        to_go_s = step.to_go_s(now=now, next_window=self._against.next_window) if comes else None
        return self._say(
            VerdictName.HOLD,
            gaps[0].reason,
            text,
            gaps[0].metric,
            missing=missing,
            to_go_s=to_go_s,
            stratum=gaps[0].stratum,
        )

    @property
    def next_window(self) -> int:
        """The first window that is not closed yet."""
        return self._against.next_window

    def checkpoint(self) -> dict[str, object]:
        """All that the next verdict depends on, as JSON-able values."""
        return {
            "format": CHECKPOINT_FORMAT,
            "plan": self._fingerprint(),
            "against": self._against.checkpoint(),
            "breaker": self._watch.checkpoint(),
            "pulse": str(self._pulse),
            "recent": [list(second) for second in self._recent],
            "stops": {rule: stop.checkpoint() for rule, stop in self._stops.items()},
            "step": self._step.checkpoint() if self._step else None,
            "shapes": list(self._shapes),
            **({"strata": self._strata.checkpoint()} if self._plan.strata else {}),
            **({"keys": self._keys.checkpoint()} if self._keys.sticky else {}),
            **({"mirror": mirror} if (mirror := self._mirror.checkpoint()) else {}),
        }

    def _present_step(self) -> Step:
        if self._step is None:
            raise ValueError("step: none has been started; call start_step first")
        return self._step

    def _check_recompiles(self, step: Step) -> None:
        if "recompile" in self._stops or (found := step.too_many_compiles()) is None:
            return
        met, answered = found
        seen = CompileCounts(met=met, allowed=self._plan.recompile_limit, answered=answered, shapes=self._shapes)
        self._stop("recompile", "recompile", recompile_sentence(seen), compiles=seen)

    def _check_evidence(self, step: Step) -> None:
        metric = self._against.convicts()
        if metric is not None and "evidence" not in self._stops:
            stratum = self._strata.name(self._against.lead()[0])
            row = self._row(metric, stratum)
            assert row is not None, "every metric of the plan has a row in every class"
            text = evidence_sentence(row, self._against.total(), stratum, gate=step.gate_on(metric))
            self._stop("evidence", metric, text, stratum=stratum)

    def _row(self, metric: MetricId | None, stratum: str | None) -> MetricRow | None:
        rows = self._present_step().rows(self._against.contributions())
        return find_row(rows, self._strata.findings(self._against) if stratum else (), metric, stratum)

    def _stop(
        self,
        rule: Rule,
        metric: Blamed,
        text: str,
        *,
        breaker: BreakerCounts | None = None,
        compiles: CompileCounts | None = None,
        stratum: str | None = None,
    ) -> None:
        self._stops[rule] = Stop(
            metric=metric,
            text=text,
            evidence=self._against.total(),
            rows=self._step.rows(self._against.contributions()) if self._step else (),
            breaker=breaker,
            compiles=compiles,
            strata=self._strata.findings(self._against),
            stratum=stratum,
        )

    def _suspicions(self) -> list[Gap]:
        """What speaks against more traffic without being enough for a rollback."""
        rule, gaps = self._plan.rule, []
        evidence = self._against.total_if_closed()
        if evidence >= rule.warn:
            text = f"evidence against the candidate: {evidence:.3g}, must be below {rule.warn:g}"
            stratum, metric = self._against.lead()
            gaps.append(Gap(reason="suspect", text=text, metric=metric, stratum=self._strata.name(stratum)))
        gaps += self._strata.suspicions(self._against)
        for name, breaker, reason in (
            ("candidate", self._watch.candidate, "breaker_rising"),
            ("baseline", self._watch.baseline, "baseline_out_of_slo"),
        ):
            if breaker.is_sick:
                text = f"{name} breaker score: {breaker.score:g}, must be below {breaker.threshold:g}"
                gaps.append(Gap(reason=reason, text=text, metric=MetricId.ERROR))
        return gaps

    def _say(
        self,
        name: VerdictName,
        reason: str,
        text: str,
        metric: Blamed | None,
        *,
        rule: Rule | None = None,
        stop: Stop | None = None,
        missing: tuple[str, ...] = (),
        to_go_s: float | None = None,
        stratum: str | None = None,
    ) -> Verdict:
        step = self._present_step()
        rows = (stop.rows if stop else ()) or step.rows(self._against.contributions())
        strata = (stop.strata if stop else ()) or self._strata.findings(self._against)
        return Verdict(
            name=name,
            reason=reason,
            text=text,
            metric=metric,
            rule=rule,
            evidence=stop.evidence if stop else self._against.total(),
            bar=1.0 / self._plan.rule.alpha_rollback,
            rows=rows,
            missing=missing,
            notes=(
                *step.notes(),
                *self._keys.notes(),
                *self._mirror.notes(self._plan.metrics),
                *self._strata.notes(rows, strata),
            ),
            to_go_s=to_go_s,
            breaker=stop.breaker if stop else self._breaker_counts(),
            compiles=stop.compiles if stop else None,
            strata=strata,
            stratum=stop.stratum if stop else stratum,
        )

    def _lacking_text(self, gap: Gap) -> str:
        row = self._row(gap.metric, gap.stratum)
        return f"{gap.text}." if row is None else f"{gap.text}. {metric_sentence(row, gap.stratum)}."

    def _proven_text(self, step: Step, now: float) -> str:
        rows = [row for row in step.rows(self._against.contributions()) if step.is_required(row.metric)]
        weakest = min(rows, key=lambda row: row.proof or 0.0)
        terms = step.terms
        onward = (
            f"ready for {terms.next_weight_bp / 100:g} %" if terms.next_weight_bp > terms.weight_bp else "ready to bake"
        )
        done = "the bake passes" if terms.baking else onward
        where = f"{terms.weight_bp / 100:g} % after {now - terms.started:.0f} s"
        return (
            f"All {len(rows)} required metrics pass at {where}: {done}. Nearest to its bar is"
            f" {metric_sentence(weakest)}; proof {weakest.proof or 0.0:.2f}, needed {weakest.proof_bar:.2f}."
            f" Evidence against the candidate {self._against.total():.3g}, below {self._plan.rule.warn:g}."
        )

    def _breaker_counts(self) -> BreakerCounts:
        sums = [sum(column) for column in zip(*self._recent, strict=True)] or [0, 0, 0, 0]
        return BreakerCounts(
            candidate=(sums[0], sums[1]),
            baseline=(sums[2], sums[3]),
            seconds=len(self._recent),
            scores=(self._watch.baseline.score, self._watch.candidate.score),
            bar=self._plan.rule.breaker_threshold,
        )

    def _fingerprint(self) -> dict[str, object]:
        """The parts of the plan that give the saved numbers their meaning."""
        allowed = {str(limit.metric): limit.allowed for limit in self._plan.metrics}
        strata = {"strata": list(self._plan.strata)} if self._plan.strata else {}
        gate = {"relative": self._plan.rule.relative} if self._plan.rule.relative is not None else {}
        base = {"rollout": self._plan.rollout, "window_s": self._plan.rule.window_s, "allowed": allowed}
        return {**base, **strata, **gate}

    def _restore(self, saved: Mapping[str, Any]) -> None:
        if saved.get("format") != CHECKPOINT_FORMAT:
            raise ValueError(f"checkpoint.format: {saved.get('format')} is not known; allowed: {CHECKPOINT_FORMAT}")
        if saved.get("plan") != self._fingerprint():
            raise ValueError(f"checkpoint.plan: {saved.get('plan')} is of another plan; this is {self._fingerprint()}")
        try:
            self._against.restore(saved["against"])
            self._watch.restore(saved["breaker"])
            self._pulse = Pulse(saved["pulse"])
            for n_c, k_c, n_b, k_b in saved["recent"]:
                self._recent.append((int(n_c), int(k_c), int(n_b), int(k_b)))
            self._stops = {rule: read_stop(saved["stops"][rule]) for rule in _RULES if rule in saved["stops"]}
            self._step = resume_step(self._plan, saved["step"]) if saved["step"] is not None else None
            self._strata.restore(saved.get("strata", ()))
            self._keys.restore(saved.get("keys"))
            self._mirror.restore(saved.get("mirror", {}))
            self._shapes = tuple(str(shape) for shape in saved.get("shapes", ()))  # not in older checkpoints
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"checkpoint: {type(error).__name__} {error}; must be what checkpoint() gave") from error
