"""Metric names and label sets: server and gateway export these, alerts and dashboards read them."""

from dataclasses import dataclass
from typing import Final

# The limits that people write into an SLO are edges, so the share within one is counted, not interpolated.
SECONDS_EDGES: Final = (
    0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.25, 0.3,
    0.4, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 30.0, 60.0
)  # fmt: skip
ROWS_EDGES: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512)
RATIO_EDGES: Final = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """A name, what an operator reads in it, and its labels in export order."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


SERVER_STATE: Final = Metric("canary_server_state", "1 for the state the server is in.", ("state",))
SERVER_RESTARTS: Final = Metric("canary_server_worker_restarts", "Device workers that were lost and started again.")
SERVER_INFO: Final = Metric(
    "canary_server_info", "Identity of what answers.", ("identity", "device", "dtype", "emulated", "compiled")
)
SERVER_BUCKETS: Final = Metric("canary_server_buckets", "Declared shape buckets.")
SERVER_BUCKETS_WARM: Final = Metric("canary_server_buckets_warm", "Shape buckets that ran until stable.")
SERVER_BUCKET_SECONDS: Final = Metric(
    "canary_server_bucket_seconds", "Warm-up times of a bucket: first call, warm median.", ("bucket", "phase")
)
SERVER_COMPILES: Final = Metric("canary_server_compiles", "Programs compiled, by when.", ("phase",))
SERVER_REQUESTS: Final = Metric("canary_server_requests", "Requests answered.", ("route", "status", "reason"))
SERVER_REQUEST_SECONDS: Final = Metric(
    "canary_server_request_seconds", "Arrival to last byte of an answered inference request.", ("route",)
)
SERVER_PHASE_SECONDS: Final = Metric(
    "canary_server_phase_seconds", "Time of a request in queue, batch and device.", ("phase",)
)
SERVER_QUEUE_ROWS: Final = Metric("canary_server_queue_rows", "Rows waiting.")
SERVER_QUEUE_CAPACITY: Final = Metric("canary_server_queue_capacity_rows", "Rows that may wait.")
SERVER_QUEUE_RATIO: Final = Metric("canary_server_queue_ratio", "Rows waiting as a share of those that may, 0 to 1.")
SERVER_DROPPED: Final = Metric(
    "canary_server_dropped", "Requests that left the queue before the device ran them, by why.", ("reason",)
)
SERVER_BATCHES: Final = Metric("canary_server_batches", "Batches run, by bucket.", ("bucket",))
SERVER_BATCHES_FAILED: Final = Metric("canary_server_batches_failed", "Batches that the device could not run.")
SERVER_BATCH_ROWS: Final = Metric("canary_server_batch_rows", "Rows sent to the device, by kind.", ("kind",))
SERVER_BATCH_TOKENS: Final = Metric(
    "canary_server_batch_tokens",
    "Token positions sent to the device, by kind; padding is computed for nothing.",
    ("kind",),
)
SERVER_ROWS_PER_BATCH: Final = Metric("canary_server_rows_per_batch", "Useful rows of a batch.")
SERVER_PADDING: Final = Metric(
    "canary_server_batch_padding_ratio", "Share of a batch's token positions that are padding, 0 to 1."
)
SERVER_MEMORY: Final = Metric(
    "canary_server_device_memory_bytes",
    "Memory of the device: used, peak since the warm-up, limit. Absent where the device does not count it.",
    ("kind",),
)

SERVER_SPANS_LOST: Final = Metric(
    "canary_server_spans_lost", "Spans that did not reach the collector: not taken, too many, or an error.", ("reason",)
)

GATEWAY_REQUESTS: Final = Metric(
    "canary_gateway_requests", "Judged requests by arm, lane and outcome.", ("arm", "lane", "outcome")
)
GATEWAY_LATENCY: Final = Metric(
    "canary_gateway_request_seconds", "Latency of successful answers, measured in the gateway.", ("arm", "lane")
)
GATEWAY_WEIGHT: Final = Metric("canary_gateway_weight", "Share of judged traffic for the candidate, 0 to 1.")
GATEWAY_EPOCH: Final = Metric("canary_gateway_epoch", "Routing epoch.")
GATEWAY_STATE: Final = Metric("canary_gateway_state", "1 for the state the rollout is in.", ("state",))
GATEWAY_ARM_READY: Final = Metric("canary_gateway_arm_ready", "1 when the arm was ready at the last poll.", ("arm",))
GATEWAY_PAIRS: Final = Metric(
    "canary_gateway_pairs", "Pairs of answers: equal, different, or not compared.", ("result",)
)
GATEWAY_COPIES: Final = Metric("canary_gateway_copies", "Copies by direction and fate.", ("direction", "fate"))
GATEWAY_EVIDENCE: Final = Metric(
    "canary_gateway_evidence", "E value against the candidate; rolled back at 1/alpha.", ("metric",)
)
GATEWAY_BREAKER: Final = Metric("canary_gateway_breaker_score", "Breaker score, 0 to 16; 8 is sick.", ("arm",))
GATEWAY_LATE: Final = Metric("canary_gateway_late_events", "Events that came after their window was judged.")
GATEWAY_INCOMPLETE: Final = Metric(
    "canary_gateway_incomplete_windows", "Windows that were closed without the report of a worker."
)
GATEWAY_STREAMS: Final = Metric(
    "canary_gateway_streams", "Judged event streams that have ended, by arm, lane and end.", ("arm", "lane", "end")
)
GATEWAY_WORKERS: Final = Metric("canary_gateway_workers", "Data workers that were heard in the last ten seconds.")
GATEWAY_JUDGE_AGE: Final = Metric("canary_gateway_judge_age_seconds", "Seconds since the judge last ran to its end.")
GATEWAY_TIME_TO_ZERO: Final = Metric(
    "canary_gateway_time_to_zero_seconds", "Last rollback: decision to the last worker's acknowledgement."
)
