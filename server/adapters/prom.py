"""Prometheus: the names and labels of wire.metrics."""

from collections.abc import Sequence
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from server.core.batch import Batch
from server.core.lifecycle import Life, State
from server.core.types import DeviceMemory
from wire import metrics as names
from wire.health import Identity


class PromTelemetry:
    """A Telemetry (see ports) with a registry of its own.

    ``capacity_rows`` may wait; ``edges`` are those of everything that is timed, in seconds.
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, capacity_rows: int, edges: Sequence[float] = names.SECONDS_EDGES) -> None:
        self._registry = CollectorRegistry()
        self._capacity_rows = capacity_rows
        self._gauge(names.SERVER_QUEUE_CAPACITY).set(capacity_rows)
        self._state = self._gauge(names.SERVER_STATE)
        self._restarts = self._counter(names.SERVER_RESTARTS)
        self._info = self._gauge(names.SERVER_INFO)
        self._buckets = self._gauge(names.SERVER_BUCKETS)
        self._warm = self._gauge(names.SERVER_BUCKETS_WARM)
        self._bucket_seconds = self._gauge(names.SERVER_BUCKET_SECONDS)
        self._compiles = self._counter(names.SERVER_COMPILES)
        self._requests = self._counter(names.SERVER_REQUESTS)
        self._request_seconds = self._histogram(names.SERVER_REQUEST_SECONDS, edges)
        self._phase_seconds = self._histogram(names.SERVER_PHASE_SECONDS, edges)
        self._queue_rows = self._gauge(names.SERVER_QUEUE_ROWS)
        self._queue_ratio = self._gauge(names.SERVER_QUEUE_RATIO)
        self._dropped = self._counter(names.SERVER_DROPPED)
        self._batches = self._counter(names.SERVER_BATCHES)
        self._batches_failed = self._counter(names.SERVER_BATCHES_FAILED)
        self._batch_rows = self._counter(names.SERVER_BATCH_ROWS)
        self._batch_tokens = self._counter(names.SERVER_BATCH_TOKENS)
        self._rows_per_batch = self._histogram(names.SERVER_ROWS_PER_BATCH, names.ROWS_EDGES)
        self._padding = self._histogram(names.SERVER_PADDING, names.RATIO_EDGES)
        self._memory = self._gauge(names.SERVER_MEMORY)
        self._spans_lost = self._counter(names.SERVER_SPANS_LOST)
        # What is told with every request or batch is looked up once: a look-up costs more than the count.
        self._answered: dict[tuple[str, int, str], Counter] = {}
        self._took: dict[str, Histogram] = {}
        self._queue_s, self._batch_s, self._device_s = map(self._phase_seconds.labels, ("queue", "batch", "device"))
        self._useful_rows, self._padding_rows = map(self._batch_rows.labels, ("useful", "padding"))
        self._useful_tokens, self._padding_tokens = map(self._batch_tokens.labels, ("useful", "padding"))
        self._rows = 0
        self._seen = 0
        self._restarted = 0
        # Present from the start, so that a rule on an increase has something to increase from.
        for phase in ("warm_up", "serving"):
            self._compiles.labels(phase)
        for why in ("gone", "deadline"):
            self._dropped.labels(why)
        for kind in ("useful", "padding"):
            self._batch_rows.labels(kind)
            self._batch_tokens.labels(kind)

    def exposition(self) -> bytes:
        """All metrics in the text format."""
        self._queue_rows.set(self._rows)
        self._queue_ratio.set(self._rows / self._capacity_rows)
        return generate_latest(self._registry)

    def set_identity(self, identity: Identity) -> None:
        self._info.labels(
            identity.digest(),
            identity.device,
            identity.dtype,
            str(identity.emulated).lower(),
            str(identity.compiled).lower(),
        ).set(1)

    def spans_lost(self, why: str, spans: int) -> None:
        """May be called from any thread."""
        self._spans_lost.labels(why).inc(spans)

    def life_changed(self, life: Life) -> None:
        for state in State:
            self._state.labels(state.value).set(1 if state is life.state else 0)
        self._restarts.inc(life.restarts - self._restarted)
        self._restarted = life.restarts
        self._buckets.set(life.buckets)
        self._warm.set(len(life.warmed))
        for timing in life.warmed[self._seen :]:
            self._bucket_seconds.labels(str(timing.bucket), "first").set(timing.first_s)
            self._bucket_seconds.labels(str(timing.bucket), "warm").set(timing.warm_s)
            self._compiles.labels("warm_up").inc(timing.compiles)
        self._seen = len(life.warmed)

    def queue_changed(self, rows: int) -> None:
        self._rows = rows

    def left_queue(self, why: Literal["gone", "deadline"]) -> None:
        self._dropped.labels(why).inc()

    def batch_done(self, batch: Batch, *, batch_s: float, device_s: float, compiles: int) -> None:
        self._batches.labels(str(batch.bucket)).inc()
        rows, cells = batch.rows, batch.cells
        self._useful_rows.inc(rows)
        self._padding_rows.inc(batch.bucket.batch - rows)
        self._useful_tokens.inc(cells)
        self._padding_tokens.inc(batch.bucket.cells - cells)
        self._rows_per_batch.observe(rows)
        self._padding.observe(batch.padding)
        self._batch_s.observe(batch_s)
        self._device_s.observe(device_s)
        if compiles:
            self._compiles.labels("serving").inc(compiles)

    def batch_failed(self, *, compiles: int) -> None:
        self._batches_failed.inc()
        self._compiles.labels("serving").inc(compiles)

    def memory_changed(self, memory: DeviceMemory) -> None:
        self._memory.labels("used").set(memory.used)
        self._memory.labels("peak").set(memory.peak)
        if memory.limit is not None:
            self._memory.labels("limit").set(memory.limit)

    def request_done(self, route: str, status: int, reason: str, seconds: float, queue_s: float | None) -> None:
        which = route, status, reason
        answered = self._answered.get(which)
        if answered is None:
            answered = self._answered[which] = self._requests.labels(route, str(status), reason)
        answered.inc()
        if queue_s is not None:
            took = self._took.get(route)
            if took is None:
                took = self._took[route] = self._request_seconds.labels(route)
            took.observe(seconds)
            self._queue_s.observe(queue_s)

    def _gauge(self, metric: names.Metric) -> Gauge:
        return Gauge(metric.name, metric.help, metric.labels, registry=self._registry)

    def _counter(self, metric: names.Metric) -> Counter:
        return Counter(metric.name, metric.help, metric.labels, registry=self._registry)

    def _histogram(self, metric: names.Metric, edges: Sequence[float]) -> Histogram:
        return Histogram(metric.name, metric.help, metric.labels, registry=self._registry, buckets=edges)
