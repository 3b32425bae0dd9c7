"""GET /v2/models/{model}/stats in the form of Triton's statistics extension. Times in nanoseconds, all since the start.

Source: triton-inference-server/server, docs/protocol/extension_statistics.md.
"""

import msgspec


class Duration(msgspec.Struct, frozen=True):
    """How often, and how long all together."""

    count: int = 0
    ns: int = 0


class InferStatistics(msgspec.Struct, frozen=True):
    """Of requests. ``compute_infer`` is the batch's time on the device, the two beside it what else the batch took."""

    success: Duration
    fail: Duration
    queue: Duration
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration
    cache_hit: Duration = Duration()
    cache_miss: Duration = Duration()


class BatchStatistics(msgspec.Struct, frozen=True):
    """Of the executions with this many rows, padding not counted."""

    batch_size: int
    compute_input: Duration
    compute_infer: Duration
    compute_output: Duration


class ModelStatistics(msgspec.Struct, frozen=True):
    """``inference_count`` counts rows, ``execution_count`` batches. ``last_inference``: ms since 1970, 0 is never."""

    name: str
    version: str
    last_inference: int
    inference_count: int
    execution_count: int
    inference_stats: InferStatistics
    batch_stats: list[BatchStatistics]


class StatisticsResponse(msgspec.Struct, frozen=True):
    model_stats: list[ModelStatistics]
