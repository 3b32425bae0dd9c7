"""Evidence against the candidate: the vectors of the reference, and what must hold for any counts."""

import json
from dataclasses import replace
from typing import Any

import pytest
from decision_cases import HEALTHY, VECTOR_LIMITS, VECTORS, Cells, one_arm, script_windows, vector_plan
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.plan import METRIC_WEIGHT, STREAM, MetricId, RuleParameters
from gateway.core.sequential import (
    CAUTIOUS,
    COMPONENTS,
    EMPTY,
    WEALTH_CAP,
    Cell,
    Component,
    EvidenceAgainst,
    Trail,
    factor,
    padded,
    reference_rate,
)

RULE = RuleParameters()


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=0.0)


def name_of(vector: dict[str, Any]) -> str:
    return str(vector["name"])


def test_defaults_are_those_of_the_vectors() -> None:
    """Parameters, weights and components are the ones the vectors were made with."""
    given_, unit = VECTORS["defaults"], VECTORS["defaults"]["bucket"]
    assert RULE.window_s == unit
    assert (RULE.rho, RULE.rho_cap, RULE.kappa, RULE.sign_probability) == tuple(
        given_[k] for k in ("rho", "rho_cap", "kappa", "q0")
    )
    assert (RULE.trail_windows * unit, RULE.trail_max_windows * unit) == (given_["trail"], given_["trail_max"])
    assert (RULE.wide_windows * unit, RULE.promote_every_windows * unit) == (given_["restart"], given_["promote_every"])
    assert (RULE.control_wanted, RULE.control_min, RULE.control_window_bad, RULE.min_bad_windows) == tuple(
        given_[k] for k in ("ctl_want", "ctl_min", "ctl_bucket_k", "kmin")
    )
    assert {str(m): METRIC_WEIGHT[m] for m in MetricId if m not in (MetricId.REFUSED, *STREAM)} == {
        m["id"]: m["weight"] for m in VECTORS["metrics"]
    }
    expected = [
        Component(sign=c["kind"] == "sign", wide=c["width_s"] == 60, stake=c["stake"], share=c["weight"])
        for c in VECTORS["components"]
    ]
    assert list(COMPONENTS) == expected


@pytest.mark.parametrize("vector", VECTORS["padded"])
def test_padding(vector: dict[str, float]) -> None:
    """The tolerated ratio to the baseline is a tenth of its rate, at most half a percent."""
    assert padded(vector["rate"], RULE) == near(vector["out"])


@pytest.mark.parametrize("vector", VECTORS["reference_rate"])
def test_reference_rate(vector: dict[str, Any]) -> None:
    """The candidate is held to the limit or the baseline's present rate, whichever is higher."""
    out = reference_rate(vector["p0"], tuple(vector["bucket"]), tuple(vector["trail"]), RULE)
    assert out == (None if vector["out"] is None else near(vector["out"]))


@pytest.mark.parametrize(("events", "held_to"), [(19, None), (20, 0.01)])
def test_a_control_needs_twenty_events(events: int, held_to: float | None) -> None:
    """With fewer trailing baseline events nobody can say what the present conditions are."""
    assert reference_rate(0.01, (5, 0), (events, 0), RULE) == held_to


@pytest.mark.parametrize("vector", VECTORS["factor"])
def test_factor_of_one_window(vector: dict[str, Any]) -> None:
    """One window multiplies a bet's wealth by what the reference says."""
    component = Component(sign=vector["kind"] == "sign", wide=False, stake=vector["stake"], share=1.0)
    out = factor(component, vector["n"], vector["k"], vector["m"], vector["p0"], RULE)
    assert out == near(vector["out"])


@pytest.mark.parametrize("script", VECTORS["scripts"], ids=name_of)
def test_scripts(script: dict[str, Any]) -> None:
    """E in total and per metric, and the first conviction with its metric, are those of the reference."""
    against = EvidenceAgainst(vector_plan(), first_window=0)
    expected = {point["bucket"]: point for point in script["E_at"]}
    convicted = None
    for number, cells in enumerate(script_windows(script), start=1):
        against.close(number - 1, cells)
        if number in expected:
            point = expected.pop(number)
            assert against.total() == near(point["E"])
            assert {str(m): e for m, e in against.per_metric().items()} == {
                m: near(e) for m, e in point["per_metric"].items()
            }
        if convicted is None and (metric := against.convicts()) is not None:
            convicted = {"bucket": number, "metric": str(metric)}
    assert not expected
    assert convicted == script["first_rollback"]


