"""Lanes by size: one FIFO for each, and the lane of the oldest request is served when the device is idle.

Nothing waits for company: a batch is what stands in the lane at that moment, or as much of it as gives the most useful
rows a second. Grouping by size keeps short texts from paying for a long one's padding. What stands in a lane is one
unit and is never split over batches; a request of more rows than one batch takes comes in parts (see parts.py).
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice

from server.core.admission import expired
from server.core.catalog import Catalogue
from server.core.costs import Costs
from server.core.tensors import Rows
from server.core.types import Bucket, ShapeNotServed


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in a lane. ``sizes`` are its bucket's; ``arrived`` and ``deadline`` are seconds of the same clock."""

    ticket: int
    asked: Rows
    sizes: tuple[int, ...]
    arrived: float
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole requests for one bucket, oldest first."""

    bucket: Bucket
    members: tuple[Waiting, ...]

    @property
    def rows(self) -> int:
        return sum(member.asked.count for member in self.members)

    @property
    def cells(self) -> int:
        """That count; the other positions of the bucket are padding."""
        return sum(member.asked.cells for member in self.members)

    @property
    def padding(self) -> float:
        """Share of the bucket's positions that are computed for nothing."""
        return 1 - self.cells / self.bucket.cells


@dataclass(frozen=True, slots=True)
class Turn:
    """What to do now: ``batch`` goes to the device, ``late`` are answered that their deadline passed."""

    batch: Batch | None
    late: tuple[Waiting, ...]


class Lanes:
    """The queue of a server, in rows and in seconds of work."""

    def __init__(self, catalogue: Catalogue, costs: Costs | None = None) -> None:
        self._catalogue = catalogue
        self._costs = Costs(catalogue) if costs is None else costs
        # A lane is there while somebody stands in it: the sizes of a lenient server are not known beforehand.
        self._lanes: dict[tuple[int, ...], deque[Waiting]] = {}
        self._standing: dict[int, Waiting] = {}
        self._lane_rows: dict[tuple[int, ...], int] = {}
        self._with_deadline = 0
        self._rows = 0
        self._work_s = 0.0
        self._refused: set[Bucket] = set()

    @property
    def rows(self) -> int:
        return self._rows

    @property
    def work_s(self) -> float:
        """Seconds of all the work that stands here."""
        return self._work_s

    def price(self, costs: Costs) -> None:
        """From now on batches cost ``costs``, and their shapes are those of its catalogue."""
        self._catalogue = costs.catalogue
        self._costs = costs
        self._work_s = sum(costs.work(rows, sizes) for sizes, rows in self._lane_rows.items())

    def ahead_s(self, rows: int, sizes: tuple[int, ...]) -> float:
        """Seconds of work before the batch in which ``rows`` of ``sizes`` would be that came now.

        An upper bound: of the other lanes all that stands there counts, though some of it came later than the head of
        this one.
        """
        lane = self._lane_rows.get(sizes, 0)
        return max(0.0, self._work_s - self._costs.work(lane, sizes)) + self._costs.ahead(lane + rows, sizes)

    def add(self, waiting: Waiting) -> None:
        self._lanes.setdefault(waiting.sizes, deque()).append(waiting)
        self._standing[waiting.ticket] = waiting
        self._with_deadline += waiting.deadline is not None
        self._count(waiting.sizes, waiting.asked.count)

    def remove(self, ticket: int) -> bool:
        """Takes a request out again; False when it is no longer waiting."""
        waiting = self._standing.get(ticket)
        if waiting is not None:
            self._leave(waiting)
        return waiting is not None

    def stands(self, ticket: int) -> bool:
        return ticket in self._standing

    def clear(self) -> tuple[Waiting, ...]:
        """Empties every lane and returns who stood there."""
        everyone = tuple(self._standing.values())
        for waiting in everyone:
            self._leave(waiting)
        return everyone

    def refuse(self, bucket: Bucket) -> tuple[Waiting, ...]:
        """From now on no batch of ``bucket`` is formed. Whose own shape it is leaves and is returned.

        A smaller request is not concerned: it no longer gets the company that would make this shape.
        """
        self._refused.add(bucket)
        concerned = tuple(
            waiting
            for waiting in self._standing.values()
            if self._catalogue.fit(waiting.asked.count, *waiting.sizes) == bucket
        )
        for waiting in concerned:
            self._leave(waiting)
        return concerned

    def refuses(self, bucket: Bucket) -> bool:
        """Whether a request of this shape must not be added."""
        return bool(self._refused) and bucket in self._refused

    def take(self, now: float) -> Turn:
        """The next batch: from the lane whose head is oldest, that head and as many behind it as are worth while.

        At most the largest declared batch; a request that is larger goes alone. Nobody joins where that would make a
        refused shape.
        """
        late = self._drop_late(now)
        if not self._lanes:
            return Turn(None, late)
        lane = min(self._lanes.values(), key=lambda each: each[0].ticket)
        bucket, members = self._worth_while(lane)
        for member in members:
            self._leave(member)
        return Turn(Batch(bucket, members), late)

    def _worth_while(self, lane: deque[Waiting]) -> tuple[Bucket, tuple[Waiting, ...]]:
        """So many from the head on that useful rows a second are the most, and of nearly equal choices the largest."""
        rows, best, rate = 0, 0, 0.0
        chosen: Bucket | None = None
        for index, waiting in enumerate(lane):
            rows += waiting.asked.count
            bucket = self._catalogue.fit(rows, *waiting.sizes)
            if index and not self._join(rows, waiting.sizes, bucket):
                break
            if isinstance(bucket, ShapeNotServed):
                raise bucket
            better = self._costs.better(rows, bucket, rate)
            if better is not None:
                chosen, best, rate = bucket, index + 1, better
        assert chosen is not None, "nothing was compared before the head, so it was chosen at least"
        return chosen, tuple(islice(lane, best))

    def _join(self, rows: int, sizes: tuple[int, ...], bucket: Bucket | ShapeNotServed) -> bool:
        """Whether several requests, ``rows`` in all, may go together."""
        # Some sizes may be excluded: company must not make anybody's row longer.
        return (
            rows <= self._catalogue.full_rows
            and isinstance(bucket, Bucket)
            and bucket.sizes == sizes
            and not self.refuses(bucket)
        )

    def _drop_late(self, now: float) -> tuple[Waiting, ...]:
        if not self._with_deadline:
            return ()
        late = tuple(each for each in self._standing.values() if expired(each.deadline, now))
        for waiting in late:
            self._leave(waiting)
        return late

    def _leave(self, waiting: Waiting) -> None:
        del self._standing[waiting.ticket]
        lane = self._lanes[waiting.sizes]
        if lane[0] is waiting:
            lane.popleft()
        else:
            lane.remove(waiting)
        if not lane:
            del self._lanes[waiting.sizes]
        self._with_deadline -= waiting.deadline is not None
        self._count(waiting.sizes, -waiting.asked.count)

    def _count(self, sizes: tuple[int, ...], rows: int) -> None:
        before = self._lane_rows.get(sizes, 0)
        self._rows += rows
        self._work_s += self._costs.work(before + rows, sizes) - self._costs.work(before, sizes)
        if before + rows:
            self._lane_rows[sizes] = before + rows
            return
        del self._lane_rows[sizes]
        if not self._lane_rows:
            self._work_s = 0.0  # Sums of differences drift.
