"""Evidence by class of requests: what is hidden is found, what a mix shift fakes is not, and the promise holds."""

import json
from typing import Any

import pytest
from decision_cases import HEALTHY, VECTORS, Cells, script_windows, vector_plan
from hypothesis import given, settings
from hypothesis import strategies as st
from strata_cases import EDGES, LAT, Arm, Rates, Window, lat_plan, stream, together

from gateway.core.plan import MetricId, RuleParameters
from gateway.core.sequential import Cell, EvidenceAgainst
from gateway.core.stratified import StratifiedEvidence, evidence_against, standardised, too_many

MIX: Rates = (0.6, 0.3, 0.1)
AT_THE_LIMIT: Rates = (0.05, 0.05, 0.05)


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)


def convicted(windows: list[Window], strata: tuple[int, ...] = EDGES) -> tuple[int, int | None] | None:
    """(window, class) of the conviction; None when there is none."""
    against = evidence_against(lat_plan(strata), first_window=0)
    for number, (cells, by_class) in enumerate(windows):
        against.close(number, cells, by_class)
        if against.convicts():
            return number, against.lead()[0]
    return None


@pytest.mark.parametrize("script", VECTORS["scripts"], ids=lambda script: str(script["name"]))
def test_without_strata_nothing_is_different(script: dict[str, Any]) -> None:
    """A plan without strata has the plain rule, whatever cells by class come with the windows."""
    plain, asked = EvidenceAgainst(vector_plan(), first_window=0), evidence_against(vector_plan(), first_window=0)
    assert type(asked) is EvidenceAgainst
    for number, cells in enumerate(script_windows(script)):
        assert asked.close(number, cells, (cells,)) == plain.close(number, cells)
    assert (asked.contributions(), asked.checkpoint()) == (plain.contributions(), plain.checkpoint())


def test_the_mean_of_the_whole_and_of_the_classes() -> None:
    """E is half of the whole's and half of the mean over the classes; with the baseline in its limits and equal mixes
    each part is what the plain rule says of the same counts."""
    healthy = Arm(requests=60, mix=MIX, slow=(0.01, 0.02, 0.0))
    worse = Arm(requests=60, mix=MIX, slow=(0.01, 0.09, 0.2))
    windows = list(stream(worse, healthy, seed=1, windows=9))
    against = evidence_against(lat_plan(), first_window=0)
    parts = [EvidenceAgainst(lat_plan(()), first_window=0) for _ in range(4)]
    for number, (cells, by_class) in enumerate(windows):
        against.close(number, cells, by_class)
        for part, own in zip(parts, (cells, *by_class), strict=True):
            part.close(number, own)
    whole, *classes = (part.total() for part in parts)
    assert against.total() == near(whole / 2 + sum(classes) / 6)
    assert [stratum.total() for stratum in against.strata] == [near(value) for value in classes]
    assert against.contributions()[LAT] == near(whole / 2)
    assert against.contributions_in(2)[LAT] == near(classes[2] / 6)
    assert sum(against.contributions().values()) + sum(against.contributions_in(i)[LAT] for i in range(3)) == near(
        against.total()
    )


def test_standardisation_by_hand() -> None:
    """Shares of the candidate times rates of the baseline; a class without enough events has the overall rate."""
    rate, error, unknown = standardised([10, 30, 60], [(100, 1), (50, 10), (5, 5)], (155, 16), 20)
    assert rate == near(0.1 * 0.01 + 0.3 * 0.2 + 0.6 * 16 / 155)
    assert error == near((0.1**2 * 0.01 * 0.99 / 100 + 0.3**2 * 0.2 * 0.8 / 50) ** 0.5)
    assert unknown == near(0.6)


def test_too_many_is_beyond_chance_alone() -> None:
    """A share like the baseline's, or a little more in a few events, is not too many; most of a window is."""
    assert too_many(0.05, (15, 300), 100) == 0.0
    assert too_many(0.08, (15, 300), 50) == 0.0
    assert too_many(0.5, (3, 300), 100) == near(0.5 - 0.01 - 2 * (0.01 / 100) ** 0.5)


def test_a_fault_of_the_long_requests_alone_is_found_and_named() -> None:
    """40 % of the long requests are slow, which is 3 % of all and within the limit: only strata see it."""
    mix: Rates = (0.6, 0.35, 0.05)
    baseline = Arm(requests=200, mix=mix, slow=(0.01, 0.01, 0.01))
    candidate = Arm(requests=200, mix=mix, slow=(0.01, 0.01, 0.4))
    windows = list(stream(candidate, baseline, seed=2))
    assert convicted(windows, strata=()) is None
    found = convicted(windows)
    assert found is not None
    assert (found[0] < 18, found[1]) == (True, 2)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("long_on_baseline", [0.05, 0.0005])
