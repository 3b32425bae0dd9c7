"""Feeds the device: one batch at a time, formed at the moment it falls idle."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from server.core.admission import admit
from server.core.batch import Batch, Lanes, Waiting, pad, split
from server.core.catalog import Catalogue
from server.core.types import Bucket, Compiles, Internal, NotReady, Refused, ShapeNotServed, TokenRows
from server.ports.clock import Clock
from server.ports.telemetry import Telemetry
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.deadline import late, until


@dataclass(frozen=True, slots=True)
class Vectors:
    """One request's share of a batch: float32 rows, and how the time was spent (seconds)."""

    data: bytes
    bucket: Bucket
    queue_s: float
    batch_s: float
    device_s: float
    compiles: Compiles


@dataclass(frozen=True, slots=True)
class Landed:
    """A batch that left the device, ``seconds`` after it was sent there."""

    batch: Batch
    seconds: float


@dataclass(frozen=True, slots=True)
class _OnDevice:
    """``first``: no batch of this shape finished in this process so far."""

    number: int
    batch: Batch
    taken: float
    first: bool


@dataclass(slots=True)
class _Asked:
    """One who waits in a lane or on the device, and the compiles met there."""

    future: "asyncio.Future[Vectors]"
    compiles: Compiles = field(default_factory=Compiles)


class Batcher:
    """Owns the lanes and the futures of those who wait.

    ``send`` hands a batch to the worker; answers come back through ``finished`` and ``run_failed``.
    """

    def __init__(
        self, catalogue: Catalogue, max_rows: int, send: Callable[[Run], None], clock: Clock, telemetry: Telemetry
    ) -> None:
        self._catalogue = catalogue
        self._max_rows = max_rows
        self._send = send
        self._clock = clock
        self._telemetry = telemetry
        self._lanes = Lanes(catalogue)
        self._asked: dict[int, _Asked] = {}
        self._ran = set(catalogue.buckets())
        self._on_device: _OnDevice | None = None
        self._reserved = 0
        self._ticket = 0
        self._runs = 0
        self._dim = 0
        self._closed: str | None = "not open yet"

    def running_s(self, now: float) -> float:
        """How long the batch on the device has been there; 0 when the device is idle."""
        return 0.0 if self._on_device is None else now - self._on_device.taken

    @property
    def may_compile(self) -> bool:
        """Whether the batch on the device is of a shape that has not run yet in this process."""
        return self._on_device is not None and self._on_device.first

    def open(self, dim: int) -> None:
        """From now on batches are sent. ``dim`` is the length of a vector."""
        self._dim = dim
        self._closed = None
        self._pump()

    def close(self, reason: str) -> None:
        """No further batch; everyone who waits is told that the server cannot answer."""
        self._closed = reason
        self._on_device = None
        self._lanes.clear()
        self._tell_queue()
        everyone, self._asked = self._asked, {}
        for asked in everyone.values():
            _refuse(asked, NotReady(reason))

    @contextmanager
    def reserved(self, rows: int) -> Iterator[None]:
        """Holds the place of a request that is still being tokenised: it counts as waiting. Raises a Refused.

        Who leaves this block and calls ``answer`` without awaiting in between cannot lose the place.
        """
        self._admit(rows)
        self._reserved += rows
        self._tell_queue()
        try:
            yield
        finally:
            self._reserved -= rows
            self._tell_queue()

    async def answer(self, tokens: TokenRows, arrived: float, deadline: float | None) -> Vectors:
        """Waits for the vectors of one request. Raises a Refused; cancelling takes the request out of its lane.

        Both tell the compiles of its own batch, and of those that were on the device while it stood in its lane.
        """
        bucket = self._catalogue.fit(tokens.count, tokens.width)
        if isinstance(bucket, ShapeNotServed):
            raise bucket
        self._admit(tokens.count)
        self._ticket += 1
        ticket = self._ticket
        asked = _Asked(asyncio.get_running_loop().create_future())
        self._asked[ticket] = asked
        self._lanes.add(Waiting(ticket, tokens, bucket.length, arrived, deadline))
        self._pump()
        try:
            async with until(deadline, self._clock):
                return await asked.future
        except Refused as refusal:
            refusal.compiles = asked.compiles
            raise
        finally:
            self._asked.pop(ticket, None)
            if self._lanes.remove(ticket):
                self._tell_queue()

    def finished(self, event: Finished) -> Landed | None:
        """A batch's vectors arrived. None: it is not the one on the device."""
        done = self._take_off(event)
        if done is None:
            return None
        batch, bucket = done.batch, done.batch.bucket
        batch_s = self._clock.monotonic() - done.taken
        self._ran.add(bucket)
        self._telemetry.batch_done(batch, batch_s=batch_s, device_s=event.device_s, compiles=event.compiles)
        shares = split(event.vectors, [member.tokens.count for member in batch.members], self._dim)
        for member, share in zip(batch.members, shares, strict=True):
            asked = self._asked.pop(member.ticket, None)
            if asked is not None and not asked.future.done():
                queue_s = max(0.0, done.taken - member.arrived)
                asked.future.set_result(Vectors(share, bucket, queue_s, batch_s, event.device_s, asked.compiles))
        self._pump()
        return Landed(batch, batch_s)

    def run_failed(self, event: RunFailed) -> Landed | None:
        """The worker could not run this batch. None: it is not the one on the device."""
        done = self._take_off(event)
        if done is None:
            return None
        batch_s = self._clock.monotonic() - done.taken
        self._telemetry.batch_failed(compiles=event.compiles)
        for member in done.batch.members:
            asked = self._asked.pop(member.ticket, None)
            if asked is not None:
                _refuse(asked, Internal(f"the device failed on this batch: {event.error}"))
        self._pump()
        return Landed(done.batch, batch_s)

    def _admit(self, rows: int) -> None:
        if self._closed is not None:
            raise NotReady(self._closed)
        full = admit(self._lanes.rows + self._reserved, rows, self._max_rows)
        if full is not None:
            raise full

    def _tell_queue(self) -> None:
        self._telemetry.queue_changed(self._lanes.rows + self._reserved)

    def _take_off(self, event: Finished | RunFailed) -> _OnDevice | None:
        """Who waits now was in this batch or waited behind it: everyone met its compiles."""
        done = self._on_device
        if done is None or done.number != event.number:
            return None
        self._on_device = None
        if event.compiles:
            for asked in self._asked.values():
                asked.compiles = asked.compiles.plus(event.compiles, done.batch.bucket)
        return done

    def _pump(self) -> None:
        if self._closed is None and self._on_device is None:
            now = self._clock.monotonic()
            turn = self._lanes.take(now)
            for waiting in turn.late:
                asked = self._asked.pop(waiting.ticket, None)
                if asked is not None:
                    _refuse(asked, late())
            if turn.batch is not None:
                self._runs += 1
                self._on_device = _OnDevice(self._runs, turn.batch, now, turn.batch.bucket not in self._ran)
                ids, mask = pad(turn.batch)
                self._send(Run(self._runs, turn.batch.bucket, ids, mask))
        self._tell_queue()


def _refuse(asked: _Asked, refusal: Refused) -> None:
    if not asked.future.done():
        asked.future.set_exception(refusal)
