"""What must hold for the judge with every option on at once: classes, relative gate, sticky keys, streams, lanes."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from decision_cases import Cells, limits, vector_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.keys import KeyCounts
from gateway.core.plan import HAS_CONTROL, MetricId, MetricLimit, Plan, RuleParameters
from gateway.core.sequential import EMPTY, Cell
from gateway.core.stratified import evidence_against
from gateway.core.types import Role
from gateway.core.verdict import Judge, Verdict, VerdictName

STREAMS = (
    MetricLimit(metric=MetricId.TTFT, allowed=0.05, limit_ms=100.0),
    MetricLimit(metric=MetricId.ITL, allowed=0.05, limit_ms=20.0),
    MetricLimit(metric=MetricId.STREAM_BROKEN, allowed=0.003),
)
METRICS = (
    *limits((MetricId.LAT_P95, 0.05), (MetricId.ERROR, 0.003), (MetricId.REFUSED, 0.001), (MetricId.PARITY, 0.005)),
    *STREAMS,
)
CLASSES = 2
EAGER: dict[str, Any] = {"min_events": 1, "min_windows": 1, "min_step_s": 1.0}

Strata = tuple[Cells, ...]


def everything(**changes: Any) -> Plan:
    fields: dict[str, Any] = {"metrics": METRICS, "strata": (512,), "rule": RuleParameters(relative=1.5)}
    return vector_plan(**(fields | changes))


def together(strata: Strata) -> Cells:
    return {limit.metric: sum((cells.get(limit.metric, EMPTY) for cells in strata), EMPTY) for limit in METRICS}


@st.composite
def cells_of_a_class(draw: st.DrawFn) -> Cells:
    """Counts as they may come: none, few, many; good, bad, all bad."""
    found = {}
    for limit in METRICS:
        arms = []
        for counted in (True, HAS_CONTROL[limit.metric]):
            n = draw(st.sampled_from((0, 1, 7, 40, 300))) if counted else 0
            arms += [n, min(n, draw(st.sampled_from((0, 0, 0, 1, 3, n))))]
        found[limit.metric] = Cell(*arms)
    return found


windows_by_class = st.lists(st.tuples(*(cells_of_a_class() for _ in range(CLASSES))), min_size=1, max_size=30)


def keys_of(window: int, cells: Cells) -> dict[Role, KeyCounts]:
    """Some keys of each arm, that depend on nothing but the window."""
    error, found = cells[MetricId.ERROR], {}
    for role, n in ((Role.CANDIDATE, error.n_c), (Role.BASELINE, error.n_b)):
        counts = found[role] = KeyCounts()
        for request in range(min(n, 90)):
            counts.add(window * 31 + request % 83)
    return found


def told(judge: Judge, window: int, strata: Strata, width_s: float = 10.0) -> Verdict:
    """One window with everything that may be said of it, ten seconds of the breaker, and the verdict after it."""
    cells = together(strata)
    error, late = cells[MetricId.ERROR], cells[MetricId.LAT_P95]
    judge.close_window(
        window,
        cells,
        compiles=0,
        answered=error.n_c,
        excused=error.n_c // 50,
        refused_unchecked=(error.n_c, error.k_c // 9, error.n_b, error.k_b // 9),
        strata=strata,
        keys=keys_of(window, cells),
        lanes={MetricId.LAT_P95: (late.n_c // 2, late.k_c // 2, late.n_c - late.n_c // 2, late.k_c - late.k_c // 2)},
    )
    judge.second(baseline=(error.n_b, error.k_b), candidate=(error.n_c, error.k_c), failed_over_recently=False)
    return judge.verdict(now=(window + 1) * width_s)


def begin(judge: Judge, *, weight: int = 1000, window: int = 0, width_s: float = 10.0, **more: Any) -> None:
    terms: dict[str, Any] = {
        "weight_bp": weight,
        "next_weight_bp": 5000,
        "window": window,
        "now": window * width_s,
        "control": True,
        "baseline_required": True,
        "sticky": True,
        "max_step_s": 9000.0 * width_s / 10.0,
    }
    judge.start_step(**(terms | more))


@settings(max_examples=60)
@given(windows_by_class, st.integers(0, 30), st.integers(0, 30))
def test_a_judge_that_is_taken_up_from_a_checkpoint_says_the_same(windows: list[Strata], cut: int, step: int) -> None:
    """Saved as JSON at any point of any traffic, with a new step somewhere: every verdict after it is the same."""
    plan = everything(**EAGER)
    one = Judge(plan, first_window=0)
    begin(one)
    other = one
    for window, strata in enumerate(windows):
        if window == cut:
            saved = json.loads(json.dumps(one.checkpoint()))
            other = Judge(plan, first_window=0, resume=saved)
            assert json.loads(json.dumps(other.checkpoint())) == saved
        for judge in {id(one): one, id(other): other}.values():
            if window == step:
                begin(judge, weight=5000, window=window)
        said = told(one, window, strata)
        assert other is one or told(other, window, strata) == said
    assert other.checkpoint() == one.checkpoint()


def _places(saved: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to the values in a checkpoint, three deep."""
    inner = saved.items() if isinstance(saved, dict) else enumerate(saved) if isinstance(saved, list) else ()
    if len(path) == 3:
        return [path]
    return [path, *(place for key, value in inner for place in _places(value, (*path, key)))]