def test_a_shift_of_the_mix_is_not_the_candidates_fault(seed: int, long_on_baseline: float) -> None:
    """Both arms are equal in every class, the candidate has more of the slow class: plainly judged it is convicted,
    with strata it is not; not either when the baseline has next to none of that class."""
    slow: Rates = (0.01, 0.01, 0.3)
    candidate = Arm(requests=100, mix=(0.3, 0.2, 0.5), slow=slow)
    baseline = Arm(requests=100, mix=(0.65, 0.35 - long_on_baseline, long_on_baseline), slow=slow)
    windows = list(stream(candidate, baseline, seed=seed))
    assert convicted(windows, strata=()) is not None
    assert convicted(windows) is None


def test_a_shift_of_the_mix_hides_nothing() -> None:
    """The candidate has fewer of the slow class and is worse in it: the whole looks better than the baseline's."""
    baseline = Arm(requests=200, mix=(0.5, 0.3, 0.2), slow=(0.01, 0.01, 0.2))
    candidate = Arm(requests=200, mix=(0.75, 0.2, 0.05), slow=(0.01, 0.01, 0.6))
    windows = list(stream(candidate, baseline, seed=3))
    assert convicted(windows, strata=()) is None
    found = convicted(windows)
    assert found is not None
    assert found[1] == 2


# Each is 60 runs of an hour. At the promise of 1 in 20 more than 6 of 60 come in less than 1 of 20 such tests; the
# bound asked for is half of the promise, rounded up, because the rule has always kept far below it.
@pytest.mark.parametrize(
    ("slow", "bursts"),
    [(AT_THE_LIMIT, False), (AT_THE_LIMIT, True), ((0.02, 0.05, 0.23), False)],
    ids=["at the limit", "at the limit, in bursts", "both arms beyond it in one class"],
)
def test_a_candidate_at_its_limits_is_hardly_ever_convicted(slow: Rates, bursts: bool) -> None:
    """Three classes, each exactly at what it may be: at most 2 of 60 runs of an hour end in a conviction."""
    candidate, baseline = Arm(requests=50, mix=MIX, slow=slow), Arm(requests=150, mix=MIX, slow=slow)
    found = [convicted(list(stream(candidate, baseline, seed=seed, bursts=bursts))) for seed in range(60)]
    assert sum(each is not None for each in found) <= 2


def test_bad_events_must_stand_in_enough_windows_of_the_class_that_leads() -> None:
    """However large E becomes, nobody is convicted before as many bad windows as the plan wants; then by name."""
    good, bad = {LAT: Cell(100, 0, 100, 0)}, {LAT: Cell(40, 40, 40, 0)}
    against = evidence_against(lat_plan(rule=RuleParameters(min_bad_windows=5)), first_window=0)
    found = []
    for number in range(5):
        against.close(number, together((good, good, bad)), (good, good, bad))
        found.append((against.total() >= 20, against.convicts()))
    assert found == [(False, None), (False, None), (True, None), (True, None), (True, LAT)]
    assert against.lead() == (2, LAT)


def test_a_window_with_another_number_of_classes_is_refused() -> None:
    """Whoever counts other classes than the plan's is wrong."""
    against = evidence_against(lat_plan(), first_window=0)
    with pytest.raises(ValueError, match="strata: 2 classes, the plan makes 3"):
        against.close(0, {}, ({}, {}))
    with pytest.raises(LookupError, match="no classes of requests"):
        EvidenceAgainst(lat_plan(()), first_window=0).contributions_in(0)


counts = st.integers(0, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))
cells_of_a_class = st.tuples(counts, counts).map(lambda arms: {LAT: Cell(*arms[0], *arms[1])})
windows_by_class = st.lists(st.tuples(cells_of_a_class, cells_of_a_class, cells_of_a_class), min_size=1, max_size=20)


def play(against: EvidenceAgainst, windows: list[tuple[Cells, ...]], first: int = 0) -> None:
    for number, by_class in enumerate(windows, start=first):
        against.close(number, together(by_class), by_class)


@settings(max_examples=40, deadline=None)
@given(windows_by_class, st.integers(0, 20))
def test_a_checkpoint_changes_nothing(windows: list[tuple[Cells, ...]], cut: int) -> None:
    """Saved as JSON after any window and taken up again, the evidence goes on as if nothing had been."""
    one, other = (evidence_against(lat_plan(), first_window=0) for _ in range(2))
    play(one, windows)
    play(other, windows[:cut])
    resumed = evidence_against(lat_plan(), first_window=0)
    resumed.restore(json.loads(json.dumps(other.checkpoint())))
    play(resumed, windows[cut:], first=min(cut, len(windows)))
    assert resumed.checkpoint() == one.checkpoint()
    assert (resumed.total(), resumed.lead()) == (one.total(), one.lead())


