"""Windows neither lose nor invent events, and close only when nobody can add to them."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.evidence import MOST_NAMED, Evidence
from gateway.core.plan import MetricId
from gateway.core.sequential import Cell
from gateway.core.snapshot import Report, WindowCounts
from gateway.core.types import COUNTS, Count, Lane, Role, Tally, empty_tally


def tally(**counts: int) -> Tally:
    made = empty_tally()
    for name, n in counts.items():
        made[Count[name]] = n
    return made


def report(
    name: str, at: float, windows: list[WindowCounts], *, epoch: int = 1, open_since: float | None = None
) -> Report:
    return Report(
        name=name, version=1, epoch=epoch, at=at, windows=windows, latencies=[], open_since=open_since,
        breaker=(0.0, 0.0), seconds=[], tripped=False, recent_failovers=0, in_flight=(0, 0), connections=(0, 0),
    )  # fmt: skip


def counts(window: int, role: Role, lane: Lane, **n: int) -> WindowCounts:
    return WindowCounts(window=window, role=role, lane=lane, tally=tally(**n))


def evidence(first: int = 100, strata: int = 0) -> Evidence:
    return Evidence(epoch=1, width_s=10.0, timeout_s=30.0, first_window=first, strata=strata)


def test_a_window_waits_for_what_is_still_open() -> None:
    """A request that arrived before the window's end and is open keeps the window open."""
    e = evidence()
    e.add(report("w0", 1021.0, [counts(100, Role.BASELINE, Lane.LIVE, OK=3)], open_since=1005.0))
    assert list(e.close(1021.0)) == []
    e.add(report("w0", 1022.0, [counts(100, Role.BASELINE, Lane.LIVE, OK=1)], open_since=None))
    closed = list(e.close(1022.0))
    assert [(w.window, w.events(Role.BASELINE, MetricId.ERROR)) for w in closed] == [(100, (4, 0)), (101, (0, 0))]


def test_a_window_waits_for_the_slowest_worker_but_not_for_a_dead_one() -> None:
    """Every worker that reports must have passed the window; one that is forgotten does not count."""
    e = evidence()
    e.add(report("w0", 1021.0, []))
    e.add(report("w1", 1009.0, []))
    assert list(e.close(1021.0)) == []
    e.forget_worker("w1")
    assert [w.window for w in e.close(1021.0)] == [100, 101]


def test_an_overdue_window_closes_without_the_silent_worker_and_what_comes_later_is_late() -> None:
    """One time-out after its end a window closes anyway; later counts are late, not evidence."""
    e = evidence()
    e.add(report("w0", 1005.0, []))
    assert [w.window for w in e.close(1041.0)] == [100]
    e.add(report("w0", 1042.0, [counts(100, Role.CANDIDATE, Lane.LIVE, FAILED=2)]))
    assert e.late_events == 2
    assert e.total(Role.CANDIDATE, Lane.LIVE, Count.FAILED) == 2


def test_another_epoch_is_void() -> None:
    """Counts of an epoch before a start or rollback enter nothing."""
    e = evidence()
    e.add(report("w0", 1021.0, [counts(100, Role.CANDIDATE, Lane.LIVE, FAILED=2)], epoch=0))
    assert e.total(Role.CANDIDATE, Lane.LIVE, Count.FAILED) == 0
    assert not e.add_pair(epoch=0, window=100, lane=Lane.COPY, bad=True)