def _after_a_bad_minute(plan: Plan) -> dict[str, Any]:
    judge = Judge(plan, first_window=0)
    begin(judge)
    full: Cells = {limit.metric: Cell(40, 10, 40 * HAS_CONTROL[limit.metric], 0) for limit in METRICS}
    for window in range(8):
        told(judge, window, (full, full))
    saved: dict[str, Any] = json.loads(json.dumps(judge.checkpoint()))
    assert saved["stops"]
    return saved


@pytest.mark.parametrize("damage", [None, [], {}, "x", [1], -1, 1e999], ids=repr)
def test_a_damaged_checkpoint_is_refused_by_its_own_error(damage: Any) -> None:
    """Whatever stands in its place: ValueError, or a judge. A restart must not fail on what it has kept."""
    plan = everything()
    saved = _after_a_bad_minute(plan)
    for place in _places(saved):
        if not place:
            continue
        target = saved
        for key in place[:-1]:
            target = target[key]
        kept, target[place[-1]] = target[place[-1]], damage
        try:
            Judge(plan, first_window=0, resume=saved)
        except ValueError:
            pass
        target[place[-1]] = kept


@pytest.mark.parametrize("wealth", [math.nan, math.inf, -1.0])
def test_a_bet_that_has_no_wealth_to_speak_of_is_no_checkpoint(wealth: float) -> None:
    """Evidence that is no number would neither convict nor be suspect."""
    plan = everything()
    saved = _after_a_bad_minute(plan)
    saved["against"]["metrics"]["error"]["wealth"][0] = wealth
    with pytest.raises(ValueError, match="wealth"):
        Judge(plan, first_window=0, resume=saved)


@settings(max_examples=40)
@given(windows_by_class, st.sampled_from((0.1, 3.0, 6.5)))
def test_one_factor_on_every_duration_changes_no_decision(windows: list[Strata], factor: float) -> None:
    """Rule, plan, step and traffic slower or faster by the same: the same names for the same reasons."""
    plan, said = everything(), []
    for times in (1.0, factor):
        scaled = replace(
            plan,
            rule=replace(plan.rule, window_s=plan.rule.window_s * times),
            min_step_s=plan.min_step_s * times,
            max_step_s=plan.max_step_s * times,
            bake_s=plan.bake_s * times,
            horizon_s=plan.horizon_s * times,
        )
        judge = Judge(scaled, first_window=0)
        begin(judge, width_s=10.0 * times)
        verdicts = [told(judge, window, strata, 10.0 * times) for window, strata in enumerate(windows)]
        said.append([(v.name, v.reason, v.metric, v.rule, v.evidence, v.stratum) for v in verdicts])
    assert said[0] == said[1]


