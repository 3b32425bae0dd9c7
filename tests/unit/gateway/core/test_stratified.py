"""Evidence by class of requests: what is hidden is found, what a mix shift fakes is not, and the promise holds."""

import json
from typing import Any

import pytest
from decision_cases import HEALTHY, VECTORS, Cells, script_windows, vector_plan
from hypothesis import given, settings
from hypothesis import strategies as st
from strata_cases import EDGES, LAT, Arm, Rates, Window, convicted, lat_plan, stream, together

from gateway.core.plan import MetricId, RuleParameters
from gateway.core.sequential import Cell, EvidenceAgainst
from gateway.core.stratified import StratifiedEvidence, evidence_against, explained_by_mix

MIX: Rates = (0.6, 0.3, 0.1)


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-12)


def found_in(windows: list[Window], strata: tuple[int, ...] = EDGES) -> tuple[int, int | None] | None:
    """(window, class) of the conviction; None when there is none."""
    return convicted(lat_plan(strata), windows)


@pytest.mark.parametrize("script", VECTORS["scripts"], ids=lambda script: str(script["name"]))
def test_without_strata_nothing_is_different(script: dict[str, Any]) -> None:
    """A plan without strata has the plain rule, whatever cells by class come with the windows."""
    plain, asked = EvidenceAgainst(vector_plan(), first_window=0), evidence_against(vector_plan(), first_window=0)
    assert type(asked) is EvidenceAgainst
    for number, cells in enumerate(script_windows(script)):
        assert asked.close(number, cells, (cells,)) == plain.close(number, cells)
    assert (asked.contributions(), asked.checkpoint()) == (plain.contributions(), plain.checkpoint())


def test_the_mean_of_the_whole_and_of_the_classes() -> None:
    """E is half of the whole's, which with equal mixes is the plain rule's to the last bit, and half of the mean over
    the classes; each metric's parts of it add up."""
    healthy = Arm(requests=60, mix=MIX, slow=(0.01, 0.02, 0.0))
    worse = Arm(requests=60, mix=MIX, slow=(0.01, 0.09, 0.2))
    against = evidence_against(lat_plan(), first_window=0)
    plain = EvidenceAgainst(lat_plan(()), first_window=0)
    for number, (cells, by_class) in enumerate(stream(worse, healthy, seed=1, windows=9)):
        assert against.close(number, cells, by_class) == plain.close(number, cells)
    assert against.metrics[LAT].checkpoint() == plain.metrics[LAT].checkpoint()
    classes = [stratum.total() for stratum in against.strata]
    assert against.total() == near(plain.total() / 2 + sum(classes) / 6)
    assert against.contributions()[LAT] == near(plain.total() / 2)
    assert against.contributions_in(2)[LAT] == near(classes[2] / 6)
    assert against.total() != near(against.total_if_closed())
    classes = [stratum.total_if_closed() for stratum in against.strata]
    assert against.together_if_closed() == plain.total_if_closed()
    assert against.total_if_closed() == near(plain.total_if_closed() / 2 + sum(classes) / 6)


def test_a_class_is_held_to_an_upper_bound_of_its_baseline() -> None:
    """None bad of few is no proof: the bound counts, until many are in; what promotion sees as clean does not move."""
    against = evidence_against(lat_plan(), first_window=0)
    held = []
    for number in range(30):
        cells = {LAT: Cell(400, 20, 20, 0)}
        against.close(number, together((cells, {}, {})), (cells, {}, {}))
        held.append(against.strata[0].metrics[LAT]._held_to(cells[LAT], (20, 0)))
    assert held[0] == near(2 / 24 + 2 * (2 / 24 * 22 / 24 / 24) ** 0.5)
    assert held[29] == 0.05
    assert against.held_in_strata == ({LAT: 0.05}, {LAT: None}, {LAT: None})


