import numpy as np
import pytest

from bench.counts import Traffic, bad_live, minutes, split, windows
from bench.ground import Ground
from bench.streams import CANDIDATE, KINDS, Floats, Stream, draw_stream

GROUND = Ground(name="hand-made", limits_ms=(50.0, 100.0, 200.0), p97_ms=150.0, error_scale=1.0, parity_rate=0.5)


def row(*values: float) -> Floats:
    return np.asarray(values, dtype=np.float64)


def hand_made(seconds: int = 60) -> Stream:
    """Five requests: candidate, copied, baseline, candidate failing, candidate slow beyond the window's end."""
    return Stream(
        seconds=seconds,
        arrival=row(1.0, 2.0, 3.0, 9.5, 9.9),
        size=np.asarray([0, 1, 3, 3, 1], dtype=np.int8),
        ms=np.stack([row(40, 60, 120, 10, 10), row(60, 110, 10, 10, 4000)]),
        error_rate=np.full((2, 5), 0.5),
        error_draw=np.stack([row(0.9, 0.9, 0.9, 0.9, 0.9), row(0.9, 0.9, 0.9, 0.1, 0.9)]),
        parity_draw=row(0.9, 0.4, 0.9, 0.9, 0.9),
        split_draw=row(0.05, 0.5, 0.5, 0.05, 0.05),
        copy_draw=row(0.0, 0.01, 0.9, 0.0, 0.0),
        fault_draw=row(0.5, 0.5, 0.5, 0.5, 0.5),
        phase=0.0,
    )


@pytest.fixture
def traffic() -> Traffic:
    return split(hand_made(), GROUND, weight_bp=1000, copies_bp=500, parity_rate=GROUND.parity_rate)


def test_copies_are_of_what_the_baseline_served(traffic: Traffic) -> None:
    """A request goes to one arm; only the baseline's are copied."""
    assert traffic.candidate.tolist() == [True, False, False, True, True]
    assert traffic.baseline.tolist() == [False, True, True, False, False]
    assert traffic.copied.tolist() == [False, True, False, False, False]


def test_windows_count_copies_as_evidence_and_failures_apart_from_answers(traffic: Traffic) -> None:
    """Latency counts successful answers, error counts all attempts; a copy is an attempt like any other."""
    counts = windows(traffic)
    assert counts.error[0].tolist() == [4, 1, 2, 0]
    assert counts.latency[0].tolist() == [[3, 3, 2, 2], [3, 2, 2, 1], [3, 1, 2, 0]]
    assert counts.parity[0].tolist() == [1, 1]
    assert counts.answered.tolist() == [3, 0, 0, 0, 0, 0]


def test_without_copies_only_live_requests_are_left(traffic: Traffic) -> None:
    """Taking the copies away takes their events and their pairs away, and nothing else."""
    counts = windows(traffic.without_copies())
    assert counts.error[0].tolist() == [3, 1, 2, 0]
    assert counts.latency[0, 2].tolist() == [2, 1, 2, 0]
    assert counts.parity[0].tolist() == [0, 0]


def test_each_request_is_counted_in_its_size_alone(traffic: Traffic) -> None:
    """What the sizes have adds up to what there is."""
    by_size = [windows(traffic.of_size(size)) for size in range(4)]
    assert [counts.error[0].tolist() for counts in by_size] == [[1, 0, 0, 0], [2, 0, 1, 0], [0, 0, 0, 0], [1, 1, 1, 0]]
    for name in ("latency", "error", "parity", "answered", "seconds"):
        assert (sum(getattr(counts, name) for counts in by_size) == getattr(windows(traffic), name)).all()


def test_a_window_is_complete_when_its_last_answer_is_in(traffic: Traffic) -> None:
    """An answer that takes four seconds keeps its window open for as long, and later windows do not overtake it."""
    assert windows(traffic).complete_at.tolist() == [14, 20, 30, 40, 50, 60]


def test_seconds_hold_attempts_and_failures_of_both_arms(traffic: Traffic) -> None:
    """The breaker sees each second's attempts."""
    counts = windows(traffic)
    assert counts.seconds[9].tolist() == [2, 1, 0, 0]
    assert counts.seconds[2].tolist() == [1, 0, 1, 0]
    assert counts.seconds.sum(axis=0).tolist() == [4, 1, 2, 0]


def test_minutes_show_live_requests_only(traffic: Traffic) -> None:
    """A metrics store sees no copies as the candidate's traffic; pairs are a metric of their own."""
    seen = minutes(traffic)
    assert seen.rates[0].tolist() == [[2, 1], [3, 1], [1, 1]]
    assert seen.errors[0].tolist() == pytest.approx([0.0, 1 / 3])
    assert seen.quantiles[0, CANDIDATE, 0] == pytest.approx(2030.0)


def test_a_minute_without_traffic_has_no_values() -> None:
    """No request, no quantile and no error rate."""
    seen = minutes(split(hand_made(120), GROUND, weight_bp=1000, copies_bp=500, parity_rate=0.0))
    assert np.isnan(seen.quantiles[1]).all()
    assert np.isnan(seen.errors[1]).all()
    assert seen.rates[1].sum() == 0


def test_bad_live_requests_are_failures_and_what_is_beyond_the_p99_limit(traffic: Traffic) -> None:
    """Copies harm nobody; a live request counts once, from the moment it arrives."""
    assert bad_live(traffic, 60.0) == 2
    assert bad_live(traffic, 9.7) == 1
    assert bad_live(traffic, 5.0) == 0


def test_no_request_is_lost_or_invented() -> None:
    """Over a whole stream the windows, the seconds and the minutes hold every request once."""
    stream = draw_stream(KINDS["default"], np.random.default_rng(3), seconds=600, rate=50.0)
    traffic = split(stream, GROUND, weight_bp=1000, copies_bp=500, parity_rate=0.01)
    counts, seen = windows(traffic), minutes(traffic)
    attempts = stream.arrival.size + int(traffic.copied.sum())
    assert counts.error[:, (0, 2)].sum() == attempts
    assert counts.seconds[:, (0, 2)].sum() == attempts
    assert seen.rates[:, 1, 0].sum() == traffic.candidate.sum()
    assert counts.error[:, 1].sum() + counts.answered.sum() == counts.error[:, 0].sum()
