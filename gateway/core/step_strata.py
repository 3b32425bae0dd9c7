"""What one step has shown in each class of requests: to be read beside the whole, and never required for a pass.

A class with few requests would hold every step back. What a class can do is convict (stratified.py), hold a step while
the evidence against the candidate in it stands at the warning, and disagree with the whole, which is said.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gateway.core.findings import Gap, MetricRow, StratumFinding, percent, share_of
from gateway.core.plan import MetricId, Plan
from gateway.core.sequential import EvidenceAgainst
from gateway.core.step import Step, StepTerms, resume_step
from gateway.core.strata import in_requests, names_of
from gateway.core.stratified import Strata


class StepStrata:
    """The counts of the present step by class. Without strata there is nothing in here and nothing comes of it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.names = names_of(plan.strata)
        self._steps: tuple[Step, ...] = ()

    def name(self, stratum: int | None) -> str | None:
        """What people call a class; None for all requests together."""
        return None if stratum is None else self.names[stratum]

    def start(self, terms: StepTerms) -> None:
        """A step begins: its counts start over."""
        self._steps = tuple(Step(plan=self._plan, terms=terms) for _ in self.names)

    def close(
        self, first_open: int, window: int, strata: Strata, held_to: Sequence[Mapping[MetricId, float | None]]
    ) -> None:
        """Books a window of this step; those from ``first_open`` up to it were empty."""
        if not self._steps:
            return
        for step, cells, held in zip(self._steps, strata or ({},) * len(self._steps), held_to, strict=True):
            step.cross_gap(first_open, window)
            step.close(window, cells, held)

    def findings(self, against: EvidenceAgainst) -> tuple[StratumFinding, ...]:
        """Each class with its table."""
        return tuple(
            StratumFinding(
                name=self.names[i], evidence=against.strata[i].total(), rows=step.rows(against.contributions_in(i))
            )
            for i, step in enumerate(self._steps)
        )

    def suspicions(self, against: EvidenceAgainst) -> list[Gap]:
        """Where the evidence against the candidate forbids more traffic: in a class by itself, or over all requests.

        Undiluted, and as if the open wide windows ended here: that the bar of a rollback is shared eases no pass.
        """
        if not self.names:
            return []
        together = against.contributions()
        found: list[tuple[str | None, float, MetricId]] = [
            (None, against.together_if_closed(), max(together, key=lambda metric: together[metric])),
            *(
                (name, stratum.total_if_closed(), stratum.leading())
                for name, stratum in zip(self.names, against.strata, strict=True)
            ),
        ]
        warn, gaps = self._plan.rule.warn, []
        for name, evidence, metric in found:
            if evidence >= warn:
                where = in_requests(name) or " over all requests"
                text = f"evidence against the candidate{where} alone: {evidence:.3g}, must be below {warn:g}"
                gaps.append(Gap(reason="suspect", text=text, metric=metric, stratum=name))
        return gaps

    def notes(self, rows: Sequence[MetricRow], findings: Sequence[StratumFinding]) -> list[str]:
        """Where a class and the whole stand on different sides of a limit."""
        return [note for row in rows for note in self._disagreement(row, findings)]

    def _disagreement(self, whole: MetricRow, findings: Sequence[StratumFinding]) -> Iterable[str]:
        """Few events say little either way, so a class below ``control_min`` of them is not spoken of."""
        if not whole.n_c:
            return
        beyond = whole.k_c > whole.allowed * whole.n_c
        others = []
        for finding in findings:
            row = next(row for row in finding.rows if row.metric is whole.metric)
            if row.n_c >= self._plan.rule.control_min and (row.k_c > row.allowed * row.n_c) is not beyond:
                others.append(f"{share_of(row.k_c, row.n_c)}{in_requests(finding.name)}")
        if others:
            here, there = ("beyond", "within") if beyond else ("within", "beyond")
            yield (
                f"{whole.metric}: {here} the limit of {percent(whole.allowed)} over all requests"
                f" ({share_of(whole.k_c, whole.n_c)} bad), {there} it in some: {'; '.join(others)}"
            )

    def checkpoint(self) -> list[dict[str, object]]:
        return [step.checkpoint() for step in self._steps]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """ValueError when they are not of as many classes."""
        if len(saved) not in (0, len(self.names)):
            raise ValueError(f"strata: {len(saved)} classes, this plan makes {len(self.names)}")
        self._steps = tuple(resume_step(self._plan, step) for step in saved)