def test_what_each_metric_counts() -> None:
    """Error counts unavailability; copies to the candidate are evidence, copies to the baseline only parity."""
    e = evidence()
    e.add(
        report(
            "w0",
            1021.0,
            [
                counts(
                    100, Role.CANDIDATE, Lane.LIVE, OK=5, FAILED=1, UNAVAILABLE=2, REFUSED=1, LAT95_N=5, LAT95_BAD=1
                ),
                counts(100, Role.CANDIDATE, Lane.COPY, OK=3, FAILED=1, LAT95_N=3),
                counts(100, Role.BASELINE, Lane.LIVE, OK=9, FAILED=1, LAT95_N=9, LAT95_BAD=2),
                counts(100, Role.BASELINE, Lane.COPY, OK=7, FAILED=7),
            ],
        )
    )
    assert e.add_pair(epoch=1, window=100, lane=Lane.COPY, bad=True)
    assert e.add_pair(epoch=1, window=100, lane=Lane.COPY, bad=False)
    closed = next(iter(e.close(1021.0)))
    assert closed.lanes(MetricId.LAT_P95) == (5, 1, 3, 0)
    assert closed.lanes(MetricId.LAT_P50) == (0, 0, 0, 0)
    cells = closed.cells((MetricId.ERROR, MetricId.LAT_P95, MetricId.REFUSED, MetricId.PARITY))
    assert cells[MetricId.ERROR] == Cell(13, 4, 10, 1)
    assert cells[MetricId.LAT_P95] == Cell(8, 1, 9, 2)
    assert cells[MetricId.REFUSED] == Cell(9, 1, 9, 0)
    assert cells[MetricId.PARITY] == Cell(2, 1, 0, 0)


STREAM = (MetricId.TTFT, MetricId.ITL, MetricId.STREAM_BROKEN)


def test_what_the_stream_metrics_count() -> None:
    """Live and copied streams of the candidate, live ones of the baseline."""
    e = evidence()
    counted = {"TTFT_N": 5, "TTFT_BAD": 1, "ITL_N": 4, "ITL_BAD": 2, "STREAMS": 6, "STREAMS_BROKEN": 3}
    keys = [(Role.CANDIDATE, Lane.LIVE), (Role.CANDIDATE, Lane.COPY), (Role.BASELINE, Lane.LIVE)]
    e.add(report("w0", 1021.0, [counts(100, role, lane, **counted) for role, lane in keys]))
    cells = next(iter(e.close(1021.0))).cells(STREAM)
    assert list(cells.values()) == [Cell(10, 2, 5, 1), Cell(8, 4, 4, 2), Cell(12, 6, 6, 3)]


@pytest.mark.parametrize("judged", [True, False])
def test_a_broken_stream_is_in_one_metric(judged: bool) -> None:
    """It has failed; where broken streams are judged by themselves that is not an error as well."""
    e = evidence(strata=2)
    broken = counts(100, Role.CANDIDATE, Lane.LIVE, OK=6, FAILED=3, STREAMS=4, STREAMS_BROKEN=2)
    e.add(report("w0", 1021.0, [broken, counts(100, Role.BASELINE, Lane.LIVE, FAILED=1, STREAMS=1, STREAMS_BROKEN=1)]))
    window = next(iter(e.close(1021.0)))
    metrics = (MetricId.ERROR, MetricId.STREAM_BROKEN) if judged else (MetricId.ERROR,)
    for cells in (window.cells(metrics), window.cells_by_stratum(metrics)[0]):
        assert cells[MetricId.ERROR] == (Cell(9, 1, 1, 0) if judged else Cell(9, 3, 1, 1))


def test_a_window_that_closes_without_a_workers_report_is_incomplete_and_said_to_be() -> None:
    """Overdue is one thing, silence another: a worker that has reported and has something open is not missing."""
    e = evidence()
    e.expect("w2")
    e.add(report("w0", 1060.0, [], open_since=1001.0))
    e.add(report("w1", 1012.0, []))
    assert [w.window for w in e.close(1060.0)] == [100, 101, 102]
    assert (e.incomplete_windows, e.closed_without) == (3, {"w1": 2, "w2": 3})
    assert e.notes() == ("2 windows closed without worker w1; 3 windows closed without worker w2",)
    e.forget_worker("w2")
    e.add(report("w0", 1070.0, []))
    e.add(report("w1", 1070.0, []))
    assert len(list(e.close(1070.0))) == 4
    assert e.incomplete_windows == 3


def test_one_window_closed_without_a_worker_reads_well() -> None:
    """And no note is made where nothing is missing."""
    e = evidence()
    assert e.notes() == ()
    e.expect("w1")
    list(e.close(1040.0))
    assert e.notes() == ("1 window closed without worker w1",)