def test_replicas_add_up() -> None:
    """Cells of several replicas add to the cell of all, in any order."""
    parts = [Cell(*replica["lat_p99"]) for replica in VECTORS["merge"]["replicas"]]
    merged = Cell(*VECTORS["merge"]["merged"]["lat_p99"])
    assert sum(parts, EMPTY) == sum(reversed(parts), EMPTY) == merged


@pytest.mark.parametrize("counts", [(1, 2, 0, 0), (0, 0, 3, 4), (-1, -1, 0, 0), (5, -1, 5, 0)])
def test_a_cell_with_impossible_counts_cannot_be_built(counts: tuple[int, int, int, int]) -> None:
    """Bad events lie between none and all events."""
    with pytest.raises(ValueError, match="bad events must lie between 0 and the events"):
        Cell(*counts)


def test_before_the_first_window_the_evidence_is_one() -> None:
    """Nothing seen is evidence of nothing: E starts at 1, its mean under the null."""
    assert EvidenceAgainst(vector_plan(), first_window=0).total() == near(1.0)


def test_the_trail_stretches_until_it_holds_enough() -> None:
    """Thirty seconds of a busy baseline, or up to five minutes of a quiet one."""
    busy, quiet = Trail(RULE), Trail(RULE)
    for window in range(40):
        busy.add(100, window)
        quiet.add(4, 1)
    assert busy.total() == (300, 37 + 38 + 39)
    assert quiet.total() == (60, 15)
    for _ in range(28):
        quiet.add(0, 0)
    assert quiet.total() == (8, 2)


def test_two_bad_windows_do_not_convict_whatever_the_evidence() -> None:
    """With one request a window two slow ones reach the bar; it takes bad events in three different windows."""
    against = EvidenceAgainst(vector_plan(), first_window=0)
    quiet, slow = {MetricId.LAT_P99: Cell(1, 0, 90, 0)}, {MetricId.LAT_P99: Cell(1, 1, 90, 0)}
    against.close(0, quiet)
    against.close(1, slow)
    against.close(2, slow)
    assert against.total() > 20.0
    assert against.convicts() is None
    against.close(3, slow)
    assert against.convicts() is MetricId.LAT_P99


def test_without_control_a_shared_incident_convicts_and_with_it_does_not() -> None:
    """The concurrent baseline is what tells a shared incident from the candidate's own."""
    incident = HEALTHY | {MetricId.LAT_P99: Cell(50, 15, 450, 135)}
    found = {}
    for control in (True, False):
        against = EvidenceAgainst(vector_plan(), first_window=0)
        against.set_control(control)
        for window in range(12):
            against.close(window, incident)
        found[control] = against.convicts()
    assert found == {True: None, False: MetricId.LAT_P99}


def test_wealth_stays_finite() -> None:
    """A candidate that fails forever ends at the cap, not at infinity."""
    plan = vector_plan()
    against = EvidenceAgainst(plan, first_window=0)
    broken = HEALTHY | {MetricId.ERROR: Cell(50, 50, 450, 0)}
    for window in range(600):
        against.close(window, broken)
    assert max(against.metrics[MetricId.ERROR].wealth) == WEALTH_CAP
    assert against.convicts() is MetricId.ERROR


def test_a_closed_window_is_not_booked_twice() -> None:
    """Windows come in order, each once."""
    against = EvidenceAgainst(vector_plan(), first_window=0)
    against.close(4, HEALTHY)
    with pytest.raises(ValueError, match="window: 4 is closed; the next is 5"):
        against.close(4, HEALTHY)


def test_weights_are_shared_out_over_the_metrics_of_the_plan() -> None:
    """A plan with fewer metrics still spends all of its alpha."""
    plan = vector_plan(metrics=VECTOR_LIMITS[1:4])
    weight = EvidenceAgainst(plan, first_window=0).weight
    assert weight == {
        MetricId.LAT_P95: near(0.15 / 0.75),
        MetricId.LAT_P99: near(0.30 / 0.75),
        MetricId.ERROR: near(0.30 / 0.75),
    }


counts = st.integers(min_value=0, max_value=60)


@st.composite
def cells(draw: st.DrawFn) -> Cell:
    n_c, n_b = draw(counts), draw(counts)
    return Cell(n_c, draw(st.integers(0, n_c)), n_b, draw(st.integers(0, n_b)))


windows = st.lists(
    st.fixed_dictionaries({m: cells() for m in (MetricId.LAT_P99, MetricId.ERROR, MetricId.PARITY)}),
    min_size=1,
    max_size=20,
)


def run(script: list[Cells], *, first: int = 0, **plan: Any) -> EvidenceAgainst:
    against = EvidenceAgainst(vector_plan(**plan), first_window=first)
    for window, row in enumerate(script, start=first):
        against.close(window, row)
    return against


