import pytest

from demo.chart import COLUMNS, Sample, chart
from demo.frame import WIDTH


def sample(at: float, weight: float, baseline: float | None = 40.0, candidate: float | None = 60.0) -> Sample:
    return Sample(at=at, weight=weight, baseline_p95_ms=baseline, candidate_p95_ms=candidate)


def picture(*samples: Sample, fault_at: float | None = None, decided_at: float | None = None) -> list[str]:
    return chart(samples, limit_ms=400.0, fault_at=fault_at, decided_at=decided_at)


def test_weight_has_a_row_for_each_that_was_reached() -> None:
    """10 % and 50 % are read off the axis, and the bars are as long as the weights were held."""
    lines = picture(*(sample(at, 0.0 if at < 50 else 10.0 if at < 75 else 50.0) for at in range(101)))
    high, low = lines[1], lines[2]
    assert high.split("|")[0].strip() == "50"
    assert low.split("|")[0].strip() == "10"
    assert low.count("#") == pytest.approx(COLUMNS / 2, abs=2)
    assert high.count("#") == pytest.approx(COLUMNS / 4, abs=2)


def test_a_slow_candidate_rises_above_the_limit() -> None:
    """The candidate's mark leaves the baseline's, and stands above the line of the limit."""
    lines = picture(*(sample(at, 10.0, candidate=40.0 if at < 50 else 900.0) for at in range(101)), fault_at=50.0)
    rows = [line.partition("|")[2] for line in lines if "|" in line][1:]
    candidate = next(number for number, row in enumerate(rows) if "c" in row)
    limit = next(number for number, row in enumerate(rows) if "-" in row)
    assert candidate < limit
    assert "*" in rows[-1]
    assert rows[-1].rstrip().endswith("b")
    assert lines[-2].index("F") == pytest.approx(12 + COLUMNS / 2, abs=1)
    assert lines[-1].strip() == "0 to 100 s, F fault begins at 50 s"


def test_nothing_measured_is_drawn_as_nothing() -> None:
    """Without samples there is no picture; an arm without answers has no mark."""
    assert picture() == []
    lines = picture(sample(0.0, 0.0, None, None), decided_at=0.0)
    assert not any(mark in line.partition("|")[2] for line in lines for mark in "bc*#")


def test_it_fits_the_terminal_whatever_the_numbers() -> None:
    """No line is longer than the terminal is wide, and no number breaks it."""
    wild = [sample(float(at), 100.0, 0.01, 10.0**at) for at in range(8)]
    for lines in (picture(*wild, fault_at=-5.0, decided_at=1e9), picture(sample(0.0, 0.0, 400.0, 400.0))):
        assert max(len(line) for line in lines) <= WIDTH
        assert len(lines) <= 20


def test_fault_and_decision_in_one_column_are_both_told() -> None:
    """Two marks at the same place become one that says so."""
    lines = picture(*(sample(at, 10.0) for at in range(200)), fault_at=100.0, decided_at=100.5)
    assert "X" in lines[-2]
    assert lines[-1].endswith("X both")


def test_small_latencies_have_labels_of_their_own() -> None:
    """Below ten milliseconds the axis still tells one row from the next."""
    lines = chart([sample(0.0, 10.0, 0.5, 2.5)], limit_ms=3.0, fault_at=None, decided_at=None)
    labels = [line.partition("|")[0].strip() for line in lines if "|" in line][1:]
    shown = [label for label in labels if label]
    assert len(shown) == len(set(shown))