def test_a_crowd_of_silent_workers_is_counted_and_named_within_bounds() -> None:
    """Each incomplete window counts once."""
    e = evidence()
    for n in range(3 * MOST_NAMED):
        e.expect(f"w{n}")
    list(e.close(1050.0))
    assert (e.incomplete_windows, len(e.closed_without)) == (2, MOST_NAMED)


def filled(tallies: dict[tuple[Role, Lane], Tally]) -> dict[tuple[Role, Lane], Tally]:
    return {key: tally for key, tally in tallies.items() if any(tally)}


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["w0", "w1", "w2"]),
        st.integers(100, 104),
        st.sampled_from(list(Role)),
        st.sampled_from([Lane.LIVE, Lane.COPY]),
        st.lists(st.integers(0, 5), min_size=COUNTS, max_size=COUNTS),
        st.integers(0, 2),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, order=st.randoms(use_true_random=False))
def test_any_order_and_grouping_gives_the_same_windows(
    rows: list[tuple[str, int, Role, Lane, list[int], int]], order: object
) -> None:
    """Reports may come in any order and be cut anyhow: the closed windows are equal and nothing is lost, by class of
    requests as in all."""
    singles = [
        (name, WindowCounts(window=w, role=r, lane=lane, tally=t, stratum=stratum))
        for name, w, r, lane, t, stratum in rows
    ]
    shuffled = list(singles)
    order.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a seeded random.Random
    one, other = evidence(strata=3), evidence(strata=3)
    for name, window in singles:
        one.add(report(name, 1000.0, [window]))
    for name, group in itertools.groupby(shuffled, key=lambda row: row[0]):
        other.add(report(name, 1000.0, [window for _, window in group]))
    closed = [list(e.close(1100.0)) for e in (one, other)]
    left, right = ([(w.window, filled(w.tallies)) for w in windows] for windows in closed)
    assert left == right
    in_classes, the_same = ([[filled(t) for t in w.strata] for w in windows] for windows in closed)
    assert in_classes == the_same
    for window in closed[0]:
        for key, whole in window.tallies.items():
            assert whole == [sum(column) for column in zip(*(t[key] for t in window.strata if key in t), strict=True)]
    assert sum(n for _, t in left for row in t.values() for n in row) == sum(sum(w.tally) for _, w in singles)
    assert one.late_events == 0


def test_a_window_waits_for_the_pairs_that_are_being_compared() -> None:
    """The judge sees it with them, whatever their order; one that takes too long holds nothing up for ever."""
    e = evidence()
    e.await_pair(101)
    e.await_pair(101)
    e.await_pair(102)
    e.expect("w0")
    e.add(report("w0", 1050.0, []))
    assert [window.window for window in e.close(1025.0)] == [100]
    e.settle_pair(102)
    e.settle_pair(101)
    assert list(e.close(1025.0)) == []
    e.settle_pair(101)
    assert e.add_pair(epoch=1, window=101, lane=Lane.COPY, bad=True)
    closed = list(e.close(1025.0))
    assert [window.window for window in closed] == [101, 102, 103, 104]
    assert closed[0].events(Role.CANDIDATE, MetricId.PARITY) == (1, 1)
    e.await_pair(105)
    e.add(report("w0", 1100.0, []))
    assert list(e.close(1089.0)) == []
    assert [window.window for window in e.close(1090.0)] == [105]


def test_a_pair_that_never_comes_back_delays_its_own_window_alone() -> None:
    """What was closed without it is not waited for any more: those after it close as soon as they are complete."""
    e = evidence()
    e.await_pair(100)
    e.expect("w0")
    e.add(report("w0", 1040.0, []))
    assert [window.window for window in e.close(1040.0)] == [100]
    assert [window.window for window in e.close(1041.0)] == [101, 102, 103]
    e.settle_pair(100)
    assert not e.add_pair(epoch=1, window=100, lane=Lane.COPY, bad=True)
