"""What must hold for the judge whatever the traffic: symmetry, one-sided faults, monotony, conservation."""

import math
from typing import Any

import pytest
from decision_cases import Cells, limits, started, vector_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.plan import MetricId, Plan, PlanError
from gateway.core.promotion import log_evidence
from gateway.core.sequential import Cell
from gateway.core.verdict import Judge, Verdict, VerdictName

ERROR_ALONE: dict[str, Any] = {
    "metrics": limits((MetricId.ERROR, 0.003)),
    "parity": None,
    "copies": 0,
    "steps": (1000, 5000, 10000),
}
EAGER: dict[str, Any] = {"min_events": 1, "min_windows": 1, "min_step_s": 1.0}


def play(judge: Judge, windows: list[Cells]) -> list[Verdict]:
    verdicts = []
    for window, cells in enumerate(windows):
        judge.close_window(window, cells, compiles=0, answered=cells[MetricId.ERROR].n_c)
        verdicts.append(judge.verdict(now=(window + 1) * 10.0))
    return verdicts


def names(verdicts: list[Verdict]) -> set[VerdictName]:
    return {verdict.name for verdict in verdicts}


@st.composite
def windows_of(draw: st.DrawFn, *, least_bad: float, most_bad: float) -> list[tuple[int, int]]:
    """Windows of one arm: events, and bad ones within a share of them (rounded towards the inside of the range)."""
    found = []
    for n in draw(st.lists(st.integers(20, 400), min_size=4, max_size=40)):
        low, high = math.ceil(least_bad * n), max(math.ceil(least_bad * n), math.floor(most_bad * n))
        found.append((n, draw(st.integers(low, high))))
    return found


equal_arms = st.lists(
    st.integers(0, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), min_size=1, max_size=40
)


@settings(max_examples=60)
@given(equal_arms)
def test_equal_arms_never_convict_and_do_not_care_who_is_who(windows: list[tuple[int, int]]) -> None:
    """Where both arms fail alike, nobody is rolled back by evidence, and swapping their counts changes nothing."""
    rows = [{MetricId.ERROR: Cell(n, k, n, k)} for n, k in windows]
    swapped = [{MetricId.ERROR: Cell(c.n_b, c.k_b, c.n_c, c.k_c)} for row in rows for c in row.values()]
    one = play(started(vector_plan(**ERROR_ALONE, **EAGER)), rows)
    other = play(started(vector_plan(**ERROR_ALONE, **EAGER)), swapped)
    assert one == other
    assert VerdictName.ROLL_BACK not in names(one)


@settings(max_examples=60)
@given(windows_of(least_bad=0.02, most_bad=1.0), windows_of(least_bad=0.0, most_bad=0.0), st.data())
def test_bad_on_the_candidate_alone_never_promotes_and_swapped_never_rolls_back(
    bad: list[tuple[int, int]], good: list[tuple[int, int]], data: st.DataObject
) -> None:
    """2 % and more errors on one arm, none on the other: no promotion of the bad one, no rollback of the good one."""
    pairs = list(zip(bad, good, strict=False))
    rows = [{MetricId.ERROR: Cell(nb, kb, ng, kg)} for (nb, kb), (ng, kg) in pairs]
    assert VerdictName.ADVANCE not in names(play(started(vector_plan(**ERROR_ALONE, **EAGER)), rows))
    swapped = [{MetricId.ERROR: Cell(c.n_b, c.k_b, c.n_c, c.k_c)} for row in rows for c in row.values()]
    assert VerdictName.ROLL_BACK not in names(play(started(vector_plan(**ERROR_ALONE, **EAGER)), swapped))


@settings(max_examples=200)
@given(
    st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    st.floats(0.001, 0.9),
    st.floats(1.0, 50.0),
)
def test_more_bad_events_never_raise_the_proof(counts: tuple[int, int], limit: float, design_effect: float) -> None:
    """At a fixed design effect one more bad event among as many never speaks for the candidate."""
    n, k = counts
    assert log_evidence(n, k + 1, limit, design_effect) <= log_evidence(n, k, limit, design_effect) + 1e-9


@settings(max_examples=60)
@given(equal_arms, equal_arms)
def test_no_event_is_lost_or_invented(candidate: list[tuple[int, int]], baseline: list[tuple[int, int]]) -> None:
    """What went into the windows of a step is what the verdict's table shows."""
    rows = [{MetricId.ERROR: Cell(*c, *b)} for c, b in zip(candidate, baseline, strict=False)]
    judge = started(vector_plan(**ERROR_ALONE))
    (row,) = play(judge, rows)[-1].rows
    sums = [
        sum(column) for column in zip(*((c.n_c, c.k_c, c.n_b, c.k_b) for r in rows for c in r.values()), strict=True)
    ]
    stopped = any(verdict.name is VerdictName.ROLL_BACK for verdict in play(started(vector_plan(**ERROR_ALONE)), rows))
    assert stopped or [row.n_c, row.k_c, row.n_b, row.k_b] == sums


@pytest.mark.parametrize(
    "changes",
    [
        {"metrics": ()},
        {"metrics": limits((MetricId.PARITY, 0.005))},
        {"metrics": limits((MetricId.REFUSED, 0.001)), "parity": None},
        {"metrics": limits((MetricId.PARITY, 0.005), (MetricId.ERROR, 0.003)), "parity": None},
    ],
)
def test_a_plan_without_an_effective_check_is_refused(changes: dict[str, Any]) -> None:
    """A plan that would check nothing, or only what has no policy, cannot be built."""
    with pytest.raises(PlanError):
        vector_plan(**changes)


def test_the_smallest_plan_is_one_check() -> None:
    """Errors alone are a check."""
    assert isinstance(vector_plan(**ERROR_ALONE), Plan)
