"""Health bodies and identity, from values in memory."""

from dataclasses import dataclass

from server.core.lifecycle import Life
from server.core.types import EngineFacts
from server.core.warmup import cache_gain
from wire.health import BucketReport, HealthBody, Identity


@dataclass(frozen=True, slots=True)
class Served:
    """What the configuration says about the served model."""

    model: str
    device: str
    dtype: str
    matmul_precision: str
    catalogue: str
    strict: bool


def identity_of(served: Served, facts: EngineFacts, tokenizer: str) -> Identity:
    """Everything that may change an answer. ``tokenizer`` is the SHA-256 of its file."""
    return Identity(
        model=served.model,
        revision=facts.revision,
        tokenizer=tokenizer,
        truncation="never: too long is refused",
        output=facts.signature.about or ", ".join(map(str, facts.signature.outputs)),
        dtype=served.dtype,
        matmul_precision=served.matmul_precision,
        catalogue=served.catalogue,
        device=served.device,
        emulated=facts.emulated,
        compiled=facts.compiled,
        strict=served.strict,
        torch=facts.torch,
        torch_tpu=facts.torch_tpu,
        libtpu=facts.libtpu,
        topology=facts.topology,
    )


def health_body(life: Life, facts: EngineFacts | None, now: float, run_id: str = "") -> HealthBody:
    """``cold_s`` is the time from the start of the process to ready."""
    gain = cache_gain(life.warmed)
    emulated = "; emulated, not a TPU" if facts is not None and facts.emulated else ""
    return HealthBody(
        state=life.state.value,
        elapsed_s=round(now - life.since, 3),
        detail=life.detail + emulated,
        bucket=len(life.warmed),
        buckets=life.buckets,
        current=str(life.current) if life.current is not None else "",
        cold_s=None if life.ready_after_s is None else round(life.ready_after_s, 3),
        cache_gain=None if gain is None else round(gain, 2),
        restarts=life.restarts,
        run_id=run_id,
        warm_up=[
            BucketReport(
                bucket=str(timing.bucket),
                first_s=timing.first_s,
                warm_s=timing.warm_s,
                calls=timing.calls,
                compiles=timing.compiles,
                source=timing.source,
                tier=timing.tier,
                compiled_s=timing.compiled_s,
                memory_bytes=timing.memory_bytes,
            )
            for timing in life.warmed
        ],
    )
