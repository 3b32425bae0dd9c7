"""Lanes by width: one FIFO a bucket length, the lane of the oldest request is served when the device is idle.

Nothing waits for company: a batch is what stands in the lane at that moment. Grouping by width keeps short
texts from paying for a long one's padding. A request is one unit and is never split over batches.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from server.core.admission import expired
from server.core.catalog import Catalogue
from server.core.types import Bucket, ShapeNotServed, TokenRows


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request in a lane. ``arrived`` and ``deadline`` are seconds of the same clock."""

    ticket: int
    tokens: TokenRows
    length: int
    arrived: float
    deadline: float | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Whole requests for one bucket, oldest first."""

    bucket: Bucket
    members: tuple[Waiting, ...]

    @property
    def rows(self) -> int:
        return sum(member.tokens.count for member in self.members)


@dataclass(frozen=True, slots=True)
class Turn:
    """What to do now: ``batch`` goes to the device, ``late`` are answered that their deadline passed."""

    batch: Batch | None
    late: tuple[Waiting, ...]


class Lanes:
    """The queue of a server, in rows."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        # A lane is there while somebody stands in it: the lengths of a lenient server are not known beforehand.
        self._lanes: dict[int, deque[Waiting]] = {}
        self._rows = 0
        self._refused: set[Bucket] = set()

    @property
    def rows(self) -> int:
        return self._rows

    def add(self, waiting: Waiting) -> None:
        self._lanes.setdefault(waiting.length, deque()).append(waiting)
        self._rows += waiting.tokens.count

    def remove(self, ticket: int) -> bool:
        """Takes a request out again; False when it is no longer waiting."""
        for lane in self._lanes.values():
            for waiting in lane:
                if waiting.ticket == ticket:
                    self._leave(waiting)
                    return True
        return False

    def clear(self) -> tuple[Waiting, ...]:
        """Empties every lane and returns who stood there."""
        everyone = tuple(waiting for lane in self._lanes.values() for waiting in lane)
        self._lanes.clear()
        self._rows = 0
        return everyone

    def refuse(self, bucket: Bucket) -> tuple[Waiting, ...]:
        """From now on no batch of ``bucket`` is formed. Whose own shape it is leaves and is returned.

        A smaller request is not concerned: it no longer gets the company that would make this shape.
        """
        self._refused.add(bucket)
        concerned = tuple(
            waiting
            for lane in self._lanes.values()
            for waiting in lane
            if self._catalogue.fit(waiting.tokens.count, waiting.length) == bucket
        )
        for waiting in concerned:
            self._leave(waiting)
        return concerned

    def refuses(self, bucket: Bucket) -> bool:
        """Whether a request of this shape must not be added."""
        return bool(self._refused) and bucket in self._refused

    def take(self, now: float) -> Turn:
        """The next batch: from the lane whose head is oldest, whole requests up to the largest declared batch.

        A request that is larger goes alone. Nobody joins where that would make a refused shape.
        """
        late = self._drop_late(now)
        if not self._lanes:
            return Turn(None, late)
        lane = min(self._lanes.values(), key=lambda each: each[0].ticket)
        members: list[Waiting] = []
        rows = 0
        while lane and (not members or self._join(rows + lane[0].tokens.count, lane[0].length)):
            member = lane[0]
            self._leave(member)
            members.append(member)
            rows += member.tokens.count
        bucket = self._catalogue.fit(rows, members[0].length)
        if isinstance(bucket, ShapeNotServed):
            raise bucket
        return Turn(Batch(bucket, tuple(members)), late)

    def _join(self, rows: int, length: int) -> bool:
        """Whether several requests, ``rows`` in all, may go together."""
        if rows > self._catalogue.full_rows:
            return False
        bucket = self._catalogue.fit(rows, length)
        # Some sizes may be excluded: company must not make anybody's row longer.
        return isinstance(bucket, Bucket) and bucket.length == length and bucket not in self._refused

    def _drop_late(self, now: float) -> tuple[Waiting, ...]:
        late = [each for lane in self._lanes.values() for each in lane if expired(each.deadline, now)]
        for waiting in late:
            self._leave(waiting)
        return tuple(late)

    def _leave(self, waiting: Waiting) -> None:
        lane = self._lanes[waiting.length]
        lane.remove(waiting)
        self._rows -= waiting.tokens.count
        if not lane:
            del self._lanes[waiting.length]


def pad(batch: Batch) -> tuple[bytes, bytes]:
    """Ids and mask of a batch as int32, row-major [bucket.batch, bucket.length].

    Padding is id 0 under mask 0. Rows beyond the requests keep one token, since a row without any has no mean.
    """
    return pad_rows([member.tokens for member in batch.members], batch.bucket)


def pad_rows(requests: Sequence[TokenRows], bucket: Bucket) -> tuple[bytes, bytes]:
    """As ``pad``, for requests that stand in no lane."""
    ids = array("i")
    mask = array("i")
    rows = 0
    for tokens in requests:
        for index, row in enumerate(tokens.ids):
            kept = [1] * len(row) if tokens.masks is None else tokens.masks[index]
            used = min(len(row), bucket.length)
            gap = bucket.length - used
            ids.extend(row[:used])
            ids.extend([0] * gap)
            mask.extend(kept[:used])
            mask.extend([0] * gap)
            rows += 1
    for _ in range(bucket.batch - rows):
        ids.extend([0] * bucket.length)
        mask.append(1)
        mask.extend([0] * (bucket.length - 1))
    return ids.tobytes(), mask.tobytes()


def split(vectors: bytes, counts: Sequence[int], dim: int) -> list[bytes]:
    """Each request's share of the float32 rows, in order; padding rows at the end fall away."""
    shares: list[bytes] = []
    start = 0
    for count in counts:
        end = start + count * dim * 4
        shares.append(vectors[start:end])
        start = end
    return shares