@settings(max_examples=60)
@given(windows, st.data())
def test_more_bad_candidate_events_never_lower_the_evidence(script: list[Cells], data: st.DataObject) -> None:
    """Turning one good candidate event into a bad one never helps the candidate."""
    at = data.draw(st.integers(0, len(script) - 1))
    metric = data.draw(st.sampled_from(sorted(script[at])))
    cell = script[at][metric]
    if cell.k_c == cell.n_c:
        cell = replace(cell, n_c=cell.n_c + 1)
        script[at] = script[at] | {metric: cell}
    worse = list(script)
    worse[at] = script[at] | {metric: replace(cell, k_c=cell.k_c + 1)}
    assert run(worse).total() >= run(script).total()


@settings(max_examples=60)
@given(windows)
def test_baseline_trouble_never_raises_the_evidence(script: list[Cells]) -> None:
    """The worse the baseline fares, the less the candidate is blamed."""
    worse = [{m: replace(c, k_b=c.n_b) for m, c in row.items()} for row in script]
    assert run(worse).total() <= run(script).total() * (1 + 1e-12)


@settings(max_examples=40)
@given(windows)
def test_scaling_all_durations_changes_nothing(script: list[Cells]) -> None:
    """The rule knows windows, not seconds: with everything ten times faster it says the same."""
    slow = run(script)
    fast = run(
        script,
        horizon_s=360.0,
        rule=RuleParameters(window_s=1.0),
        min_step_s=30.0,
        max_step_s=360.0,
        bake_s=360.0,
    )
    assert fast.per_metric() == slow.per_metric()


@settings(max_examples=40)
@given(windows, st.integers(min_value=0, max_value=200), windows, st.integers(min_value=0, max_value=11))
def test_a_gap_is_a_row_of_empty_windows(before: list[Cells], gap: int, after: list[Cells], first: int) -> None:
    """Leaving windows out and booking them empty come to the same."""
    silent: list[Cells] = [{} for _ in range(gap)]
    spelled = run([*before, *silent, *after], first=first)
    skipped = run(before, first=first)
    for window, row in enumerate(after, start=first + len(before) + gap):
        skipped.close(window, row)
    assert skipped.per_metric() == {m: near(e) for m, e in spelled.per_metric().items()}
    assert skipped.next_window == spelled.next_window


@settings(max_examples=40)
@given(windows, windows)
def test_a_checkpoint_goes_on_where_it_was_taken(before: list[Cells], after: list[Cells]) -> None:
    """Through JSON and back, the evidence after more windows is the same to the last bit."""
    first = run(before)
    second = EvidenceAgainst(vector_plan(), first_window=0)
    second.restore(json.loads(json.dumps(first.checkpoint())))
    for window, row in enumerate(after, start=len(before)):
        first.close(window, row)
        second.close(window, row)
    assert second.per_metric() == first.per_metric()
    assert second.convicts() == first.convicts()


@settings(max_examples=40)
@given(windows)
def test_a_silent_candidate_is_never_convicted(script: list[Cells]) -> None:
    """Without candidate events there is nothing to convict, whatever the baseline does."""
    against = run([one_arm(row, candidate=False) for row in script])
    assert against.total() <= 1.0 + 1e-12
    assert against.convicts() is None


def test_cautious_bets_are_on_wide_windows_alone() -> None:
    """One bad window moves nothing until its minute is over; the shares of the bets sum to 1."""
    assert sum(component.share for component in CAUTIOUS) == 1.0
    assert all(component.wide for component in CAUTIOUS)
    rule = RuleParameters(cautious=True)
    quick, cautious = (EvidenceAgainst(vector_plan(rule=r), first_window=0) for r in (RuleParameters(), rule))
    for window in range(5):
        for evidence in (quick, cautious):
            evidence.close(window, {MetricId.ERROR: Cell(50, 10, 450, 0)})
    assert quick.convicts() is MetricId.ERROR
    assert cautious.convicts() is None
    cautious.close(5, {MetricId.ERROR: Cell(50, 10, 450, 0)})
    before = cautious.total()
    for window in range(6, 18):
        cautious.close(window, {MetricId.ERROR: Cell(50, 10, 450, 0)})
    assert cautious.total() > before
    assert cautious.convicts() is MetricId.ERROR


def test_a_checkpoint_of_other_bets_is_refused() -> None:
    """Wealth of seven bets means nothing to three."""
    saved = EvidenceAgainst(vector_plan(), first_window=0).checkpoint()
    with pytest.raises(ValueError, match="wealth: 7 bets, this plan makes 3"):
        EvidenceAgainst(vector_plan(rule=RuleParameters(cautious=True)), first_window=0).restore(saved)
