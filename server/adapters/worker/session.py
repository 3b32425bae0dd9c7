"""One model on one device: load, accept, warm, seal, then answer batches."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from server.adapters.worker.engine import Ahead, Device, EngineFailed, Model
from server.adapters.worker.placed import Engine
from server.adapters.worker.record import Record
from server.adapters.worker.torch_device import allow_shapes, traced_graphs
from server.adapters.worker.warm_up import WarmUp
from server.core.acceptance import Acceptance, judge, limit_for
from server.core.batch import pad_rows
from server.core.signature import IDS, MASK
from server.core.types import Bucket, EngineFacts, TokenRows
from server.ports.worker import BucketBegan, Finished, Loaded, Run, RunFailed, Start, Warmed, WorkerEvent


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
        self._engine: Engine
        self._output = ""
        self._ran = set(start.buckets)

    def load(self, model: Model) -> "Probe":
        """The model to the device, its eager output against the CPU's. Raises EngineFailed."""
        _check_served(model)
        self._check_lengths(model)
        if self._cache is not None:
            start = self._start
            self._record = Record(self._cache, model.revision, start.device, start.dtype, start.matmul_precision)
        self._output = model.signature.outputs[0].name
        probe = Probe(self._start, model)
        self._engine = Engine(model, self._device)
        self._engine.open(self._start.dtype, self._start.matmul_precision)
        acceptance = probe.check(self._call(*probe.inputs(probe.bucket, 0)), probe.bucket, 0)
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

    def warm(self, probe: "Probe") -> None:
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
        self._tell(Warmed())

    def run(self, command: Run) -> WorkerEvent:
        """One batch. That it must compile is told before: it may take minutes."""
        if self._compiled and command.bucket not in self._ran:
            self._tell(BucketBegan(command.bucket))
        built = _Built(self._device)
        began = time.perf_counter()
        try:
            vectors = self._call(command.ids, command.mask, command.bucket)
        except Exception as error:  # whatever torch raises concerns this batch; the device may still be fine
            return RunFailed(command.number, f"{type(error).__name__}: {error}", built.since())
        device_s = time.perf_counter() - began
        self._ran.add(command.bucket)
        return Finished(command.number, vectors, device_s, built.since())

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

    def _call(self, ids: bytes, mask: bytes, bucket: Bucket) -> bytes:
        """Ids and mask were padded on the host; the answer is cut there, too."""
        outputs = self._engine.call({IDS: _rows(ids, bucket), MASK: _rows(mask, bucket)})
        return outputs[self._output].astype(np.float32, copy=False).tobytes()

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


def _check_served(model: Model) -> None:
    """What batches can carry so far: token ids and mask in, one row of numbers out."""
    signature = model.signature
    if not (signature.takes_tokens and signature.rows_of_floats):
        raise EngineFailed(
            f"model: takes {', '.join(spec.name for spec in signature.inputs)} and gives "
            f"{', '.join(spec.name for spec in signature.outputs)}, served are models that take {IDS} and {MASK} "
            "and give one row of numbers each; `canary-server smoke` can try it"
        )


def _rows(raw: bytes, bucket: Bucket) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """A copy: what comes over the line is read-only, and a view would have an offset."""
    return np.frombuffer(raw, dtype=np.int32).reshape(bucket.batch, bucket.length).copy()


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


class Probe:
    """The fixed input of acceptance and warm-up, and what the CPU answers to it in float32.

    For each length of the catalogue a row of that length, so that every position is compared, and a row of half of
    it, so that padding is. In a bucket they take turns, by row and by call: a batch of one sees both.
    """

    def __init__(self, start: Start, model: Model) -> None:
        self.bucket = min(start.buckets, key=lambda bucket: (bucket.length, abs(bucket.batch - 2)))
        self._dim = model.dim
        self._limit = limit_for(start.dtype, start.matmul_precision)
        self._rows = {
            length: (_ids(length, model.vocabulary, 1), _ids(max(1, length // 2), model.vocabulary, 2))
            for length in {bucket.length for bucket in start.buckets}
        }
        self._reference = {
            length: tuple(self._answer(model, row) for row in rows) for length, rows in self._rows.items()
        }

    def inputs(self, bucket: Bucket, turn: int) -> tuple[bytes, bytes, Bucket]:
        """Ids and mask of a full bucket, and the bucket, for a call with the number ``turn``."""
        rows = self._rows[bucket.length]
        return (*pad_rows([TokenRows([rows[(row + turn) % 2] for row in range(bucket.batch)])], bucket), bucket)

    def check(self, vectors: bytes, bucket: Bucket, turn: int) -> Acceptance:
        """All rows of a full bucket against the reference."""
        reference = self._reference[bucket.length]
        wanted = b"".join(reference[(row + turn) % 2] for row in range(bucket.batch))
        return judge(wanted, vectors, self._dim, self._limit)

    @staticmethod
    def _answer(model: Model, row: list[int]) -> bytes:
        ids = torch.tensor([row], dtype=torch.int32)
        with torch.inference_mode():
            found = model.module(ids, torch.ones_like(ids))
        rows = found[0] if isinstance(found, tuple) else found
        array: np.ndarray[Any, np.dtype[np.float32]] = rows.to(torch.float32).numpy()
        return array.tobytes()


def _ids(length: int, vocabulary: int, seed: int) -> list[int]:
    """A fixed row that uses the vocabulary's whole width: steps of a prime, nothing drawn."""
    return [(seed * 1009 + position * 7919) % vocabulary for position in range(length)]
