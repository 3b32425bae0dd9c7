"""Counts in Triton's form."""

from server.adapters.prom import PromTelemetry
from server.adapters.statistics import Statistics
from server.core.batch import Batch, Waiting
from server.core.lifecycle import Life
from server.core.types import Bucket, TokenRows
from wire.statistics import BatchStatistics, Duration


class Clock:
    def monotonic(self) -> float:
        return 5.0

    def wall(self) -> float:
        return 1234.5


def batch(*rows: int) -> Batch:
    members = tuple(Waiting(number, TokenRows([[1]] * count), (8,), 0.0) for number, count in enumerate(rows))
    return Batch(Bucket(4, 8), members)


def test_nothing_is_counted_at_first() -> None:
    """Zeros, and no batch size."""
    found = Statistics(PromTelemetry(8), Clock()).of("m", "v")
    assert (found.name, found.version, found.last_inference, found.batch_stats) == ("m", "v", 0, [])
    assert found.inference_stats.success == Duration(0, 0)


def test_rows_batches_and_times_add_up() -> None:
    """Of a batch every member spent the whole time there; by batch size it is spent once."""
    statistics = Statistics(PromTelemetry(8), Clock())
    statistics.batch_done(batch(1, 2), batch_s=0.5, device_s=0.25, compiles=0)
    statistics.batch_done(batch(3), batch_s=0.5, device_s=0.25, compiles=0)
    statistics.batch_done(batch(1), batch_s=0.125, device_s=0.25, compiles=0)
    statistics.request_done("r", 200, "", 0.75, 0.125)
    statistics.request_done("r", 504, "deadline", 0.25, None)
    statistics.request_done("r", 404, "model_not_found", 0.25, None)
    found = statistics.of("m", "v")
    assert (found.inference_count, found.execution_count, found.last_inference) == (7, 3, 1_234_500)
    inference = found.inference_stats
    assert (inference.success, inference.fail, inference.queue) == (
        Duration(1, 750_000_000), Duration(1, 250_000_000), Duration(1, 125_000_000),
    )  # fmt: skip
    assert (inference.compute_input, inference.compute_infer) == (Duration(4, 750_000_000), Duration(4, 1_000_000_000))
    assert found.batch_stats == [
        BatchStatistics(1, Duration(1, 0), Duration(1, 250_000_000), Duration()),
        BatchStatistics(3, Duration(2, 500_000_000), Duration(2, 500_000_000), Duration()),
    ]


def test_the_metrics_are_told_all_of_it() -> None:
    """Counting here takes nothing away there."""
    metrics = PromTelemetry(8)
    statistics = Statistics(metrics, Clock())
    statistics.life_changed(Life(since=0.0, buckets=2))
    statistics.queue_changed(3)
    statistics.batch_done(batch(3), batch_s=0.5, device_s=0.25, compiles=1)
    statistics.batch_failed(compiles=1)
    statistics.request_done("r", 200, "", 0.75, 0.125)
    shown = metrics.exposition().decode()
    for line in (
        "canary_server_buckets 2.0",
        "canary_server_queue_rows 3.0",
        'canary_server_batch_rows_total{kind="useful"} 3.0',
        'canary_server_compiles_total{phase="serving"} 2.0',
        'canary_server_requests_total{reason="",route="r",status="200"} 1.0',
    ):
        assert line in shown
