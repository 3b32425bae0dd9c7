"""One model on one device: load, accept, warm, seal, then answer batches."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch

from server.adapters.worker.engine import Ahead, Device, EngineFailed, Model
from server.adapters.worker.placed import Engine
from server.adapters.worker.probe import Probe
from server.adapters.worker.profiling import Profiling
from server.adapters.worker.record import Record
from server.adapters.worker.samples import arrays_of
from server.adapters.worker.torch_device import allow_shapes, traced_graphs
from server.adapters.worker.warm_up import WarmUp
from server.core.acceptance import Acceptance
from server.core.layout import MAX_BATCH_BYTES, holds, problems, shape_in
from server.core.signature import TensorSpec
from server.core.tensors import Array, Raw, Tensors, travels_as
from server.core.types import Bucket, DeviceMemory, EngineFacts
from server.ports.worker import BucketBegan, Finished, Loaded, Run, RunFailed, Start, Warmed, WorkerEvent

# The allocator's statistics cost tens of microseconds, and nobody looks more often.
MEMORY_S: Final = 1.0


class Session:
    """The life of the worker after its environment is set. Every method runs on the one device thread.

    ``cache`` is the folder of this combination's programs, where the record of the warm-up is kept.
    """

    def __init__(
        self, start: Start, device: Device, tell: Callable[[WorkerEvent], None], cache: Path | None = None
    ) -> None:
        self._start = start
        self._device = device
        self._tell = tell
        self._compiled = device.compiled_by_default() if start.compile is None else start.compile
        self._cache = cache
        self._ahead: Ahead | None = None
        self._record: Record | None = None
        self.memory: DeviceMemory | None = None
        self._memory_due = 0.0
        self._engine: Engine
        # Of the inputs in each bucket; of a lenient server there are no more than its programs.
        self._shapes: dict[Bucket, dict[str, tuple[int, ...]]] = {}
        self._ran = set(start.buckets)

    def load(self, model: Model) -> Probe:
        """The model to the device, its eager output against the CPU's. Raises EngineFailed."""
        _check_served(self._start, model)
        if model.signature.takes_tokens:
            self._check_lengths(model)
        if self._cache is not None:
            start = self._start
            self._record = Record(self._cache, model.revision, start.device, start.dtype, start.matmul_precision)
        probe = Probe(self._start, model)
        self._engine = Engine(model, self._device)
        self._engine.open(self._start.dtype, self._start.matmul_precision)
        acceptance = probe.check(self._call(probe.inputs(probe.bucket, 0), probe.bucket), probe.bucket, 0)
        if not acceptance.passed:
            raise EngineFailed(
                f"acceptance: {self._start.device} {self._start.dtype} differs from the CPU in float32: {acceptance}"
            )
        record = self._record
        expected_s = None if record is None else record.expected_s(str(bucket) for bucket in self._start.buckets)
        self._tell(Loaded(self._facts(model, acceptance), expected_s))
        if self._compiled:
            lenient = self._start.lenient
            allow_shapes(len(self._start.buckets) if lenient is None else lenient.programs)
            # A lenient server compiles on the request path, where a call must not end before its program is there.
            self._ahead = self._engine.compile(side_by_side=self._start.parallel and lenient is None)
        return probe

    def warm(self, probe: Probe, profiling: Profiling | None = None) -> None:
        """Every declared bucket until stable; then, unless lenient, nothing compiles any more. Raises EngineFailed."""
        WarmUp(
            self._start,
            self._device,
            self._call,
            probe,
            self._tell,
            compiled=self._compiled,
            ahead=self._ahead,
            record=self._record,
        ).run()
        self._check_precision()
        if self._start.lenient is None:
            self._device.seal(compiled=self._compiled)
        self._device.flush()
        if profiling is not None:
            profiling.rehearse(lambda: self._call(probe.inputs(probe.bucket, 0), probe.bucket))
        self._device.watch_memory()
        self._look_at_memory(time.monotonic())
        self._tell(Warmed())

    def run(self, command: Run) -> WorkerEvent:
        """One batch. That it must compile is told before: it may take minutes."""
        if self._compiled and command.bucket not in self._ran:
            self._tell(BucketBegan(command.bucket))
        built = _Built(self._device)
        began = time.monotonic()
        try:
            outputs = self._call(command.inputs, command.bucket)
        except Exception as error:  # whatever torch raises concerns this batch; the device may still be fine
            return RunFailed(command.number, f"{type(error).__name__}: {error}", built.since())
        ended = time.monotonic()
        self._ran.add(command.bucket)
        self._look_at_memory(ended)
        return Finished(command.number, outputs, ended - began, built.since(), began)

    def _look_at_memory(self, now: float) -> None:
        """On this thread: whether a back end may be asked from another one while it computes is not known."""
        if now >= self._memory_due:
            self._memory_due = now + MEMORY_S
            self.memory = self._device.memory()

    def _check_precision(self) -> None:
        """Programs keep the precision that they were compiled with, without a word; the identity says this one."""
        found = torch.get_float32_matmul_precision()
        if found != self._start.matmul_precision:
            raise EngineFailed(
                f"matmul_precision: was set to {self._start.matmul_precision} before the warm-up and is {found} after "
                "it: something in the model changes it"
            )

    def _check_lengths(self, model: Model) -> None:
        longest = {"catalogue.length": max(bucket.length for bucket in self._start.buckets)}
        if self._start.lenient is not None:
            longest["largest.length"] = self._start.lenient.largest.length
        for field, length in longest.items():
            if length > model.max_length:
                raise EngineFailed(f"{field}: got {length}, this model takes at most {model.max_length} tokens")

    def _call(self, inputs: Tensors, bucket: Bucket) -> dict[str, Raw]:
        """Everything was padded on the host, and is cut there, too. Raises EngineFailed."""
        signature = self._engine.model.signature
        if bucket not in self._shapes:
            self._shapes[bucket] = {
                spec.name: shape_in(spec, bucket, self._start.dimensions) for spec in signature.inputs
            }
        for name, wanted in self._shapes[bucket].items():
            if inputs[name].shape != wanted:
                raise EngineFailed(f"{name}: got shape {list(inputs[name].shape)}, bucket {bucket} has {list(wanted)}")
        found = self._engine.call(arrays_of(inputs))
        outputs = {spec.name: self._output(spec, found[spec.name], bucket) for spec in signature.outputs}
        size = sum(len(raw.data) for raw in outputs.values())
        if size > MAX_BATCH_BYTES:
            raise EngineFailed(
                f"catalogue: got {bucket}, whose outputs are {size} bytes, allowed are {MAX_BATCH_BYTES}"
            )
        return outputs

    def _output(self, spec: TensorSpec, array: Array, bucket: Bucket) -> Raw:
        if array.shape[:1] != (bucket.batch,) or not holds(spec, array.shape):
            raise EngineFailed(
                f"{spec.name}: the model gives {list(array.shape)} for {bucket.batch} rows, declared is {spec.spelt}"
            )
        return Raw.of(travels_as(spec.datatype), array)

    def _facts(self, model: Model, acceptance: Acceptance) -> EngineFacts:
        versions = self._device.versions()
        return EngineFacts(
            revision=model.revision,
            vocabulary=model.vocabulary,
            dim=model.dim,
            max_length=model.max_length,
            compiled=self._compiled,
            emulated=self._device.emulated,
            torch=str(versions["torch"]),
            torch_tpu=versions["torch_tpu"],
            libtpu=versions["libtpu"],
            topology=versions["topology"],
            acceptance=str(acceptance),
            signature=model.signature,
        )


def _check_served(start: Start, model: Model) -> None:
    """Whether batches of the catalogue can carry the model. Raises EngineFailed with every reason."""
    found = problems(model.signature, start.dimensions, start.buckets)
    if start.lenient is not None and not model.signature.takes_tokens:
        found.append("strict: got false, allowed is true: the model takes no tokens, whose mask a lenient server needs")
    if found:
        raise EngineFailed("; ".join(found))


class _Built:
    """Counts the programs that one call had built.

    The device's counter alone is not enough. torch_tpu 0.2.0 on the emulator, a shape's first call: compiled (3 to
    4 s) it counts 1 and Dynamo traces 1 graph; found in the compile cache on disk (1.2 to 1.6 s: a trace and a load)
    it counts 0 and Dynamo traces 1. Second calls (10 to 160 ms) leave both alone. The larger of the two counts no
    program twice, and at least one a batch that stalled, be it for an eager operation, which is no graph.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._before = device.compiles(), traced_graphs()

    def since(self) -> int:
        compiles, graphs = self._before
        return max(self._device.compiles() - compiles, traced_graphs() - graphs)
