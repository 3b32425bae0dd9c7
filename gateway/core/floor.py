"""The baseline against itself in a run's first step: does the plan's tolerance lie above the baseline's own noise?

A few of the baseline's requests are copied to the baseline itself and compared under the frozen tolerance, until there
are as many pairs as the plan wants. They are no evidence: no metric has them, and a step does not wait for them. All
they can do is hold: when more of them disagree than a share of what the plan lets differ explains (in 1 case of 20, by
the binomial distribution). Then no pair can tell a fault of the candidate from the baseline's noise. The number that
holds follows from the number of pairs wanted, so it does not matter when one looks, and strong noise holds early. A
tolerance is never loosened within a run; what there is to do is a new run with another one. Rollback rules stay as
they are.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.compare.noise import CONFIDENCE, NoiseFloor, embedding_problems, judge, least_telling, upper_bound
from gateway.core.compare.parity import ParityStats
from gateway.core.compare.result import PairKind, PairResult
from gateway.core.findings import Gap, percent, share_of
from gateway.core.plan import MetricId, Plan

SHARE: Final = 500
"""Basis points of the baseline's requests that are copied to it while its noise is measured."""
MOST_PROBLEMS: Final = 3


class Floor:
    """Pairs of the baseline with itself under ``plan``, which wants at least one."""

    def __init__(self, plan: Plan, stats: ParityStats | None = None) -> None:
        limit = plan.limit(MetricId.PARITY)
        assert limit is not None, "a plan that wants pairs of the baseline with itself judges parity"
        self._plan = plan
        self._allowed = limit.allowed
        self.wanted = plan.noise_pairs
        self._least = least_telling(self.wanted, limit.allowed)
        self.stats = stats if stats is not None else ParityStats()
        self._window = 0
        self._bodies: set[bytes] = set()
        self._problems: tuple[int, tuple[str, ...]] = (0, ())

    @property
    def copies(self) -> int:
        """Share of the baseline's requests to be copied to it now, basis points."""
        return SHARE if self._is_open else 0

    @property
    def in_noise(self) -> bool:
        """The tolerance lies within what the baseline does to itself."""
        return self.stats.bad >= self._least

    def wants(self, window: int, body: bytes) -> bool:
        """Whether the pair of the request with this hash is still to be compared; once for one body and window."""
        if not self._is_open:
            return False
        if window != self._window:
            self._window, self._bodies = window, set()
        if body in self._bodies:
            return False
        self._bodies.add(body)
        return True

    def add(self, request_id: str, result: PairResult) -> None:
        """Counts a compared pair; those beyond the wanted number, which were under way, are not counted."""
        if self._is_open:
            self.stats.add(request_id, result)

    def gaps(self) -> list[Gap]:
        """The hold, with what lies in the noise."""
        if not self.in_noise:
            return []
        problems = self._found_problems()
        more = f"; and {len(problems) - MOST_PROBLEMS} more" if len(problems) > MOST_PROBLEMS else ""
        where = "; ".join(problems[:MOST_PROBLEMS]) or f"no bound covers it ({self._kinds()})"
        text = (
            f"noise floor: {self._seen()}, {percent(self._allowed)} may differ; {where}{more}."
            " Start a new run with a tolerance above that, or make the baseline repeatable: within a run none is"
            " loosened"
        )
        return [Gap(reason="noise_floor", text=text, metric=MetricId.PARITY)]

    @property
    def sentence(self) -> str:
        """What is known, for people."""
        stats, wanted = self.stats, self.wanted
        if not stats.pairs:
            return f"noise floor: no pair of the baseline with itself yet, {wanted:,} are wanted"
        if self.in_noise:
            return (
                f"noise floor: {self._seen()}, {percent(self._allowed)} may differ: what differs between the arms may"
                " be the baseline's own noise"
            )
        above = percent(upper_bound(stats.bad, stats.pairs))
        known = f"{self._seen()} (at most {above} of all, {CONFIDENCE:.0%} confidence), {percent(self._allowed)} may"
        return f"noise floor: {known}{f'; too few, {wanted:,} are wanted' if self._is_open else ''}"

    @property
    def _is_open(self) -> bool:
        return self.stats.pairs < self.wanted

    def _seen(self) -> str:
        return f"the baseline disagrees with itself in {share_of(self.stats.bad, self.stats.pairs)} pairs"

    def _kinds(self) -> str:
        return ", ".join(f"{n:,} {kind}" for kind, n in sorted(self.stats.kinds.items()) if n and kind != PairKind.OK)

    def _found_problems(self) -> tuple[str, ...]:
        """The bounds that lie in the noise; looked for once for each further pair."""
        if self._problems[0] != self.stats.pairs:
            policy, parity = self._plan.policy, self._plan.parity
            if policy is not None:
                found = judge(policy, NoiseFloor(policy, self.stats), self._allowed).problems
            else:
                assert parity is not None, "a plan that judges parity says when answers are equal"
                found = embedding_problems(parity, self.stats)
            self._problems = self.stats.pairs, found
        return self._problems[1]

    def checkpoint(self) -> dict[str, object]:
        """JSON-able; ``floor_of`` takes it."""
        return self.stats.checkpoint()


def floor_of(plan: Plan, saved: Mapping[str, Any] | None) -> Floor | None:
    """The floor of a run, going on where ``saved`` was taken; None where the plan wants none.

    KeyError, TypeError or ValueError when ``saved`` is no checkpoint of one.
    """
    if not plan.noise_pairs:
        return None
    return Floor(plan, ParityStats.restore(saved) if saved is not None else None)
