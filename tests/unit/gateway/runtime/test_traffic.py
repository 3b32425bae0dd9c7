"""The present rate of judged requests."""

from gateway.core.plan import RuleParameters
from gateway.core.snapshot import Report, WindowCounts
from gateway.core.types import Count, Lane, Role, empty_tally
from gateway.runtime.traffic import KEPT_S, Traffic

RULE = RuleParameters()
FAST = RuleParameters(window_s=1.0)


def news(at: float, n: int, *, lane: Lane = Lane.LIVE, count: Count = Count.OK, role: Role = Role.BASELINE) -> Report:
    tally = empty_tally()
    tally[count] = n
    return Report(
        name="w0", version=1, epoch=1, at=at, windows=[WindowCounts(window=1, role=role, lane=lane, tally=tally)],
        latencies=[], open_since=None, breaker=(0.0, 0.0), seconds=[], tripped=False, recent_failovers=0,
        in_flight=(0, 0), connections=(0, 0),
    )  # fmt: skip


def test_nothing_is_known_before_a_minute_is_counted() -> None:
    """Six windows: a minute of the default rule, six seconds of a rule ten times faster."""
    traffic = Traffic(1000.0)
    for second in range(70):
        assert (traffic.rate(1000.0 + second, RULE) is None) is (second < 60)
        assert (traffic.rate(1000.0 + second, FAST) is None) is (second < 6)
        traffic.add(news(1000.5 + second, 8))


def test_the_rate_is_that_of_the_last_five_minutes() -> None:
    """What came before is forgotten, and nothing grows."""
    traffic = Traffic(0.0)
    for second in range(1000):
        traffic.add(news(second + 1.0, 2 if second < 500 else 10))
    assert traffic.rate(1000.0, RULE) == 10.0
    assert traffic.rate(1000.0, FAST) == 10.0
    assert len(traffic._seconds) == KEPT_S


def test_silence_is_a_rate_of_none_a_second() -> None:
    """Known to be nothing is not the same as not known."""
    assert Traffic(0.0).rate(60.0, RULE) == 0.0
    traffic = Traffic(0.0)
    traffic.add(news(1.0, 500))
    assert traffic.rate(400.0, RULE) == 0.0


def test_each_judged_request_counts_once_and_copies_never() -> None:
    """Of both arms, failed and unavailable ones included; what a client cancelled or got wrong is no event."""
    traffic = Traffic(0.0)
    for second in range(60):
        traffic.add(news(second + 1.0, 3))
        traffic.add(news(second + 1.0, 1, role=Role.CANDIDATE, count=Count.UNAVAILABLE))
        for lane in (Lane.COPY, Lane.CLIENT):
            traffic.add(news(second + 1.0, 50, lane=lane))
        for count in (Count.CANCELLED, Count.CLIENT_FAULT, Count.SHED, Count.LAT95_N):
            traffic.add(news(second + 1.0, 50, count=count))
    assert traffic.rate(60.0, RULE) == 4.0


def test_workers_report_in_any_order() -> None:
    """A report a little behind another's is counted all the same."""
    traffic = Traffic(0.0)
    for second in range(100):
        traffic.add(news(second + 1.9, 1))
        traffic.add(news(second + 1.1, 1))
        traffic.add(news(second + 0.5, 1))
    assert traffic.rate(100.0, RULE) == 3.0
