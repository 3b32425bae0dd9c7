"""Calibration on recordings whose answer is known."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_traffic import ALLOWED, LIMIT_MS, plan, traffic

from gateway.core.calibration import plays as module
from gateway.core.calibration.figures import interval, together
from gateway.core.calibration.plays import play
from gateway.core.calibration.recording import TooLittle, cells_of, playable, recording_of
from gateway.core.calibration.report import Calibration, calibrate
from gateway.core.evidence import ClosedWindow
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, RuleParameters
from gateway.core.sequential import Cell
from gateway.core.tape import Began, Closed
from gateway.core.types import Count, Lane, Role, empty_tally


def recorded(windows: int = 1500, seed: int = 3, **kind: Any) -> Any:
    return recording_of(traffic(windows, np.random.default_rng(seed), **kind), plan(), width_s=10.0)


def calibrated(runs: int = 8, **kind: Any) -> Calibration:
    return calibrate(recorded(**kind), plan(), seed=1, runs=runs)


# -- the whole --------------------------------------------------------------------------------------------------------


def test_steady_traffic_gives_no_false_alarm_and_the_default_preset() -> None:
    """Requests that are independent of one another: both arms alike are promoted, and there are no spells."""
    found = calibrated()
    assert [(each.preset, each.mode, each.rolled_back, each.promoted) for each in found.alarms] == [
        ("default", "split", 0, 8), ("cautious", "split", 0, 8),
        ("default", "apart", 0, 8), ("cautious", "apart", 0, 8),
    ]  # fmt: skip
    assert {each.metric: each.lasts_s for each in found.spells} == {"lat_p99": 0.0, "error": 0.0}
    assert found.preset == "default"
    assert found.requests_per_s == pytest.approx(30.0, rel=0.02)


def test_spells_of_a_minute_that_one_arm_has_to_itself_call_for_the_cautious_preset() -> None:
    """The default bets blame the candidate for a minute of its own; so long a spell is named."""
    found = calibrated(spell=6, every=100, in_spell=0.1, beyond=0.003)
    rates = {(each.preset, each.mode): each.rolled_back for each in found.alarms}
    assert rates["default", "apart"] >= 3
    assert [n for which, n in rates.items() if which != ("default", "apart")] == [0, 0, 0]
    (late,) = (each for each in found.spells if each.metric == "lat_p99")
    assert late.lasts_s is not None
    assert 30.0 <= late.lasts_s <= 60.0
    assert found.preset == "cautious"
    assert found.why.endswith("with the default bets, 0 % with the cautious ones")


def test_a_doubled_p99_is_found_and_said_how_soon() -> None:
    """5 % of the requests are beyond the limit when they take twice as long: five times what is allowed."""
    found = calibrated(near=0.05)
    default, cautious = found.found
    assert (default.rolled_back, default.runs) == (4, 4)
    assert default.median_s is not None
    assert cautious.median_s is not None
    assert 20.0 <= default.median_s < cautious.median_s < 600.0


def test_what_stays_within_the_limit_when_doubled_is_not_found() -> None:
    """The limit is what is promised, and nothing says twice as slow is bad."""
    assert [each.median_s for each in calibrated(runs=2).found] == [None, None]


def test_a_seed_gives_the_same_figures_again_and_another_seed_others() -> None:
    """Every draw comes from it."""
    same = [calibrated(runs=3, spell=6, every=60, in_spell=0.25, near=0.05) for _ in range(2)]
    assert same[0] == same[1]
    recording = recorded(spell=6, every=60, in_spell=0.25, near=0.05)
    assert calibrate(recording, plan(), seed=2, runs=3) != replace(same[0], seed=2)


def test_the_baselines_own_misses_are_told() -> None:
    """Limits that the baseline itself does not keep are the first thing to look at."""
    late, error = calibrated(runs=1, beyond=0.03, failing=0.01).spells
    assert (late.metric, late.rate, late.allowed) == ("lat_p99", pytest.approx(0.03, rel=0.1), ALLOWED)
    assert (error.metric, error.rate) == ("error", pytest.approx(0.01, rel=0.1))


def test_what_cannot_be_played_is_named() -> None:
    """Classes and pairs; the plan is judged without them."""
    asked = plan(
        strata=(512,), parity=ParityPolicy(cosine_min=0.9), copies=1000, steps=(0, 1000, 10_000),
        metrics=(*plan().metrics, MetricLimit(metric=MetricId.PARITY, allowed=0.01)),
    )  # fmt: skip
    found = calibrate(recorded(), asked, seed=1, runs=2)
    assert [note.partition(":")[0] for note in found.notes] == ["not played", "parity"]
    assert [each.promoted for each in found.alarms] == [2, 2, 2, 2]


def test_without_latency_metrics_nothing_is_said_of_slowness() -> None:
    """An error limit alone."""
    asked = plan(metrics=(MetricLimit(metric=MetricId.ERROR, allowed=0.003),))
    recording = recording_of(traffic(400, np.random.default_rng(1)), asked, width_s=10.0)
    found = calibrate(recording, asked, seed=1, runs=1)
    assert (found.found, found.exact_windows, [each.metric for each in found.spells]) == ([], 400, ["error"])


# -- recordings -------------------------------------------------------------------------------------------------------


def test_limits_are_exact_where_they_were_counted() -> None:
    """Else they are read from the histogram; a limit that was another when it was counted is read from it, too."""
    counted = recorded(windows=300, counted=True)
    assert counted.exact == 300
    assert recorded(windows=300).exact == 0
    other = plan(metrics=(MetricLimit(metric=MetricId.LAT_P99, allowed=ALLOWED, limit_ms=LIMIT_MS + 20),))
    read = recording_of(traffic(300, np.random.default_rng(3), counted=True), other, width_s=10.0)
    assert read.exact == 0
    assert (read.series(MetricId.LAT_P99)[1] == counted.series(MetricId.LAT_P99)[1]).all()


def one(ok: int, failed: int, late: dict[Count, int], bins: tuple[tuple[int, int], ...] = ()) -> list[Any]:
    """Enough windows alike, with these counts."""
    tally = empty_tally()
    tally[Count.OK], tally[Count.FAILED] = ok, failed
    for count, n in late.items():
        tally[count] = n
    limits = {"lat_p50": 10.0, "lat_p95": 50.0, "lat_p99": 100.0}
    windows = [Closed(0.0, ClosedWindow(n, {(Role.BASELINE, Lane.LIVE): tally}), (), bins) for n in range(200)]
    return [Began(0.0, 0, None, limits), *windows]


THREE = tuple(
    MetricLimit(metric=metric, allowed=0.1, limit_ms=limit)
    for metric, limit in ((MetricId.LAT_P50, 10.0), (MetricId.LAT_P95, 50.0), (MetricId.LAT_P99, 100.0))
)


def test_requests_are_sorted_by_what_became_of_them() -> None:
    """Each in one column; a failure that was late, too, is one request."""
    asked = plan(metrics=(*THREE, MetricLimit(metric=MetricId.ERROR, allowed=0.1)))
    late = {
        Count.LAT50_N: 92, Count.LAT50_BAD: 40, Count.LAT95_N: 92, Count.LAT95_BAD: 10, Count.LAT99_N: 92,
        Count.LAT99_BAD: 4,
    }  # fmt: skip
    recording = recording_of(one(90, 5, late), asked, width_s=10.0)
    # 95 requests, 92 of them with a latency: 3 failed quickly, 2 of the 4 that were later than all limits failed.
    assert recording.counts[0].tolist() == [0, 3, 52, 30, 6, 2, 2]
    series = {metric: tuple(int(part[0]) for part in recording.series(metric)) for metric in recording.order}
    assert series == {MetricId.LAT_P50: (92, 40), MetricId.LAT_P95: (92, 10), MetricId.LAT_P99: (92, 4)}
    assert tuple(int(part[0]) for part in recording.series(MetricId.ERROR)) == (95, 5)


rows = st.lists(st.integers(0, 500), min_size=7, max_size=7)


@given(rows, rows, st.integers(0, 50))
def test_any_columns_make_cells_that_a_judge_takes(candidate: list[int], baseline: list[int], pairs: int) -> None:
    """Bad events never exceed events, and no metric is left out."""
    cells = cells_of(candidate, baseline, pairs, (MetricId.LAT_P50, MetricId.LAT_P95, MetricId.LAT_P99))
    assert cells[MetricId.ERROR].n_c == sum(candidate)
    assert cells[MetricId.PARITY] == Cell(pairs, 0, 0, 0)
    assert set(cells) == set(MetricId) & set(cells)


def test_too_little_says_what_is_needed() -> None:
    """Neither few windows nor few requests are a calibration; nothing at all neither."""
    for kind in ({"windows": 100}, {"windows": 200, "rate": 5.0}, {"windows": 0}):
        with pytest.raises(TooLittle, match=r"needed are 2,000 in 180 windows \(30 min with traffic\)"):
            recorded(**kind)


# -- plays ------------------------------------------------------------------------------------------------------------


def test_no_request_is_invented_and_a_split_loses_none() -> None:
    """What the arms get together is what was recorded, live; copies come on top and are never more than there were."""
    recording = recorded(windows=200)
    deal = module._dealer(recording, "split", np.random.default_rng(5))
    live, base, copies = deal(0, 200, 0.3, 0.5)
    begun = int(np.random.default_rng(5).integers(200))
    assert ((live + base) == np.roll(recording.counts, -begun, axis=0)).all()
    assert (copies <= base).all()
    assert live.sum() / recording.requests == pytest.approx(0.3, abs=0.01)


def test_apart_the_arms_are_minutes_apart() -> None:
    """No spell is in both arms at once: the candidate's windows are others than the baseline's."""
    recording = recorded(windows=1500)
    numbered = replace(recording, counts=np.arange(1500)[:, None] * np.ones((1, 5), dtype=np.int64) * 1000)
    deal = module._dealer(numbered, "apart", np.random.default_rng(5))
    live, base, _ = deal(0, 100, 0.5, 0.0)
    distance = (live[:, 0] - base[:, 0]) / 500 % 1500
    assert 17 < float(np.median(distance)) < 181


def test_a_shadow_step_is_played_on_copies_and_a_full_one_keeps_its_residual() -> None:
    """As the gateway routes: no live request below the first weight, and at 100 % the baseline keeps its part."""
    shadow = plan(steps=(0, 10_000), copies=2000)
    first = module.begun(shadow, 50.0)
    assert module._shares(first) == (0.0, 0.2)
    assert module._shares(module._at_step(first, 1, 50.0)) == (0.99, 0.2)
    assert module._shares(module._at_step(first, 1, 2.0)) == (0.9666, 0.2)
    bare = module.begun(replace(shadow, control_at_full=False), 50.0)
    assert module._shares(module._at_step(bare, 1, 50.0)) == (1.0, 0.2)
    assert play(recorded(), shadow, "split", np.random.default_rng(1), longest_s=7200.0).ended == "promoted"


def test_a_play_ends() -> None:
    """Held where the plan gives up, under way where time is over."""
    never = plan(min_events=10**6)
    assert play(recorded(), never, "split", np.random.default_rng(1), longest_s=7200.0).ended == "held"
    under_way = play(recorded(), never, "split", np.random.default_rng(1), longest_s=600.0)
    assert (under_way.ended, under_way.after_s) == ("under_way", 640.0)


def test_the_plan_is_played_with_its_own_windows() -> None:
    """Presets differ in their bets alone, also where windows are those of the demo."""
    quick = plan(rule=RuleParameters(window_s=1.0), strata=(512,))
    assert playable(quick, cautious=True).rule == RuleParameters(window_s=1.0, cautious=True)
    assert playable(quick, cautious=False).strata == ()


# -- figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(0, 40, 0.0, 0.0881), (1, 40, 0.000633, 0.1316), (20, 40, 0.338, 0.662), (40, 40, 0.9119, 1.0)],
)
def test_intervals_are_those_of_the_tables(hits: int, n: int, low: float, high: float) -> None:
    """Clopper and Pearson, 95 %."""
    assert interval(hits, n) == (pytest.approx(low, rel=2e-3), pytest.approx(high, rel=2e-3))


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_rate(counted: tuple[int, int]) -> None:
    """And stays within what a rate can be."""
    low, high = interval(*counted)
    assert 0.0 <= low <= counted[0] / counted[1] <= high <= 1.0


@pytest.mark.parametrize("spell", [1, 3, 6, 12])
def test_a_spell_is_as_long_as_it_is(spell: int) -> None:
    """To about a third: the shares at both ends of a spell are strangers after 1 - 1/e of it."""
    chance, windows = np.random.default_rng(7), 4000
    within = np.zeros(windows, dtype=bool)
    for begin in np.flatnonzero(chance.random(windows) < 0.01):
        within[begin : begin + spell] = True
    bad = chance.binomial(300, np.where(within, 0.3, 0.005))
    lag = together(np.full(windows, 300), bad)
    assert lag is not None
    assert 0.4 * spell <= lag <= max(1, 1.1 * spell)


def test_the_day_is_no_spell() -> None:
    """Slow change that everybody shares is taken out before."""
    chance, windows = np.random.default_rng(7), 4000
    rate = 0.02 + 0.015 * np.sin(np.arange(windows) * 2 * math.pi / windows)
    assert together(np.full(windows, 300), chance.binomial(300, rate)) == 1


def test_few_bad_events_say_nothing() -> None:
    """Neither do none at all, nor empty windows."""
    n = np.full(500, 10)
    assert together(n, np.zeros(500, dtype=np.int64)) is None
    gaps = np.where(np.arange(500) % 2, 0, 300)
    assert together(gaps, np.random.default_rng(1).binomial(gaps, 0.02)) in (1, 2, None)
    assert together(n, n) == 1
