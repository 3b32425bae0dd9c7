import numpy as np
import pytest

from bench.streams import BASELINE, CANDIDATE, KINDS, Floats, Stream, draw_stream, long_run

HOUR_S = 3600


def draw(kind: str, seed: int, seconds: int = HOUR_S, rate: float = 50.0) -> Stream:
    return draw_stream(KINDS[kind], np.random.default_rng(seed), seconds=seconds, rate=rate)


def per_window_variance(stream: Stream, limit: float) -> float:
    """Variance of the slow requests of a 10 s window, over what independent requests would have."""
    window = (stream.arrival / 10.0).astype(int)
    slow = stream.ms[BASELINE] > limit
    n, k = np.bincount(window), np.bincount(window, weights=slow)
    share = k.sum() / n.sum()
    return float(((k - n * share) ** 2).sum() / (n * share * (1.0 - share)).sum())


def correlation(a: Floats, b: Floats) -> float:
    return float(np.corrcoef(a, b)[0, 1])


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_seed_gives_the_same_stream_again_and_another_seed_another(kind: str) -> None:
    """A stream is a function of its seed alone."""
    first, again, other = draw(kind, 5, 600), draw(kind, 5, 600), draw(kind, 6, 600)
    for name in ("arrival", "ms", "error_rate", "error_draw", "parity_draw", "split_draw", "copy_draw", "fault_draw"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert first.phase == again.phase
    assert first.arrival.size != other.arrival.size or not np.array_equal(first.arrival, other.arrival)


def test_requests_arrive_in_order_within_the_run_at_the_rate_that_was_asked_for() -> None:
    """Arrivals are sorted, lie inside the run, and their number is Poisson around rate times seconds."""
    stream = draw("default", 1)
    assert np.all(np.diff(stream.arrival) >= 0.0)
    assert stream.arrival[0] >= 0.0
    assert stream.arrival[-1] < HOUR_S
    assert abs(stream.arrival.size - 50 * HOUR_S) < 5 * np.sqrt(50 * HOUR_S)
    assert stream.ms.shape == (2, stream.arrival.size)
    assert np.all(stream.ms > 0.0)


@pytest.mark.parametrize(("kind", "stretches"), [("iid", 4), ("default", 12), ("heavy", 12)])
def test_long_run_quantiles_are_those_of_streams_that_were_not_used_to_find_them(kind: str, stretches: int) -> None:
    """Fresh streams exceed the long-run p50, p95 and p99 by as much as these promise, within a sixth."""
    expected = long_run(KINDS[kind])
    streams = [draw(kind, seed, 4 * HOUR_S, rate=5.0) for seed in range(stretches)]
    ms = np.concatenate([stream.ms for stream in streams], axis=1)
    for quantile, allowed in ((expected.p50, 0.50), (expected.p95, 0.05), (expected.p97, 0.03), (expected.p99, 0.01)):
        assert float((ms > quantile).mean()) == pytest.approx(allowed, rel=1 / 6)
    errors = np.concatenate([stream.error_rate for stream in streams], axis=1)
    assert float(errors.mean()) == pytest.approx(expected.error_rate, rel=1 / 6)


def test_the_arms_are_alike_in_the_long_run() -> None:
    """Neither arm is slower than the other over many hours."""
    pool = long_run(KINDS["default"])
    for quantile in (0.5, 0.95, 0.99):
        baseline, candidate = (float(np.quantile(pool.ms[arm], quantile)) for arm in (BASELINE, CANDIDATE))
        assert candidate == pytest.approx(baseline, rel=0.02)


def test_slow_requests_come_in_clusters_except_on_the_iid_stream() -> None:
    """Counts of slow requests vary by window as independent ones do on iid, and far more on the others."""
    iid, default, heavy = (
        np.mean([per_window_variance(draw(kind, seed), long_run(KINDS[kind]).p99) for seed in range(3)])
        for kind in ("iid", "default", "heavy")
    )
    assert iid == pytest.approx(1.0, abs=0.2)
    assert min(default, heavy) > 5.0 * iid


def test_the_arms_share_the_size_of_a_request_but_not_their_stragglers() -> None:
    """Latencies of one request on both arms are correlated, and far from equal."""
    stream = draw("default", 2)
    both = correlation(np.log(stream.ms[BASELINE]), np.log(stream.ms[CANDIDATE]))
    assert 0.5 < both < 0.98


def test_the_iid_stream_has_the_marginals_of_the_default_one() -> None:
    """Taking the clusters out of a stream does not change how slow its requests are."""
    assert long_run(KINDS["iid"]) is long_run(KINDS["default"])
    ms = draw("iid", 3).ms
    assert float(np.quantile(ms, 0.99)) == pytest.approx(long_run(KINDS["default"]).p99, rel=0.03)


def test_heavy_is_heavier() -> None:
    """More bursts give a longer tail and more errors, and leave the median nearly where it was."""
    default, heavy = long_run(KINDS["default"]), long_run(KINDS["heavy"])
    assert heavy.p99 > 1.1 * default.p99
    assert heavy.error_rate > 1.2 * default.error_rate
    assert heavy.p50 < 1.1 * default.p50


def test_spells_of_one_arm_last_longer_than_windows_only_on_the_stream_that_is_made_of_them() -> None:
    """How much slower one arm is than the other carries over to 20 s later on spells, and hardly on default."""

    def carried(kind: str) -> float:
        values = []
        for seed in range(4):
            stream = draw(kind, seed)
            window = (stream.arrival / 10.0).astype(int)
            gap = np.log(stream.ms[CANDIDATE] / stream.ms[BASELINE])
            mean = np.bincount(window, weights=gap) / np.bincount(window)
            # Only spells are this large; the wobble of the arms, which carries over too, is clipped away.
            large = np.clip(np.abs(mean) - 0.2, 0.0, None)
            values.append(correlation(large[:-2], large[2:]))
        return float(np.mean(values))

    assert carried("spells") > 0.2
    assert carried("spells") > 2.0 * carried("default")


def test_bursts_of_errors_outlast_windows_only_on_the_stream_that_is_made_of_them() -> None:
    """Of the bursts of errors under way, half still are 10 s later where they come in fits, and few by default."""

    def carried(kind: str) -> float:
        under_way = still = 0
        for seed in range(4):
            stream = draw(kind, seed, 8 * HOUR_S, rate=5.0)
            rate = stream.error_rate[CANDIDATE]
            broken = rate > rate.min()
            later = np.searchsorted(stream.arrival, stream.arrival + 10.0)
            known = later < rate.size
            under_way += int(broken[known].sum())
            still += int((broken[known] & broken[later[known]]).sum())
        return still / under_way

    assert carried("fits") > 0.4
    assert carried("default") < 0.2


def test_longer_spells_take_no_more_of_the_time() -> None:
    """The streams of spells differ in how long these last, not in how much there is of them: the same long-run tail."""
    assert long_run(KINDS["spells120"]).p95 == pytest.approx(long_run(KINDS["spells15"]).p95, rel=0.03)
