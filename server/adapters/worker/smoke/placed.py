"""One mode on the device: first calls, warm-up, steady state, differences, memory, and the checkpoint round trip."""

import resource
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from server.adapters.worker.engine import Device, Model
from server.adapters.worker.placed import Arrays, Engine
from server.adapters.worker.smoke.arrays import difference, read
from server.adapters.worker.torch_device import allow_shapes, cache_hits
from server.core.smoke import BucketRun, Checkpoint, Placed
from server.core.types import Bucket, Source
from server.core.warmup import order
from server.ports.smoke import Job


def run_placed(job: Job, model: Model, device: Device, load_s: float) -> Placed:
    """Raises EngineFailed, or what torch raises where the model does not run in this mode."""
    start, compiled = job.start, job.mode == "compiled"
    engine = Engine(model, device)
    began = time.perf_counter()
    engine.open(start.dtype, start.matmul_precision)
    load_s += time.perf_counter() - began
    buckets = order(start.buckets)
    if compiled:
        allow_shapes(len(buckets))
        engine.compile()
    given = {bucket: read(Path(job.arrays), bucket) for bucket in buckets}
    warm = [_warm(job, engine, bucket, given[bucket][0]) for bucket in buckets]
    checkpoint = None if compiled else _round_trip(engine, given[buckets[-1]][0])
    device.seal(compiled=compiled)
    runs = tuple(_steady(job, engine, each, *given[each[0]]) for each in warm)
    memory, why = _device_memory(device, start.device)
    return Placed(
        mode="compiled" if compiled else "eager",
        load_s=load_s,
        emulated=device.emulated,
        topology=device.versions()["topology"],
        buckets=runs,
        device_memory=memory,
        memory_why=why,
        host_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        fallback=_fallback(start.device),
        checkpoint=checkpoint,
    )


_Warm = tuple[Bucket, list[float], int, Source]


def _warm(job: Job, engine: Engine, bucket: Bucket, inputs: Arrays) -> _Warm:
    compiles, hits = engine.device.compiles(), cache_hits()
    calls: list[float] = []
    while not calls or not job.start.stability.enough(calls[1:]):
        calls.append(_timed(engine, inputs)[0])
    source: Source = "eager"
    if job.mode == "compiled":
        source = "cache" if cache_hits() > hits else "compiled"
    return bucket, calls, engine.device.compiles() - compiles, source


def _steady(job: Job, engine: Engine, warm: _Warm, inputs: Arrays, wanted: Arrays) -> BucketRun:
    bucket, calls, compiles, source = warm
    before = engine.device.compiles()
    timed = [_timed(engine, inputs) for _ in range(job.steady_calls)]
    seconds = [each for each, _ in timed]
    return BucketRun(
        bucket=bucket,
        first_s=calls[0],
        warm_calls=len(calls) - 1,
        warm_s=median(calls[1:]),
        steady_s=median(seconds),
        steady_max_s=max(seconds),
        steady_calls=len(seconds),
        compiles=compiles,
        compiles_after=engine.device.compiles() - before,
        source=source,
        difference=difference(wanted, timed[-1][1], job.tolerance),
    )


def _timed(engine: Engine, inputs: Arrays) -> tuple[float, Arrays]:
    """To the end of the copy to the host: on a TPU a synchronise has been seen not to wait."""
    began = time.perf_counter()
    outputs = engine.call(inputs)
    return time.perf_counter() - began, outputs


def _round_trip(engine: Engine, inputs: Arrays) -> Checkpoint:
    """The weights off the device, into a file, and back; then the same question again."""
    before = engine.call(inputs)
    state = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in engine.module.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "checkpoint.safetensors"
        save_file(state, file)
        size, loaded = file.stat().st_size, load_file(file)
    differing = sum(1 for name, tensor in state.items() if not _same_bits(tensor, loaded.get(name)))
    engine.module.load_state_dict(loaded, strict=True)
    after = engine.call(inputs)
    same = all(before[name].tobytes() == after[name].tobytes() for name in before)
    return Checkpoint(len(state), size, differing + len(loaded.keys() - state.keys()), same)


def _same_bits(left: torch.Tensor, right: torch.Tensor | None) -> bool:
    if right is None or left.dtype != right.dtype or left.shape != right.shape:
        return False
    return bool(torch.equal(left.flatten().view(torch.uint8), right.flatten().view(torch.uint8)))


def _device_memory(device: Device, kind: str) -> tuple[int | None, str]:
    if kind == "cpu":
        return None, "the CPU has no memory of its own; see the host's"
    peak = device.peak_memory()
    return peak, "" if peak is not None else "this device's back end does not count it"


def _fallback(device: str) -> bool | None:
    """Whether torch_tpu may run an operator on the CPU in silence; None where there is no such switch."""
    if device not in ("tpu", "tpu-emulator"):
        return None
    try:
        from torch_tpu._internal import execution_mode

        mode: Any = execution_mode
        return bool(getattr(mode, "execution_mode", mode).enable_cpu_fallback)
    except Exception:  # private, and may be renamed
        return None