@pytest.mark.parametrize(
    ("classes", "more"),
    [
        ([(600, 1800, 0.02), (300, 900, 0.1), (100, 300, 0.3)], 0.0),
        ([(600, 600, 0.02), (290, 310, 0.1), (110, 90, 0.3)], 0.0),
        ([(300, 600, 0.02), (200, 300, 0.1), (500, 100, 0.3)], 0.4 * 0.3),
        ([(100, 600, 0.02), (400, 300, 0.1), (500, 100, 1.0)], 0.1 * 0.1 + 0.4),
        ([(9000, 90000, 0.02), (0, 0, 1.0), (90, 90, 0.3)], 0.0),
        ([(0, 600, 0.02), (0, 300, 0.1), (0, 100, 0.3)], 0.0),
        ([(600, 0, 1.0), (300, 0, 1.0), (100, 0, 1.0)], 0.0),
    ],
    ids=[
        "equal",
        "by chance",
        "one class",
        "two, one unknown",
        "too little to speak of",
        "no candidate",
        "no baseline",
    ],
)
def test_what_a_mix_explains(classes: list[tuple[int, int, float]], more: float) -> None:
    """Of what the candidate has too much of, beyond chance, what the baseline may fail."""
    assert explained_by_mix(classes) == near(more)


def test_another_mix_excuses_the_bets_and_no_window_of_the_proof() -> None:
    """Over all requests the bets hold the candidate to more; what is clean for promotion is what it was."""
    against, plain = evidence_against(lat_plan(), first_window=0), EvidenceAgainst(lat_plan(()), first_window=0)
    by_class = ({LAT: Cell(30, 0, 60, 0)}, {LAT: Cell(20, 0, 35, 0)}, {LAT: Cell(50, 15, 5, 2)})
    cells = together(by_class)
    for number in range(6):
        assert against.close(number, cells, by_class) == plain.close(number, cells) == {LAT: 0.05}
    bound = 14 / 34 + 2 * (14 / 34 * 20 / 34 / 34) ** 0.5
    assert against.metrics[LAT]._held_to(cells[LAT], (300, 6)) == near(0.02 + 0.45 * bound + 0.1 * 0.05)
    assert plain.metrics[LAT]._held_to(cells[LAT], (300, 6)) == 0.05


def test_a_fault_of_the_long_requests_alone_is_found_and_named() -> None:
    """40 % of the long requests are slow, which is 3 % of all and within the limit: only strata see it."""
    mix: Rates = (0.6, 0.35, 0.05)
    baseline = Arm(requests=200, mix=mix, slow=(0.01, 0.01, 0.01))
    candidate = Arm(requests=200, mix=mix, slow=(0.01, 0.01, 0.4))
    windows = list(stream(candidate, baseline, seed=2))
    assert found_in(windows, strata=()) is None
    found = found_in(windows)
    assert found is not None
    assert (found[0] < 18, found[1]) == (True, 2)


@pytest.mark.parametrize(("allowed", "share"), [(0.05, 0.1), (0.05, 0.15), (0.01, 0.1), (0.01, 0.15)])
def test_five_times_what_is_allowed_in_one_class_is_found(allowed: float, share: float) -> None:
    """With the class a tenth or more of the traffic, and the whole within the limit: in each of five hours, by name."""
    plan = lat_plan(allowed=allowed)
    mix: Rates = (0.6, 0.4 - share, share)
    good, bad = (Arm(requests=150, mix=mix, slow=(allowed / 5, allowed / 5, rate)) for rate in (allowed, 5 * allowed))
    for seed in range(5):
        windows = list(stream(bad, good, seed=seed))
        found = convicted(plan, windows)
        assert found is not None
        assert found[1] == 2
        assert convicted(lat_plan((), allowed=allowed), windows) is None


def test_a_shift_of_the_mix_hides_nothing() -> None:
    """The candidate has fewer of the slow class and is worse in it: the whole looks better than the baseline's."""
    baseline = Arm(requests=200, mix=(0.5, 0.3, 0.2), slow=(0.01, 0.01, 0.2))
    candidate = Arm(requests=200, mix=(0.75, 0.2, 0.05), slow=(0.01, 0.01, 0.6))
    windows = list(stream(candidate, baseline, seed=3))
    assert found_in(windows, strata=()) is None
    found = found_in(windows)
    assert found is not None
    assert found[1] == 2


def test_bad_events_must_stand_in_enough_windows_of_the_class_that_leads() -> None:
    """However large E becomes, nobody is convicted before as many bad windows as the plan wants; then by name."""
    good, bad = {LAT: Cell(100, 0, 100, 0)}, {LAT: Cell(40, 40, 400, 0)}
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
