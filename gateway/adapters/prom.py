"""Prometheus exposition of the gateway: counters are read from the evidence at scrape time, nothing is kept twice."""

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from gateway.core.histogram import Histogram, value_of
from gateway.core.run import State
from gateway.core.types import FULL_WEIGHT, OUTCOME_COUNT, Count, Role
from gateway.runtime.analyst import Analyst
from gateway.runtime.conductor import Conductor
from gateway.runtime.counted import EverCounted
from gateway.runtime.replica import Replica
from wire import metrics

Samples = Mapping[tuple[str, ...], float]
"""Label values in export order -> value."""


class GatewayCollector(Collector):
    """Every metric of the gateway, from what control process and analyst hold."""

    def __init__(self, conductor: Conductor, analyst: Analyst, replica: Replica) -> None:
        self._conductor, self._analyst, self._replica = conductor, analyst, replica

    def collect(self) -> Iterable[Metric]:
        yield from self._traffic(self._analyst.ever)
        yield from self._routing()
        yield from self._judging()

    def _traffic(self, ever: EverCounted) -> Iterable[Metric]:
        requests = _counter(metrics.GATEWAY_REQUESTS)
        for (role, lane), tally in sorted(ever.tallies.items()):
            for outcome, count in OUTCOME_COUNT.items():
                requests.add_metric([role, lane, outcome], tally[count])
        yield requests
        streams = _counter(metrics.GATEWAY_STREAMS)
        for (role, lane), tally in sorted(ever.tallies.items()):
            broken = tally[Count.STREAMS_BROKEN]
            streams.add_metric([role, lane, "whole"], tally[Count.STREAMS] - broken)
            streams.add_metric([role, lane, "broken"], broken)
        yield streams
        latency = HistogramMetricFamily(
            metrics.GATEWAY_LATENCY.name, metrics.GATEWAY_LATENCY.help, labels=metrics.GATEWAY_LATENCY.labels
        )
        for (role, lane), histogram in sorted(ever.latencies.items()):
            buckets, total_s = _buckets(histogram)
            latency.add_metric([role, lane], buckets=buckets, sum_value=total_s)
        yield latency
        copies = _counter(metrics.GATEWAY_COPIES)
        for key, n in sorted(ever.copies.items()):
            direction, _, fate = key.partition(":")
            copies.add_metric([direction, fate], n)
        yield copies
        pairs = _counter(metrics.GATEWAY_PAIRS)
        pairs.add_metric(["equal"], ever.pairs - ever.pairs_bad)
        pairs.add_metric(["different"], ever.pairs_bad)
        pairs.add_metric(["not_compared"], ever.not_compared.total())
        yield pairs
        late = _counter(metrics.GATEWAY_LATE)
        late.add_metric([], ever.late_events)
        yield late
        incomplete = _counter(metrics.GATEWAY_INCOMPLETE)
        incomplete.add_metric([], ever.incomplete_windows)
        yield incomplete

    def _routing(self) -> Iterable[Metric]:
        conductor, replica = self._conductor, self._replica
        yield _gauge(metrics.GATEWAY_WEIGHT, {(): conductor.rollout.weight / FULL_WEIGHT})
        yield _gauge(metrics.GATEWAY_EPOCH, {(): conductor.rollout.epoch})
        yield _gauge(metrics.GATEWAY_STATE, {(s.value,): float(s is conductor.rollout.state) for s in State})
        ready: Samples = {(role.value,): float(conductor.health[conductor.arm(role).name].ready) for role in Role}
        yield _gauge(metrics.GATEWAY_ARM_READY, ready)
        alive = len(replica.workers) - len(replica.silent())
        yield _gauge(metrics.GATEWAY_WORKERS, {(): alive})
        scores: Samples = {
            (role.value,): max((w.breaker[i] for w in replica.workers.values()), default=0.0)
            for i, role in enumerate(Role)
        }
        yield _gauge(metrics.GATEWAY_BREAKER, scores)
        if conductor.last_time_to_zero_s is not None:
            yield _gauge(metrics.GATEWAY_TIME_TO_ZERO, {(): conductor.last_time_to_zero_s})

    def _judging(self) -> Iterable[Metric]:
        verdict = self._analyst.verdict
        if verdict is not None:
            yield _gauge(metrics.GATEWAY_EVIDENCE, {(str(m),): part for m, part in verdict.parts().items()})
        age = self._conductor.clock.wall() - self._analyst.last_look
        yield _gauge(metrics.GATEWAY_JUDGE_AGE, {(): age})


def exposition(collector: GatewayCollector) -> tuple[bytes, str]:
    """Body and content type for a scrape."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry), CONTENT_TYPE_LATEST


def _counter(metric: metrics.Metric) -> CounterMetricFamily:
    return CounterMetricFamily(metric.name, metric.help, labels=metric.labels)


def _gauge(metric: metrics.Metric, samples: Samples) -> GaugeMetricFamily:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in samples.items():
        family.add_metric(list(labels), value)
    return family


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Cumulative counts at the exported edges, and the sum in seconds (both from bin midpoints)."""
    counts = [0] * (len(metrics.SECONDS_EDGES) + 1)
    total_s = 0.0
    for bin_, n in histogram.bins():
        seconds = value_of(bin_)
        total_s += seconds * n
        index = next((i for i, edge in enumerate(metrics.SECONDS_EDGES) if seconds <= edge), len(counts) - 1)
        counts[index] += n
    edges = [*(str(edge) for edge in metrics.SECONDS_EDGES), "+Inf"]
    running, buckets = 0, []
    for edge, n in zip(edges, counts, strict=True):
        running += n
        buckets.append((edge, float(running)))
    return buckets, total_s