def test_a_checkpoint_of_other_classes_is_refused() -> None:
    """The saved numbers mean nothing then."""
    saved = evidence_against(lat_plan((512,)), first_window=0).checkpoint()
    with pytest.raises(ValueError, match="strata: 2 classes, this plan makes 3"):
        evidence_against(lat_plan(), first_window=0).restore(saved)


@settings(max_examples=40, deadline=None)
@given(windows_by_class, st.integers(1, 80))
def test_windows_left_out_were_empty(windows: list[tuple[Cells, ...]], gap: int) -> None:
    """A gap is worth as much as the empty windows in it, in the whole and in each class."""
    one, other = (evidence_against(lat_plan(), first_window=0) for _ in range(2))
    nothing: tuple[Cells, ...] = ({}, {}, {})
    play(one, [*windows, *[nothing] * gap, windows[0]])
    play(other, windows)
    play(other, [windows[0]], first=len(windows) + gap)
    assert other.total() == pytest.approx(one.total(), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(windows_by_class, st.permutations([0, 1, 2]))
def test_the_order_of_the_classes_does_not_matter(windows: list[tuple[Cells, ...]], order: list[int]) -> None:
    """E is the same whichever class is called the first."""
    one, other = (evidence_against(lat_plan(), first_window=0) for _ in range(2))
    play(one, windows)
    play(other, [tuple(by_class[i] for i in order) for by_class in windows])
    assert other.total() == pytest.approx(one.total(), rel=1e-9)


@settings(max_examples=80, deadline=None)
@given(windows_by_class, st.data())
def test_a_bad_event_of_the_baseline_never_raises_the_evidence(
    windows: list[tuple[Cells, ...]], data: st.DataObject
) -> None:
    """One more slow answer of the baseline, in whichever class, excuses the candidate or says nothing."""
    room = [
        (w, i)
        for w, by_class in enumerate(windows)
        for i, cells in enumerate(by_class)
        if cells[LAT].k_b < cells[LAT].n_b
    ]
    if not room:
        return
    w, i = data.draw(st.sampled_from(room))
    cell = windows[w][i][LAT]
    sicker = [list(by_class) for by_class in windows]
    sicker[w][i] = {LAT: Cell(cell.n_c, cell.k_c, cell.n_b, cell.k_b + 1)}
    one, other = (evidence_against(lat_plan(), first_window=0) for _ in range(2))
    play(one, windows)
    play(other, [tuple(by_class) for by_class in sicker])
    assert other.total() <= one.total() * (1 + 1e-12)


@settings(max_examples=40, deadline=None)
@given(windows_by_class, st.data())
def test_a_bad_event_more_never_lowers_the_evidence(windows: list[tuple[Cells, ...]], data: st.DataObject) -> None:
    """One more slow answer of the candidate, in whichever class, speaks against it or says nothing."""
    room = [
        (w, i)
        for w, by_class in enumerate(windows)
        for i, cells in enumerate(by_class)
        if cells[LAT].k_c < cells[LAT].n_c
    ]
    if not room:
        return
    w, i = data.draw(st.sampled_from(room))
    cell = windows[w][i][LAT]
    worse = [list(by_class) for by_class in windows]
    worse[w][i] = {LAT: Cell(cell.n_c, cell.k_c + 1, cell.n_b, cell.k_b)}
    one, other = (evidence_against(lat_plan(), first_window=0) for _ in range(2))
    play(one, windows)
    play(other, [tuple(by_class) for by_class in worse])
    assert other.total() >= one.total() * (1 - 1e-12)


def test_metrics_without_a_control_are_held_to_their_limits_in_every_class() -> None:
    """Parity has no baseline to compare with, in no class either."""
    against = evidence_against(vector_plan(strata=EDGES), first_window=0)
    assert isinstance(against, StratifiedEvidence)
    held = against.close(0, HEALTHY, (HEALTHY, {}, {}))
    assert held[MetricId.PARITY] == 0.005
    assert [each[MetricId.PARITY] for each in against.held_in_strata] == [0.005] * 3
    assert against.held_in_strata[1][MetricId.LAT_P95] is None


def test_without_a_baseline_all_are_held_to_the_limits() -> None:
    """At 100 % without a residual share, control is off in the whole and in the classes."""
    against = evidence_against(lat_plan(), first_window=0)
    against.set_control(False)
    cells = {LAT: Cell(20, 1, 0, 0)}
    assert against.close(0, together((cells,) * 3), (cells,) * 3) == {LAT: 0.05}
    assert against.held_in_strata == ({LAT: 0.05},) * 3
