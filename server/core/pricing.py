"""What a catalogue costs for given traffic: programs, padding, warm-up, memory, and what it does not serve.

Padding is the share of the cells (token positions, pixels) that the device computes for nothing. It is told for rows
that stand in a lane of their own width, as this server batches, and for batches formed in order of arrival, where the
longest row widens all of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from server.core.catalog import Catalogue
from server.core.types import Bucket


@dataclass(frozen=True, slots=True)
class Group:
    """``count`` requests of ``rows`` inputs, of these sizes at most in each named dimension."""

    rows: int
    sizes: tuple[int, ...]
    count: int

    @property
    def cells(self) -> int:
        """Of all of its rows, without padding."""
        return self.rows * self.count * prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of a bucket's warm-up: its first call, compiled and from the cache (None: never seen), and the rest."""

    compiled_s: float | None
    cached_s: float | None
    steady_s: float
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class BatchPrice:
    """Full batches of one size. ``padding`` in lanes, ``arrival_padding`` in order of arrival; None: not known.

    ``rows`` of the served requests' rows have a shape at this size.
    """

    batch: int
    rows: int
    padding: float | None
    arrival_padding: float | None


@dataclass(frozen=True, slots=True)
class Price:
    """``alone_padding``: each request in its own bucket. Seconds and bytes are None where some bucket was not measured.

    ``measured`` is how many of ``programs`` were. ``refused`` are the requests that would not be served.
    """

    programs: int
    requests: int
    served: int
    refused: tuple[Group, ...]
    alone_padding: float | None
    batches: tuple[BatchPrice, ...]
    measured: int
    cold_s: float | None
    warm_s: float | None
    memory_bytes: int | None


def price(catalogue: Catalogue, traffic: Sequence[Group], measured: Mapping[str, Measured]) -> Price:
    """``measured`` by the bucket's name."""
    served: list[tuple[Group, Bucket]] = []
    refused: list[Group] = []
    for group in traffic:
        bucket = catalogue.fit(group.rows, *group.sizes)
        if isinstance(bucket, Bucket):
            served.append((group, bucket))
        else:
            refused.append(group)
    groups = [group for group, _ in served]
    found = [measured[str(bucket)] for bucket in catalogue.buckets() if str(bucket) in measured]
    complete = len(found) == len(catalogue.buckets())
    return Price(
        programs=catalogue.programs,
        requests=sum(group.count for group in traffic),
        served=sum(group.count for group in groups),
        refused=tuple(sorted(refused, key=lambda group: group.count, reverse=True)),
        alone_padding=_padding(
            sum(group.cells for group in groups), sum(group.count * bucket.cells for group, bucket in served)
        ),
        batches=tuple(_batch_price(catalogue, batch, groups) for batch in catalogue.batches),
        measured=len(found),
        cold_s=_total([_plus(each.compiled_s, each.steady_s) for each in found]) if complete else None,
        warm_s=_total([_plus(each.cached_s, each.steady_s) for each in found]) if complete else None,
        memory_bytes=_largest([each.memory_bytes for each in found]) if complete else None,
    )


def _batch_price(catalogue: Catalogue, batch: int, groups: Sequence[Group]) -> BatchPrice:
    shapes = sorted((each for each in catalogue.buckets() if each.batch == batch), key=lambda each: each.cells)
    held = [
        (group, shape)
        for group in groups
        if (shape := next((each for each in shapes if _holds(each, group.sizes)), None)) is not None
    ]
    useful = sum(group.cells for group, _ in held)
    computed = sum(group.rows * group.count * prod(shape.sizes) for group, shape in held)
    return BatchPrice(
        batch=batch,
        rows=sum(group.rows * group.count for group, _ in held),
        padding=_padding(useful, computed),
        arrival_padding=_arrival_padding(batch, held),
    )


def _holds(bucket: Bucket, sizes: Sequence[int]) -> bool:
    return all(have >= need for have, need in zip(bucket.sizes, sizes, strict=True))


def _arrival_padding(batch: int, held: Sequence[tuple[Group, Bucket]]) -> float | None:
    """Expected, for rows drawn independently; with one dimension the widest row alone decides the shape.

    The widest of ``batch`` rows needs at most width w with probability F(w) ** batch.
    """
    if not held or len(held[0][0].sizes) != 1:
        return None
    rows_by_width: dict[int, int] = {}
    for group, shape in held:
        rows_by_width[shape.length] = rows_by_width.get(shape.length, 0) + group.rows * group.count
    rows = sum(rows_by_width.values())
    expected, below, before = 0.0, 0, 0.0
    for width in sorted(rows_by_width):
        below += rows_by_width[width]
        reached = (below / rows) ** batch
        expected += width * (reached - before)
        before = reached
    return 1 - sum(group.cells for group, _ in held) / rows / expected


def _padding(useful: int, computed: int) -> float | None:
    return 1 - useful / computed if computed else None


def _plus(first_s: float | None, steady_s: float) -> float | None:
    return None if first_s is None else first_s + steady_s


def _total(seconds: Sequence[float | None]) -> float | None:
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None


def _largest(sizes: Sequence[int | None]) -> int | None:
    known = [each for each in sizes if each is not None]
    return max(known) if known and len(known) == len(sizes) else None
