"""What one step has shown so far, and what it still lacks for more traffic.

Everything here starts over with each step, since load effects only show at the new weight; evidence against the
candidate (sequential.py) does not.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.core.findings import Gap, MetricRow, percent, share_of
from gateway.core.forecast import seconds_to_go
from gateway.core.plan import DEFAULT_ALLOWED, EXCUSABLE, HAS_CONTROL, MetricId, Plan
from gateway.core.promotion import MetricProof
from gateway.core.sequential import EMPTY, Cell

Quad = tuple[int, int, int, int]
"""Events and bad events: candidate n, k, baseline n, k."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTerms:
    """The terms of a step. Weights in basis points; ``window`` is its first window, ``started`` its time in seconds.

    max_step_s: seconds that it may last, the bake not counted; None: the plan's.
    """

    weight_bp: int
    next_weight_bp: int
    window: int
    started: float
    control: bool
    baseline_required: bool
    baking: bool
    max_step_s: float | None = None

    def needed_age_s(self, plan: Plan) -> float:
        """Seconds before which the step cannot pass."""
        return max(plan.min_step_s, plan.bake_s) if self.baking else plan.min_step_s

    def longest_age_s(self, plan: Plan) -> float:
        """Seconds after which a step that does not pass is left to a person."""
        most = plan.max_step_s if self.max_step_s is None else self.max_step_s
        return plan.bake_s + most if self.baking else most


