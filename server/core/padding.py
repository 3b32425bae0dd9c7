"""From the requests of a batch to the tensors of its bucket, and from what comes back to each request's share."""

from array import array
from collections.abc import Sequence

import numpy as np

from server.core.batch import Batch
from server.core.layout import shape_in
from server.core.signature import IDS, MASK, ModelSignature
from server.core.tensors import Raw, Rows, TensorRows, Tensors, joined
from server.core.types import Bucket, TokenRows


def pad(batch: Batch) -> dict[str, Raw]:
    """The inputs of a batch, all of the bucket's shape."""
    return pad_rows([member.asked for member in batch.members], batch.bucket)


def pad_rows(requests: Sequence[Rows], bucket: Bucket) -> dict[str, Raw]:
    """As ``pad``, for requests that stand in no lane, of one kind."""
    tokens = [each for each in requests if isinstance(each, TokenRows)]
    if tokens:
        return _pad_tokens(tokens, bucket)
    return _pad_tensors([each for each in requests if isinstance(each, TensorRows)], bucket)


def split(outputs: Tensors, counts: Sequence[int]) -> list[dict[str, Raw]]:
    """Each request's share of the rows, in order; padding rows at the end fall away."""
    shares: list[dict[str, Raw]] = [{} for _ in counts]
    for name, raw in outputs.items():
        for share, rows in zip(shares, raw.divided(counts), strict=True):
            share[name] = rows
    return shares


def _pad_tokens(requests: Sequence[TokenRows], bucket: Bucket) -> dict[str, Raw]:
    """Ids and mask as int32. Padding is id 0 under mask 0.

    Rows beyond the requests keep one token, since a row without any has no mean.
    """
    width = bucket.length
    # Arrays are appended whole; of a list each number is looked at.
    zeros, ones = array("i", [0]) * width, array("i", [1]) * width
    ids, mask = array("i"), array("i")
    for tokens in requests:
        for index, row in enumerate(tokens.ids):
            used = min(len(row), width)
            ids.extend(row if used == len(row) else row[:used])
            mask.extend(ones[:used] if tokens.masks is None else tokens.masks[index][:used])
            ids.extend(zeros[used:])
            mask.extend(zeros[used:])
    missing = bucket.batch - len(ids) // width
    ids.extend(zeros * missing)
    mask.extend((ones[:1] + zeros[1:]) * missing)
    shape = (bucket.batch, bucket.length)
    return {IDS: Raw("INT32", shape, ids.tobytes()), MASK: Raw("INT32", shape, mask.tobytes())}


def _pad_tensors(requests: Sequence[TensorRows], bucket: Bucket) -> dict[str, Raw]:
    """Rows beyond the requests repeat the first one: what a model makes of zeros nobody has tried, and a division by a
    norm of nothing may well raise.
    """
    missing = bucket.batch - sum(each.count for each in requests)
    return {
        name: joined([*(each.tensors[name] for each in requests), *_repeated(first, missing)])
        for name, first in requests[0].tensors.items()
    }


def _repeated(raw: Raw, times: int) -> list[Raw]:
    return [raw.rows(0, 1)] * times


def stretched(
    rows: TensorRows, signature: ModelSignature, dimensions: Sequence[str], sizes: tuple[int, ...]
) -> TensorRows:
    """The request with zeros appended up to ``sizes`` of the catalogue's dimensions."""
    bucket = Bucket.of((rows.count, *sizes))
    tensors = {
        spec.name: _grown(rows.tensors[spec.name], shape_in(spec, bucket, dimensions)) for spec in signature.inputs
    }
    return TensorRows(tensors, sizes)


def shortened(
    outputs: Tensors, signature: ModelSignature, dimensions: Sequence[str], sizes: tuple[int, ...]
) -> dict[str, Raw]:
    """The outputs without what belongs to appended zeros, ``sizes`` being the request's own."""
    rows = next(iter(outputs.values())).shape[0]
    bucket = Bucket.of((rows, *sizes))
    return {spec.name: _cut(outputs[spec.name], shape_in(spec, bucket, dimensions)) for spec in signature.outputs}


def _grown(raw: Raw, shape: tuple[int, ...]) -> Raw:
    if shape == raw.shape:
        return raw
    after = [(0, size - now) for size, now in zip(shape, raw.shape, strict=True)]
    return Raw.of(raw.datatype, np.pad(raw.array(), after))


def _cut(raw: Raw, shape: tuple[int, ...]) -> Raw:
    return raw if shape == raw.shape else Raw.of(raw.datatype, raw.array()[tuple(slice(0, size) for size in shape)])
