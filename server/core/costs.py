"""What a batch costs, from the warm-up's own timings: on one device rounding up is dear, on another it is free."""

from collections.abc import Mapping, Sequence
from typing import Final

from server.core.catalog import Catalogue
from server.core.types import Bucket, BucketTiming

# Timings of a few calls differ by as much without meaning anything: then the larger batch, which saves a turn.
CLEARLY: Final = 1.05


class Costs:
    """Seconds of each bucket. Without timings every batch costs nothing, and the largest is the best."""

    def __init__(self, catalogue: Catalogue, timings: Sequence[BucketTiming] = ()) -> None:
        self.catalogue = catalogue
        timed = {timing.bucket: timing.warm_s for timing in timings if timing.warm_s > 0}
        self._seconds = {bucket: _at_most(bucket, timed) for bucket in timed}
        largest = max(self._seconds, default=None, key=lambda bucket: bucket.cells)
        self._cell_s = 0.0 if largest is None else self._seconds[largest] / largest.cells
        self._parts: dict[tuple[int, ...], int] = {}
        self._work: dict[tuple[int, tuple[int, ...]], tuple[float, float]] = {}

    def seconds(self, bucket: Bucket) -> float:
        """Of one batch. An undeclared shape was never timed: as the largest one that was, by its size."""
        known = self._seconds.get(bucket)
        return bucket.cells * self._cell_s if known is None else known

    def better(self, rows: int, bucket: Bucket, than: float) -> float | None:
        """Useful rows a second of ``rows`` in ``bucket``, None when that is clearly less than ``than``.

        Batches are compared from small to large, ``than`` being the best so far.
        """
        seconds = self.seconds(bucket)
        if seconds == 0:
            return than
        rate = rows / seconds
        return None if rate * CLEARLY < than else max(rate, than)

    def part_rows(self, sizes: tuple[int, ...]) -> int:
        """The rows at which a large request is cut: the best declared batch, and of nearly equal ones the largest."""
        if sizes not in self._parts:
            self._parts[sizes] = self._part_rows(sizes)
        return self._parts[sizes]

    def work(self, rows: int, sizes: tuple[int, ...]) -> float:
        """Seconds until ``rows`` of a lane are done, in parts."""
        return self._shares(rows, sizes)[0]

    def ahead(self, rows: int, sizes: tuple[int, ...]) -> float:
        """As ``work``, without the last part."""
        total, last = self._shares(rows, sizes)
        return total - last

    def _shares(self, rows: int, sizes: tuple[int, ...]) -> tuple[float, float]:
        """All of it, and the last part of it."""
        if rows <= 0 or self._cell_s == 0:
            return 0.0, 0.0
        known = self._work.get((rows, sizes))
        if known is None:
            part = self.part_rows(sizes)
            last = self._fitting(rows - (rows - 1) // part * part, sizes)
            known = (rows - 1) // part * self._fitting(part, sizes) + last, last
            self._work[(rows, sizes)] = known
        return known

    def _fitting(self, rows: int, sizes: tuple[int, ...]) -> float:
        bucket = self.catalogue.fit(rows, *sizes)
        return self.seconds(bucket) if isinstance(bucket, Bucket) else 0.0

    def _part_rows(self, sizes: tuple[int, ...]) -> int:
        full = [
            bucket
            for batch in self.catalogue.batches
            if isinstance(bucket := self.catalogue.fit(batch, *sizes), Bucket) and bucket.batch == batch
        ]
        rates = {bucket.batch: bucket.batch / self.seconds(bucket) for bucket in full if self.seconds(bucket)}
        if not rates:
            return max((bucket.batch for bucket in full), default=self.catalogue.full_rows)
        best = max(rates.values())
        return max(rows for rows, rate in rates.items() if rate * CLEARLY >= best)


def _at_most(bucket: Bucket, timed: Mapping[Bucket, float]) -> float:
    """No shape takes longer than one that holds it: where it seems so the machine was busy when it was timed."""
    return min(
        seconds
        for other, seconds in timed.items()
        if other.batch >= bucket.batch
        and all(theirs >= ours for theirs, ours in zip(other.sizes, bucket.sizes, strict=True))
    )
