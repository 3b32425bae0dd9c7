"""The places of those who wait: who is admitted, and what is held for a request that is not in its lane yet."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from server.core.admission import Ask, Limits, Load, admit
from server.core.batch import Lanes
from server.core.catalog import Catalogue
from server.core.costs import Costs
from server.core.tensors import Rows
from server.core.types import Bucket, ShapeNotServed
from server.core.visit import Visit
from server.ports.clock import Clock

# How far live batches may be from the warm-up's timings before the estimates stop following, and how fast they follow.
PACE_MIN, PACE_MAX, PACE_STEP = 0.1, 10.0, 0.1


class Place:
    """What a request holds of the queue before it stands in a lane: rows, and seconds where the shape is known."""

    def __init__(self, rows: int, seconds: float) -> None:
        self.rows = rows
        self.seconds = seconds


class Places:
    """Counts lanes and held places together. ``changed`` is told how many rows wait."""

    def __init__(
        self, catalogue: Catalogue, lanes: Lanes, limits: Limits, clock: Clock, changed: Callable[[int], None]
    ) -> None:
        self._catalogue = catalogue
        self._lanes = lanes
        self._limits = limits
        self._clock = clock
        self._changed = changed
        self._costs = Costs(catalogue)
        self._held: set[Place] = set()
        self._held_rows = 0
        self._pace = 1.0

    @property
    def rows(self) -> int:
        return self._lanes.rows + self._held_rows

    def price(self, costs: Costs) -> None:
        """Of a worker that is warm; its pace is not its predecessor's."""
        self._catalogue = costs.catalogue
        self._costs = costs
        self._pace = 1.0
        self._lanes.price(costs)

    def part_rows(self, sizes: tuple[int, ...]) -> int:
        """See Batcher."""
        bucket = self._catalogue.fit(1, *sizes)
        return self._catalogue.full_rows if isinstance(bucket, ShapeNotServed) else self._costs.part_rows(bucket.sizes)

    def learn(self, bucket: Bucket, seconds: float) -> None:
        """A batch took ``seconds``: the device may be slower under load than it was in the warm-up."""
        expected = self._costs.seconds(bucket)
        if expected > 0:
            seen = min(PACE_MAX, max(PACE_MIN, seconds / expected))
            self._pace += PACE_STEP * (seen - self._pace)

    def left_s(self, bucket: Bucket, running_s: float) -> float:
        """Of a batch that has been on the device for ``running_s``."""
        return max(0.0, self._costs.seconds(bucket) * self._pace - running_s)

    def admit_rows(self, rows: int, visit: Visit, device_s: float) -> None:
        """Of a request whose tokens are not known yet. Raises QueueFull or DeadlinePassed."""
        waiting_s = (self._lanes.work_s + self._held_s()) * self._pace
        self._admit(Ask(rows, 0.0, self._time_left(visit), visit.shadow), Load(self.rows, 0.0, device_s, waiting_s))

    def admit(self, asked: Rows, sizes: tuple[int, ...], visit: Visit, device_s: float) -> None:
        """Raises QueueFull or DeadlinePassed."""
        rows = asked.count
        first = min(rows, self._catalogue.full_rows)
        ahead_s = (self._lanes.ahead_s(first, sizes) + self._held_s()) * self._pace
        own_s = self._costs.work(rows, sizes) * self._pace
        self._admit(Ask(rows, own_s, self._time_left(visit), visit.shadow), Load(self.rows, ahead_s, device_s))

    @contextmanager
    def held(self, rows: int, sizes: tuple[int, ...] | None = None) -> Iterator[Place]:
        """Counts as waiting until the block ends, or until ``give`` moved it into a lane."""
        place = Place(rows, 0.0 if sizes is None else self._costs.work(rows, sizes))
        self._held.add(place)
        self._held_rows += rows
        self.tell()
        try:
            yield place
        finally:
            self._held.discard(place)
            self._held_rows -= place.rows
            self.tell()

    def give(self, place: Place, rows: int) -> None:
        """``rows`` of it stand in a lane from now on."""
        place.seconds *= max(0, place.rows - rows) / place.rows
        place.rows -= rows
        self._held_rows -= rows

    def tell(self) -> None:
        self._changed(self.rows)

    def _admit(self, ask: Ask, load: Load) -> None:
        refused = admit(load, ask, self._limits)
        if refused is not None:
            raise refused

    def _held_s(self) -> float:
        return sum(place.seconds for place in self._held)

    def _time_left(self, visit: Visit) -> float | None:
        return None if visit.deadline is None else visit.deadline - self._clock.monotonic()