@dataclass(slots=True)
class Step:
    """Counts of the present step. Of windows before its first only the answers that met a compile are counted.

    resumes: the step goes on after a pause or a restart, and those windows are its own; else of the step before.
    compiles: answers that met a compile. compiles_before, answered_before: the same, and all answers, before.
    """

    plan: Plan
    terms: StepTerms
    resumes: bool = False
    compiles_before: int = 0
    answered_before: int = 0
    compiles: int = 0
    answered: int = 0
    excused: int = 0
    refused_unchecked: Quad = (0, 0, 0, 0)
    candidate_seen: int | None = None
    """The last window in which the candidate had an event of any metric."""
    baseline_seen: int | None = None
    passed: frozenset[MetricId] = frozenset()
    """The metrics that passed the last test."""
    proofs: dict[MetricId, MetricProof] = field(init=False)

    def __post_init__(self) -> None:
        self.proofs = {limit.metric: MetricProof(limit, self.plan.rule) for limit in self.plan.metrics}

    def close(self, window: int, cells: Mapping[MetricId, Cell], held_to: Mapping[MetricId, float | None]) -> None:
        """Books a window of this step; tests for promotion where a round of windows ends."""
        for metric, proof in self.proofs.items():
            cell = cells.get(metric, EMPTY)
            proof.add(window, cell, held_to[metric])
            if cell.n_c:
                self.candidate_seen = window
            if cell.n_b:
                self.baseline_seen = window
        if (window + 1) % self.plan.rule.promote_every_windows == 0:
            self.test()

    def cross_gap(self, first: int, window: int) -> None:
        """Windows ``first`` up to before ``window`` were empty: catches up with a test that was due in them."""
        every = self.plan.rule.promote_every_windows
        if window // every > max(first, self.terms.window) // every:
            self.test()

    def count(self, *, compiles: int, answered: int, excused: int, refused_unchecked: Quad) -> None:
        """Adds what stands beside the metrics in a window of this step."""
        self.compiles += compiles
        self.answered += answered
        self.excused += excused
        n_c, k_c, n_b, k_b = (a + b for a, b in zip(self.refused_unchecked, refused_unchecked, strict=True))
        self.refused_unchecked = (n_c, k_c, n_b, k_b)

    def count_before(self, *, compiles: int, answered: int) -> None:
        """Adds a window that began before this step did, or before it was resumed."""
        self.compiles_before += compiles
        self.answered_before += answered

    def too_many_compiles(self) -> tuple[int, int | None] | None:
        """(answers that met a compile, all answers or None for the step before) where they exceed the limit.

        A pause or a restart does not begin the allowance anew: what came before it in the same step counts.
        """
        allowed, before = self.plan.recompile_limit, self.compiles_before
        met = self.compiles + (before if self.resumes else 0)
        if met > allowed:
            return met, self.answered + (self.answered_before if self.resumes else 0)
        return (before, None) if before > allowed and not self.resumes else None

    def following(self, terms: StepTerms) -> "Step":
        """The step that begins under ``terms``: this one again where the weight is the same."""
        if terms.weight_bp != self.terms.weight_bp:
            return Step(plan=self.plan, terms=terms, compiles_before=self.compiles, answered_before=self.answered)
        before = (self.compiles_before, self.answered_before) if self.resumes else (0, 0)
        return Step(
            plan=self.plan,
            terms=terms,
            resumes=True,
            compiles_before=self.compiles + before[0],
            answered_before=self.answered + before[1],
        )

    def test(self) -> None:
        """Puts the counts of the step to the promotion test, metric by metric."""
        for metric, proof in self.proofs.items():
            proof.test(self.terms.next_weight_bp, more_bad=self.excused_too_many if metric in EXCUSABLE else 0)
        self.passed = frozenset(m for m, proof in self.proofs.items() if proof.is_proven and self._has_enough(m))

    @property
    def excused_too_many(self) -> int:
        """Answers left out of the latency metrics beyond the share that may be: ordinary slow ones, then."""
        return max(0, self.excused - math.floor(self.plan.excuse_share * self.answered))

    def _has_enough(self, metric: MetricId) -> bool:
        proof = self.proofs[metric]
        return proof.clean_n >= self.plan.min_events and proof.clean_windows >= self.plan.min_windows

    def is_required(self, metric: MetricId) -> bool:
        """The step cannot pass without proof of this metric. A pair needs an answer of the baseline."""
        return self.terms.baseline_required or metric is not MetricId.PARITY

    def rows(self, contributions: Mapping[MetricId, float]) -> tuple[MetricRow, ...]:
        """The table of the verdict."""
        bar = 1.0 / self.plan.rule.alpha_rollback
        return tuple(
            MetricRow(
                metric=metric,
                allowed=proof.limit.allowed,
                limit_ms=proof.limit.limit_ms,
                n_c=proof.step.n_c,
                k_c=proof.step.k_c,
                n_b=proof.step.n_b,
                k_b=proof.step.k_b,
                evidence=contributions[metric],
                bar=bar,
                proof=proof.proof,
                proof_bar=proof.bar,
                passes=metric in self.passed,
                windows=proof.windows,
            )
            for metric, proof in self.proofs.items()
        )

    def gaps(self, *, now: float, next_window: int) -> list[Gap]:
        """What the step's own counts and age still lack. ``next_window`` is the first that is not closed yet."""
        return [
            *self._silence(now=now, next_window=next_window),
            *self._unchecked(),
            *(gap for metric in self.proofs if self.is_required(metric) for gap in self._metric_gaps(metric)),
            *self._youth(now),
        ]

    def to_go_s(self, *, now: float, next_window: int) -> float | None:
        """Seconds until nothing is lacking, if all goes on as it does; None when that cannot be foreseen."""
        return seconds_to_go(
            self.plan,
            [
                (proof, self.excused_too_many if metric in EXCUSABLE else 0)
                for metric, proof in self.proofs.items()
                if self.is_required(metric)
            ],
            next_weight_bp=self.terms.next_weight_bp,
            counted_s=max(0, next_window - self.terms.window) * self.plan.rule.window_s,
            age_s=now - self.terms.started,
            needed_age_s=self.terms.needed_age_s(self.plan),
        )

    def _silence(self, *, now: float, next_window: int) -> list[Gap]:
        rule, terms = self.plan.rule, self.terms
        patience = rule.trail_max_windows
        gaps = []
        due = terms.window + (now - terms.started) / rule.window_s
        if due - next_window > patience:
            behind = (due - next_window) * rule.window_s
            text = f"no window has been closed for {behind:.0f} s; must be within {patience * rule.window_s:g} s"
            gaps.append(Gap(reason="no_data", text=text))
        arms = [("candidate", self.candidate_seen)]
        if terms.baseline_required:
            arms.append(("baseline", self.baseline_seen))
        for arm, seen in arms:
            if seen is None or next_window - seen > patience:
                text = f"{arm}: 0 events counted in the last {patience} windows of this step; needs at least 1"
                gaps.append(Gap(reason="no_data", text=text))
        return gaps

    def _unchecked(self) -> list[Gap]:
        n_c, k_c, n_b, k_b = self.refused_unchecked
        refused = self.plan.limit(MetricId.REFUSED)
        allowed = refused.allowed if refused else DEFAULT_ALLOWED[MetricId.REFUSED]
        if n_c == 0 or k_c / n_c <= (k_b / n_b if n_b else 0.0) + allowed:
            return []
        text = (
            f"refusals that could not be put to the baseline: {share_of(k_c, n_c)}; baseline: {share_of(k_b, n_b)};"
            f" may exceed it by at most {percent(allowed)}"
        )
        return [Gap(reason="refused_unchecked", text=text, metric=MetricId.REFUSED)]

    def _metric_gaps(self, metric: MetricId) -> list[Gap]:
        plan, proof = self.plan, self.proofs[metric]
        clean, unclean = proof.clean_windows, proof.unclean_windows
        spoiled = unclean > 0 and (unclean >= clean or clean + unclean >= plan.min_windows)
        reason = "baseline_out_of_slo" if spoiled else "too_few"
        without = f" ({unclean} more in which the baseline itself was beyond the limit)" if unclean else ""
        if proof.uncontrolled_windows:
            without += f" ({proof.uncontrolled_windows} more in which the baseline had too few events to compare with)"
        gaps = []
        if proof.clean_n < plan.min_events:
            text = f"{metric}: {proof.clean_n} of {plan.min_events} usable candidate events"
            gaps.append(Gap(reason=reason, text=text, metric=metric))
        if clean < plan.min_windows:
            text = f"{metric}: {clean} of {plan.min_windows} windows with candidate events{without}"
            gaps.append(Gap(reason=reason, text=text, metric=metric))
        if not proof.is_proven:
            value = "not tested yet" if proof.proof is None else f"{proof.proof:.2f}"
            text = f"{metric}: proof for the candidate {value}, needs {proof.bar:.2f}"
            gaps.append(Gap(reason="not_proven", text=text, metric=metric))
        if not gaps and metric not in self.passed:
            every = plan.rule.promote_every_windows * plan.rule.window_s
            text = f"{metric}: enough counted since the last test; it is tested every {every:g} s"
            gaps.append(Gap(reason="not_proven", text=text, metric=metric))
        return gaps

    def _youth(self, now: float) -> list[Gap]:
        age, needed = now - self.terms.started, self.terms.needed_age_s(self.plan)
        name = "bake" if self.terms.baking else "step"
        return [Gap(reason="too_young", text=f"{name} age: {age:.0f} of {needed:g} s")] if age < needed else []

    def gate_on(self, metric: MetricId) -> float | None:
        """The relative gate where it holds the candidate in ``metric``; None where it does not."""
        return self.plan.rule.relative if self.terms.control and HAS_CONTROL[metric] else None

    def notes(self) -> list[str]:
        """What a reader of the verdict must know beside the numbers."""
        plan, notes = self.plan, []
        if not self.terms.control:
            notes.append("control off: there is no baseline to compare with, the candidate is held to the limits alone")
        elif plan.rule.relative is not None:
            notes.append(
                f"relative gate: beyond {plan.rule.relative:g} times the baseline's rate counts against the candidate,"
                " within a limit as well"
            )
        if not self.terms.baseline_required:
            notes.append("baseline counts are not required in this step")
            if (parity := self.proofs.get(MetricId.PARITY)) is not None:
                notes.append(
                    f"parity needs no new proof without a baseline ({parity.step.n_c} pairs in this step);"
                    " differing pairs still count against the candidate"
                )
        if self.excused_too_many:
            notes.append(
                f"recompile: {share_of(self.excused, self.answered)} answers met a compile; beyond"
                f" {percent(plan.excuse_share)} they count as slow"
            )
        if plan.compares and plan.tolerance_source != "plan":
            notes.append(f"parity tolerance: {plan.tolerance_source}")
        if plan.preset == "demo":
            notes.append(f"preset {plan.preset}: windows of {plan.rule.window_s:g} s, never for production")
        elif plan.preset != "default":
            notes.append(f"preset {plan.preset}")
        for metric, proof in self.proofs.items():
            if proof.unclean_windows:
                notes.append(f"{metric}: {proof.unclean_windows} windows left out, the baseline was beyond the limit")
            if (effect := proof.design_effect()) >= 1.5:
                notes.append(f"{metric}: bad events come in bursts, the proof is divided by {effect:.2g}")
        return notes

    def checkpoint(self) -> dict[str, object]:
        terms = self.terms
        return {
            "terms": {
                name: value
                for name in StepTerms.__dataclass_fields__
                if (value := getattr(terms, name)) is not None  # no max_step_s where the plan's own holds
            },
            "resumes": self.resumes,
            "compiles_before": self.compiles_before,
            "answered_before": self.answered_before,
            "compiles": self.compiles,
            "answered": self.answered,
            "excused": self.excused,
            "refused_unchecked": list(self.refused_unchecked),
            "candidate_seen": self.candidate_seen,
            "baseline_seen": self.baseline_seen,
            "passed": sorted(self.passed),
            "proofs": {str(metric): proof.checkpoint() for metric, proof in self.proofs.items()},
        }


def resume_step(plan: Plan, saved: Mapping[str, Any]) -> Step:
    """The step of a checkpoint. KeyError, TypeError or ValueError when it is not one."""
    n_c, k_c, n_b, k_b = (int(x) for x in saved["refused_unchecked"])
    step = Step(
        plan=plan,
        terms=StepTerms(**saved["terms"]),
        resumes=bool(saved.get("resumes", False)),  # not in older checkpoints, nor is answered_before
        compiles_before=int(saved["compiles_before"]),
        answered_before=int(saved.get("answered_before", 0)),
        compiles=int(saved["compiles"]),
        answered=int(saved["answered"]),
        excused=int(saved["excused"]),
        refused_unchecked=(n_c, k_c, n_b, k_b),
        candidate_seen=saved["candidate_seen"],
        baseline_seen=saved["baseline_seen"],
        passed=frozenset(MetricId(metric) for metric in saved["passed"]),
    )
    for metric, proof in step.proofs.items():
        proof.restore(saved["proofs"][str(metric)])
    return step
