"""The fixed input of acceptance and warm-up, and what the CPU answers to it in float32."""

from itertools import cycle, islice

from server.adapters.worker.engine import EngineFailed, Model
from server.adapters.worker.samples import alone, half, sample
from server.core.acceptance import Acceptance, judge, limit_for, worst
from server.core.padding import pad_rows, stretched
from server.core.tensors import Raw, Rows, TensorRows, Tensors
from server.core.types import Bucket
from server.ports.worker import Start


class Probe:
    """For each size of the catalogue a row of that size, so that every position is compared, and another one: of half
    of it where rows may be padded, so that padding is. In a bucket they take turns, by row and by call: a batch of one
    sees both.
    """

    def __init__(self, start: Start, model: Model) -> None:
        self.bucket = min(start.buckets, key=lambda bucket: (bucket.sizes, abs(bucket.batch - 2)))
        self._signature = model.signature
        self._dimensions = start.dimensions
        self._limit = limit_for(start.dtype, start.matmul_precision)
        pads = model.signature.takes_tokens or model.signature.padding != "none"
        self._rows = {
            sizes: (
                sample(model, sizes, start.dimensions, 1),
                sample(model, half(sizes) if pads else sizes, start.dimensions, 2),
            )
            for sizes in {bucket.sizes for bucket in start.buckets}
        }
        self._reference = {sizes: tuple(alone(model, row) for row in rows) for sizes, rows in self._rows.items()}

    def inputs(self, bucket: Bucket, turn: int) -> dict[str, Raw]:
        """Of a full bucket, for a call with the number ``turn``."""
        pair = [self._padded(row, bucket) for row in self._rows[bucket.sizes]]
        return pad_rows(list(islice(cycle(pair), turn % 2, turn % 2 + bucket.batch)), bucket)

    def check(self, outputs: Tensors, bucket: Bucket, turn: int) -> Acceptance:
        """All rows of a full bucket against the reference. Raises EngineFailed where an output has another shape."""
        judged = []
        for first in range(min(2, bucket.batch)):
            for name, wanted in self._reference[bucket.sizes][(first + turn) % 2].items():
                rows = outputs[name].array()[first::2]
                if self._signature.padding != "none":
                    rows = rows[(slice(None), *(slice(0, size) for size in wanted.shape[1:]))]
                if rows.shape[1:] != wanted.shape[1:]:
                    shapes = f"the CPU gives rows {list(wanted.shape[1:])}, the device {list(rows.shape[1:])}"
                    raise EngineFailed(f"acceptance: {name}: {shapes}")
                judged.append(judge(wanted, rows, self._limit))
        return worst(judged)

    def _padded(self, row: Rows, bucket: Bucket) -> Rows:
        if isinstance(row, TensorRows):
            return stretched(row, self._signature, self._dimensions, bucket.sizes)
        return row
