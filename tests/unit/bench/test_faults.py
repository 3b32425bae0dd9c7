import numpy as np
import pytest

from bench.counts import split
from bench.faults import FAULTS, GROSS, HEALTHY, OUTAGE_AT_S
from bench.ground import Ground, at_the_limit, with_room
from bench.streams import BASELINE, CANDIDATE, KINDS, Stream, draw_stream, long_run

DEFAULT = KINDS["default"]


@pytest.fixture(scope="module")
def streams() -> list[Stream]:
    return [draw_stream(DEFAULT, np.random.default_rng(seed), seconds=3600, rate=25.0) for seed in range(6)]


@pytest.fixture(scope="module")
def ground() -> Ground:
    return with_room(long_run(DEFAULT))


def rates(streams: list[Stream], ground: Ground, fault: str, *, after: float = 0.0) -> dict[str, float]:
    """Bad-event rates of the candidate on all requests that arrive from ``after`` on."""
    chosen = FAULTS.get(fault, HEALTHY)
    slower, failed, differs = [], [], []
    for stream in streams:
        faulty = chosen.change(stream, ground)
        parity = ground.parity_rate if chosen.parity_rate is None else chosen.parity_rate
        traffic = split(faulty, ground, weight_bp=1000, copies_bp=500, parity_rate=parity)
        late = stream.arrival >= after
        slower.append(traffic.slower[:, CANDIDATE, late])
        failed.append(traffic.failed[CANDIDATE, late])
        differs.append(traffic.differs[late])
    p50, p95, p99 = np.concatenate(slower, axis=1).mean(axis=1)
    return {
        "p50": float(p50),
        "p95": float(p95),
        "p99": float(p99),
        "error": float(np.concatenate(failed).mean()),
        "parity": float(np.concatenate(differs).mean()),
    }


def test_healthy_arms_have_room_under_every_limit(streams: list[Stream], ground: Ground) -> None:
    """Without a fault every bad-event rate is below what is allowed, most of them clearly."""
    seen = rates(streams, ground, "healthy")
    assert 0.40 < seen["p50"] < 0.50
    assert 0.02 < seen["p95"] < 0.045
    assert 0.002 < seen["p99"] < 0.008
    assert 0.0003 < seen["error"] < 0.0015
    assert 0.0 < seen["parity"] < 0.001


def test_at_the_limit_every_rate_is_the_allowed_one(streams: list[Stream]) -> None:
    """On the boundary the candidate's bad-event rates are what is allowed, within what six hours can show."""
    seen = rates(streams, at_the_limit(long_run(DEFAULT)), "healthy")
    assert seen["p50"] == pytest.approx(0.50, rel=0.1)
    assert seen["p95"] == pytest.approx(0.05, rel=0.2)
    assert seen["p99"] == pytest.approx(0.01, rel=0.3)
    assert seen["error"] == pytest.approx(0.003, rel=0.3)
    assert seen["parity"] == pytest.approx(0.005, rel=0.1)


@pytest.mark.parametrize(
    ("fault", "metric", "least", "most"),
    [
        ("p99x2", "p99", 0.025, 0.035),
        ("p99+50", "p99", 0.02, 0.032),
        ("errors1", "error", 0.0095, 0.012),
        ("errors5", "error", 0.049, 0.053),
        ("parity1", "parity", 0.009, 0.011),
        ("parity10", "parity", 0.097, 0.103),
        ("stall", "p99", 0.022, 0.034),
        ("recompile", "p99", 0.012, 0.018),
    ],
)
def test_a_fault_makes_its_metric_bad_by_as_much_as_it_says(
    streams: list[Stream], ground: Ground, fault: str, metric: str, least: float, most: float
) -> None:
    """The marginal bad-event rate of each fault is known, and the other kinds of failure stay as they were."""
    seen, healthy = rates(streams, ground, fault), rates(streams, ground, "healthy")
    assert least < seen[metric] < most
    unrelated = {"p99": ("error", "parity"), "error": ("p99", "parity"), "parity": ("p99", "error")}[metric]
    for other in unrelated:
        assert seen[other] == pytest.approx(healthy[other], abs=5e-4)


def test_the_p99_is_what_the_tail_fault_says(streams: list[Stream], ground: Ground) -> None:
    """p99x2 doubles the candidate's p99 and leaves its median alone."""
    before = np.concatenate([stream.ms[CANDIDATE] for stream in streams])
    after = np.concatenate([FAULTS["p99x2"].change(stream, ground).ms[CANDIDATE] for stream in streams])
    assert np.quantile(after, 0.99) == pytest.approx(2.0 * np.quantile(before, 0.99))
    assert np.quantile(after, 0.50) == np.quantile(before, 0.50)


def test_an_outage_fails_everything_from_its_beginning_and_nothing_before(
    streams: list[Stream], ground: Ground
) -> None:
    """From the beginning of the outage on every request to the candidate fails; before that it is healthy."""
    assert rates(streams, ground, "outage", after=OUTAGE_AT_S)["error"] == 1.0
    stream = streams[0]
    early = stream.arrival < OUTAGE_AT_S
    faulty = FAULTS["outage"].change(stream, ground)
    assert np.array_equal(faulty.error_rate[CANDIDATE, early], stream.error_rate[CANDIDATE, early])


def test_errors_are_what_they_say_where_the_ground_scales_the_streams_own(streams: list[Stream]) -> None:
    """A fault of 5 % errors is 5 % on top of the arm's own rate at the limit too, and an outage still complete."""
    ground = at_the_limit(long_run(DEFAULT))
    own = rates(streams, ground, "healthy")["error"]
    assert rates(streams, ground, "errors5")["error"] == pytest.approx(own + 0.05, rel=0.05)
    assert rates(streams, ground, "outage", after=OUTAGE_AT_S)["error"] == 1.0


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_only_the_shared_incident_touches_the_baseline(streams: list[Stream], ground: Ground, name: str) -> None:
    """A fault is the candidate's own; a shared incident slows both arms."""
    stream = streams[0]
    faulty = FAULTS[name].change(stream, ground)
    same = np.array_equal(faulty.ms[BASELINE], stream.ms[BASELINE])
    assert same is FAULTS[name].candidate_is_sick
    assert np.array_equal(faulty.error_rate[BASELINE], stream.error_rate[BASELINE])


def test_a_drift_begins_late_and_ends_half_as_slow_again(streams: list[Stream], ground: Ground) -> None:
    """The drift changes nothing in the first half of the hour and reaches a factor of 1.5 at its end."""
    stream = streams[0]
    factor = FAULTS["drift"].change(stream, ground).ms[CANDIDATE] / stream.ms[CANDIDATE]
    assert np.all(factor[stream.arrival < 1800.0] == 1.0)
    assert factor[-1] == pytest.approx(1.5, abs=0.01)


def test_gross_faults_are_faults_of_the_candidate() -> None:
    """What may not be missed is known and the candidate's fault."""
    assert all(FAULTS[name].candidate_is_sick for name in GROSS)