def _one_arm(strata: Strata, *, candidate: bool) -> Strata:
    return tuple(
        {m: Cell(c.n_c, c.k_c, 0, 0) if candidate else Cell(0, 0, c.n_b, c.k_b) for m, c in cells.items()}
        for cells in strata
    )


@settings(max_examples=40)
@given(windows_by_class, st.sampled_from(("candidate", "baseline", "nobody")))
def test_evidence_of_one_arm_never_advances(windows: list[Strata], arm: str) -> None:
    """No option makes a pass of windows in which an arm, or everybody, is silent."""
    judge = Judge(everything(**EAGER), first_window=0)
    begin(judge, sticky=False)
    for window, strata in enumerate(windows * 3):
        seen = _one_arm(strata, candidate=arm == "candidate") if arm != "nobody" else ({}, {})
        assert told(judge, window, seen).name is not VerdictName.ADVANCE


def _flip(windows: list[Strata], data: st.DataObject, *, candidate: bool) -> list[Strata] | None:
    """One good event of one arm, of any metric in any class and window, made a bad one; None where there is none."""
    room = [
        (w, i, metric)
        for w, strata in enumerate(windows)
        for i, cells in enumerate(strata)
        for metric, c in cells.items()
        if (c.k_c < c.n_c if candidate else c.k_b < c.n_b)
    ]
    if not room:
        return None
    w, i, metric = data.draw(st.sampled_from(room))
    worse = [[dict(cells) for cells in strata] for strata in windows]
    cell = worse[w][i][metric]
    worse[w][i][metric] = replace(cell, k_c=cell.k_c + 1) if candidate else replace(cell, k_b=cell.k_b + 1)
    return [tuple(strata) for strata in worse]


@settings(max_examples=80)
@given(windows_by_class, st.data(), st.booleans())
def test_bad_events_move_the_evidence_to_their_side(
    windows: list[Strata], data: st.DataObject, candidate: bool
) -> None:
    """With classes and gate one more bad event of the candidate never lowers E, one of the baseline never raises it."""
    worse = _flip(windows, data, candidate=candidate)
    if worse is None:
        return
    totals = []
    for played in (windows, worse):
        against, seen = evidence_against(everything(), first_window=0), []
        for window, strata in enumerate(played):
            against.close(window, together(strata), strata)
            seen.append(against.total_if_closed())
        totals.append(seen)
    for before, after in zip(*totals, strict=True):
        if candidate:
            assert after >= before * (1 - 1e-12)
        else:
            assert after <= before * (1 + 1e-12)


@settings(max_examples=40)
@given(
    st.sampled_from([limit.metric for limit in METRICS]),
    st.lists(st.tuples(st.integers(20, 300), st.integers(0, 1), st.floats(0.2, 1.0)), min_size=4, max_size=40),
)
def test_bad_on_the_candidate_alone_never_promotes_and_swapped_never_rolls_back(
    metric: MetricId, rows: list[tuple[int, int, float]]
) -> None:
    """Every metric by itself, in whichever class its bad events stand: a fifth and more of them is never a pass."""
    for swapped in (False, True):
        judge, names = Judge(everything(**EAGER), first_window=0), set()
        begin(judge, sticky=False)
        for window, (n, stratum, share) in enumerate(rows):
            good = {limit.metric: Cell(n, 0, n * HAS_CONTROL[limit.metric], 0) for limit in METRICS}
            bad, k = dict(good), math.ceil(share * n)
            cell = good[metric]
            bad[metric] = replace(cell, k_b=min(k, cell.n_b)) if swapped else replace(cell, k_c=k)
            strata = (bad, good) if stratum == 0 else (good, bad)
            cells = together(strata)
            judge.close_window(window, cells, compiles=0, answered=2 * n, strata=strata)
            names.add(judge.verdict(now=(window + 1) * 10.0).name)
        assert (VerdictName.ROLL_BACK if swapped else VerdictName.ADVANCE) not in names
