"""Metrics under the names of the wire."""

from server.adapters.prom import PromTelemetry
from server.core.batch import Batch, Waiting
from server.core.lifecycle import Event, Life
from server.core.types import Bucket, BucketTiming, DeviceMemory, TokenRows
from wire.health import Identity


def lines(telemetry: PromTelemetry) -> set[str]:
    return {line for line in telemetry.exposition().decode().splitlines() if not line.startswith("#")}


def test_the_state_is_one_of_all() -> None:
    """1 for the present state, 0 for the others."""
    telemetry = PromTelemetry(8)
    telemetry.life_changed(Life(since=0.0, buckets=2).after(Event.SPAWNED, 1.0))
    shown = lines(telemetry)
    assert 'canary_server_state{state="loading"} 1.0' in shown
    assert 'canary_server_state{state="ready"} 0.0' in shown
    assert "canary_server_buckets 2.0" in shown
    assert "canary_server_buckets_warm 0.0" in shown


def test_each_bucket_of_the_warm_up_is_counted_once() -> None:
    """However often the life is told."""
    telemetry = PromTelemetry(8)
    life = Life(since=0.0, buckets=2).after(Event.SPAWNED, 1.0).after(Event.LOADED, 1.0)
    life = life.finished(BucketTiming(Bucket(1, 16), 4.0, 0.02, 5, 1, "compiled"))
    for _ in range(3):
        telemetry.life_changed(life)
    shown = lines(telemetry)
    assert 'canary_server_compiles_total{phase="warm_up"} 1.0' in shown
    assert 'canary_server_compiles_total{phase="serving"} 0.0' in shown
    assert 'canary_server_bucket_seconds{bucket="1x16",phase="first"} 4.0' in shown
    assert 'canary_server_bucket_seconds{bucket="1x16",phase="warm"} 0.02' in shown


def test_a_lost_worker_is_counted_and_its_warm_up_begins_anew() -> None:
    """Once, however often the life is told; the buckets of the new worker are reported again."""
    telemetry = PromTelemetry(8)
    life = Life(since=0.0, buckets=1)
    for _ in range(2):
        life = life.after(Event.SPAWNED, 1.0).after(Event.LOADED, 1.0)
        life = life.finished(BucketTiming(Bucket(1, 16), 4.0, 0.02, 5, 1, "compiled"))
        telemetry.life_changed(life)
        life = life.after(Event.LOST, 2.0, reason="signal 9")
        telemetry.life_changed(life)
        telemetry.life_changed(life)
    shown = lines(telemetry)
    assert "canary_server_worker_restarts_total 2.0" in shown
    assert "canary_server_buckets_warm 0.0" in shown
    assert 'canary_server_compiles_total{phase="warm_up"} 2.0' in shown


def test_a_batch_counts_useful_and_padding_rows() -> None:
    """And any compile that it caused."""
    telemetry = PromTelemetry(8)
    batch = Batch(Bucket(4, 16), (Waiting(1, TokenRows([[1], [2], [3, 4]]), (16,), 0.0),))
    telemetry.batch_done(batch, batch_s=0.02, device_s=0.01, compiles=2)
    shown = lines(telemetry)
    assert 'canary_server_batches_total{bucket="4x16"} 1.0' in shown
    assert 'canary_server_batch_rows_total{kind="useful"} 3.0' in shown
    assert 'canary_server_batch_rows_total{kind="padding"} 1.0' in shown
    assert 'canary_server_batch_tokens_total{kind="useful"} 4.0' in shown
    assert 'canary_server_batch_tokens_total{kind="padding"} 60.0' in shown
    assert 'canary_server_rows_per_batch_bucket{le="3.0"} 1.0' in shown
    assert 'canary_server_rows_per_batch_bucket{le="2.0"} 0.0' in shown
    assert "canary_server_batch_padding_ratio_sum 0.9375" in shown
    assert 'canary_server_compiles_total{phase="serving"} 2.0' in shown


def test_what_a_failed_batch_compiled_is_counted() -> None:
    """It compiled on the request path all the same."""
    telemetry = PromTelemetry(8)
    telemetry.batch_failed(compiles=3)
    assert 'canary_server_compiles_total{phase="serving"} 3.0' in lines(telemetry)
    assert "canary_server_batches_failed_total 1.0" in lines(telemetry)


def test_the_queue_is_shown_in_rows_and_as_a_share_of_what_may_wait() -> None:
    """An alert on the share fits every size of queue."""
    telemetry = PromTelemetry(8)
    telemetry.queue_changed(6)
    shown = lines(telemetry)
    assert "canary_server_queue_rows 6.0" in shown
    assert "canary_server_queue_capacity_rows 8.0" in shown
    assert "canary_server_queue_ratio 0.75" in shown


def test_memory_is_absent_until_a_device_counts_it() -> None:
    """Zero would be a number."""
    telemetry = PromTelemetry(8)
    assert not any("device_memory" in line for line in lines(telemetry))
    telemetry.memory_changed(DeviceMemory(10, 20))
    shown = {line for line in lines(telemetry) if "device_memory" in line}
    assert shown == {
        'canary_server_device_memory_bytes{kind="used"} 10.0',
        'canary_server_device_memory_bytes{kind="peak"} 20.0',
    }
    telemetry.memory_changed(DeviceMemory(10, 20, 30))
    assert 'canary_server_device_memory_bytes{kind="limit"} 30.0' in lines(telemetry)


def test_the_edges_of_timed_histograms_can_be_chosen() -> None:
    """Those of rows and shares stay."""
    telemetry = PromTelemetry(8, edges=(0.5, 2.0))
    telemetry.request_done("/r", 200, "", 1.0, 0.001)
    shown = lines(telemetry)
    assert 'canary_server_request_seconds_bucket{le="0.5",route="/r"} 0.0' in shown
    assert 'canary_server_request_seconds_bucket{le="2.0",route="/r"} 1.0' in shown
    assert len([line for line in shown if line.startswith("canary_server_request_seconds_bucket")]) == 3


def test_refused_requests_are_counted_but_not_timed() -> None:
    """A fast refusal must not flatter the latency."""
    telemetry = PromTelemetry(8)
    telemetry.request_done("/r", 200, "", 0.02, 0.001)
    telemetry.request_done("/r", 429, "queue_full", 0.0001, None)
    shown = lines(telemetry)
    assert 'canary_server_requests_total{reason="",route="/r",status="200"} 1.0' in shown
    assert 'canary_server_requests_total{reason="queue_full",route="/r",status="429"} 1.0' in shown
    assert 'canary_server_request_seconds_count{route="/r"} 1.0' in shown


def test_the_identity_says_whether_it_is_emulated() -> None:
    """A dashboard can tell."""
    telemetry = PromTelemetry(8)
    identity = Identity(
        model="m",
        revision="r",
        tokenizer="t",
        truncation="never",
        output="o",
        dtype="float32",
        matmul_precision="highest",
        catalogue="c",
        device="tpu-emulator",
        emulated=True,
        compiled=True,
        strict=True,
        torch="2.13.0",
    )
    telemetry.set_identity(identity)
    (line,) = [line for line in lines(telemetry) if line.startswith("canary_server_info")]
    assert 'emulated="true"' in line
    assert f'identity="{identity.digest()}"' in line
