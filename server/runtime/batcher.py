"""Feeds the device: one batch at a time, formed at the moment it falls idle."""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from server.core.admission import Limits
from server.core.batch import Batch, Lanes, Waiting
from server.core.catalog import Catalogue
from server.core.costs import Costs
from server.core.journey import Shared
from server.core.padding import pad, split
from server.core.tensors import Rows
from server.core.types import (
    Bucket,
    BucketTiming,
    DeadlinePassed,
    Internal,
    NotReady,
    Refused,
    ShapeNotServed,
)
from server.core.visit import Visit
from server.ports.clock import Clock
from server.ports.telemetry import Telemetry
from server.ports.worker import Finished, Run, RunFailed
from server.runtime.deadline import until
from server.runtime.places import Place, Places
from server.runtime.share import Share


@dataclass(frozen=True, slots=True)
class Landed:
    """A batch that left the device, ``seconds`` after it was sent there. ``first``: see _OnDevice."""

    batch: Batch
    seconds: float
    first: bool


@dataclass(frozen=True, slots=True)
class _OnDevice:
    """``first``: the shape is undeclared, and no batch of it finished in this process so far."""

    number: int
    batch: Batch
    taken: float
    first: bool


@dataclass(slots=True)
class _Asked:
    """One who waits in a lane or on the device."""

    future: "asyncio.Future[Share]"
    visit: Visit

    def met(self, compiles: int, bucket: Bucket) -> None:
        self.visit.compiles = self.visit.compiles.plus(compiles, bucket)


class Batcher:
    """Owns the lanes and the futures of those who wait.

    ``send`` hands a batch to the worker; answers come back through ``finished`` and ``run_failed``. A shape that is
    undeclared and fails at its first run is refused from then on: each try would compile, and fail, once more.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        max_rows: int,
        send: Callable[[Run], None],
        clock: Clock,
        telemetry: Telemetry,
        *,
        max_wait_s: float = math.inf,
    ) -> None:
        self._catalogue = catalogue
        self._send = send
        self._clock = clock
        self._telemetry = telemetry
        self._lanes = Lanes(catalogue)
        self._places = Places(catalogue, self._lanes, Limits(max_rows, max_wait_s), clock, telemetry.queue_changed)
        self._asked: dict[int, _Asked] = {}
        self._ran = set(catalogue.buckets())
        self._compiled = False
        self._on_device: _OnDevice | None = None
        self._ticket = 0
        self._runs = 0
        self._closed: Callable[[], NotReady] | None = lambda: NotReady("server: not open yet")

    def running_s(self, now: float) -> float:
        """How long the batch on the device has been there; 0 when the device is idle."""
        return 0.0 if self._on_device is None else now - self._on_device.taken

    def part_rows(self, sizes: tuple[int, ...]) -> int:
        """How many rows a part of a request should have whose rows need ``sizes``."""
        return self._places.part_rows(sizes)

    @property
    def running(self) -> Bucket | None:
        """The shape of the batch on the device; None when the device is idle."""
        return None if self._on_device is None else self._on_device.batch.bucket

    @property
    def running_number(self) -> int | None:
        """Of the batch on the device."""
        return None if self._on_device is None else self._on_device.number

    @property
    def may_compile(self) -> bool:
        """Whether the batch on the device may be compiling: its shape has not run yet, and the engine compiles."""
        return self._compiled and self._on_device is not None and self._on_device.first

    def open(self, *, compiled: bool, exact: bool = False, timings: Sequence[BucketTiming] = ()) -> None:
        """A worker is warm: from now on batches are sent to it, and of undeclared shapes none has run there.

        ``compiled``: whether the engine compiles. ``exact``: see Catalogue. ``timings`` are the warm-up's: they decide
        how large a batch should be, and how long the queue is.
        """
        if exact != self._catalogue.exact:
            self._catalogue = replace(self._catalogue, exact=exact)
        self._places.price(Costs(self._catalogue, timings))
        self._compiled = compiled
        self._ran = set(self._catalogue.buckets())
        self.reopen()

    def reopen(self) -> None:
        """Batches are sent again, to the worker that was there before."""
        self._closed = None
        self._pump()

    def abandon(self) -> Bucket | None:
        """Before ``close``: the worker died of, or at least with, what is on the device. An undeclared shape that had
        not run yet is not tried again, since each try could cost one more worker. Which shape that is.
        """
        done = self._on_device
        if done is None or not done.first:
            return None
        self._lanes.refuse(done.batch.bucket)
        return done.batch.bucket

    def close(self, reason: str, refusal: Callable[[str], NotReady] = NotReady) -> int:
        """No further batch; everyone who waits is told that the server cannot answer. How many were told.

        ``refusal`` makes what each is told, and whoever comes later, from the reason.
        """
        self._closed = lambda: refusal(reason)
        everyone, self._asked = self._asked, {}
        told = sum(1 for asked in everyone.values() if not asked.future.done())
        for asked in everyone.values():
            self._leaves_behind(asked)
            _refuse(asked, refusal(reason))
        self._on_device = None
        self._lanes.clear()
        self._places.tell()
        return told

    @contextmanager
    def reserved(self, rows: int, visit: Visit) -> Iterator[None]:
        """Holds the place of a request that is still being tokenised: it counts as waiting. Raises a Refused.

        Who leaves this block and calls ``answer`` or ``parted`` without awaiting in between cannot lose the place.
        """
        self._check_open()
        self._places.admit_rows(rows, visit, self._device_s())
        with self._places.held(rows):
            yield

    @contextmanager
    def parted(self, asked: Rows, visit: Visit) -> Iterator[Place]:
        """Admits a request that comes in parts, as a whole: none of them is refused for others that came in between.

        Each part is asked for with ``answer``, one after the other. It then stands behind those who came before it, so
        that a large request takes turns with small ones.
        """
        bucket = self._check(asked)
        self._places.admit(asked, bucket.sizes, visit, self._device_s())
        with self._places.held(asked.count, bucket.sizes) as place:
            yield place

    async def answer(self, rows: Rows, visit: Visit, place: Place | None = None) -> Share:
        """Waits for the outputs of one request. Raises a Refused; cancelling takes the request out of its lane.

        ``place``: it is a part of the request that holds this. Whichever way it ends, ``visit`` tells the compiles of
        its own batch, and of those that were on the device while it waited. Who leaves while one may be running counts
        that as one, which is the least that it is.
        """
        bucket = self._check(rows)
        if place is None:
            self._places.admit(rows, bucket.sizes, visit, self._device_s())
        else:
            self._places.give(place, rows.count)
        self._ticket += 1
        ticket = self._ticket
        asked = self._asked[ticket] = _Asked(asyncio.get_running_loop().create_future(), visit)
        if visit.journey is not None:
            visit.journey.enters("queue", self._clock.monotonic())
        self._lanes.add(Waiting(ticket, rows, bucket.sizes, visit.arrived, visit.deadline))
        self._pump()
        try:
            async with until(visit.deadline, self._clock, lambda: "queue" if self._lanes.stands(ticket) else "device"):
                return await asked.future
        except asyncio.CancelledError:
            if self._lanes.stands(ticket):
                self._telemetry.left_queue("gone")
            raise
        except DeadlinePassed as passed:
            if passed.phase == "queue":
                self._telemetry.left_queue("deadline")
            raise
        finally:
            # Whoever was told an outcome is no longer among those who ask: this one leaves by itself.
            if self._asked.pop(ticket, None) is not None:
                self._leaves_behind(asked)
            if self._lanes.remove(ticket):
                self._places.tell()

    def finished(self, event: Finished) -> Landed | None:
        """A batch's outputs arrived. None: it is not the one on the device."""
        done = self._take_off(event)
        if done is None:
            return None
        batch, bucket = done.batch, done.batch.bucket
        now = self._clock.monotonic()
        batch_s = now - done.taken
        if not done.first:
            self._places.learn(bucket, batch_s)
        self._ran.add(bucket)
        self._telemetry.batch_done(batch, batch_s=batch_s, device_s=event.device_s, compiles=event.compiles)
        shares = split(event.outputs, [member.asked.count for member in batch.members])
        for member, share in zip(batch.members, shares, strict=True):
            asked = self._asked.pop(member.ticket, None)
            if asked is not None and not asked.future.done():
                if asked.visit.journey is not None:
                    asked.visit.journey.ran(now, event.began, event.device_s, event.compiles)
                queue_s = max(0.0, done.taken - member.arrived)
                asked.future.set_result(Share(share, bucket, queue_s, batch_s, event.device_s))
        self._pump()
        return Landed(batch, batch_s, done.first)

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
        if done.first:
            self._give_up(done.batch.bucket)
        self._pump()
        return Landed(done.batch, batch_s, done.first)

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed()

    def _check(self, asked: Rows) -> Bucket:
        """Where the request belongs, of one that comes in parts its largest possible part. Raises a Refused."""
        self._check_open()
        rows = asked.count if asked.count <= self._catalogue.max_rows else self._catalogue.full_rows
        bucket = self._catalogue.fit(rows, *asked.sizes)
        if isinstance(bucket, ShapeNotServed):
            raise bucket
        if self._lanes.refuses(bucket):
            raise self._failed_before(bucket)
        return bucket

    def _device_s(self) -> float:
        """Until the device is idle, as far as is known."""
        done = self._on_device
        return 0.0 if done is None else self._places.left_s(done.batch.bucket, self.running_s(self._clock.monotonic()))

    def _take_off(self, event: Finished | RunFailed) -> _OnDevice | None:
        """Who waits now was in this batch or waited behind it: everyone met its compiles."""
        done = self._on_device
        if done is None or done.number != event.number:
            return None
        self._on_device = None
        if event.compiles:
            for asked in self._asked.values():
                asked.met(event.compiles, done.batch.bucket)
        return done

    def _leaves_behind(self, asked: _Asked) -> None:
        """This one does not see the end of what is on the device, which may be a compile."""
        if self.may_compile and self._on_device is not None:
            asked.met(1, self._on_device.batch.bucket)

    def _give_up(self, bucket: Bucket) -> None:
        """No further batch of this shape; who waits for one is told."""
        for waiting in self._lanes.refuse(bucket):
            asked = self._asked.pop(waiting.ticket, None)
            if asked is not None:
                _refuse(asked, self._failed_before(bucket))

    def _failed_before(self, bucket: Bucket) -> ShapeNotServed:
        return ShapeNotServed(
            f"input: got a request of shape {bucket}: this shape failed on this device and is not tried again before "
            f"a restart; the declared shapes are served (catalogue {self._catalogue})",
            param="input",
        )

    def _pump(self) -> None:
        if self._closed is None and self._on_device is None:
            now = self._clock.monotonic()
            turn = self._lanes.take(now)
            for waiting in turn.late:
                asked = self._asked.pop(waiting.ticket, None)
                if asked is not None:
                    _refuse(asked, DeadlinePassed("queue"))
            if turn.batch is not None:
                self._runs += 1
                self._on_device = _OnDevice(self._runs, turn.batch, now, turn.batch.bucket not in self._ran)
                if self.may_compile:
                    # Who is leaving in this very turn of the loop has no part in what begins now.
                    self._asked = {ticket: each for ticket, each in self._asked.items() if not each.future.done()}
                self._note_departure(self._runs, turn.batch, now)
                self._send(Run(self._runs, turn.batch.bucket, pad(turn.batch)))
        self._places.tell()

    def _note_departure(self, number: int, batch: Batch, now: float) -> None:
        """On the way of those whose way is recorded."""
        journeys = [
            asked.visit.journey
            for member in batch.members
            if (asked := self._asked.get(member.ticket)) is not None and asked.visit.journey is not None
        ]
        if journeys:
            shared = Shared(number, batch.bucket, len(batch.members), batch.rows, batch.padding)
            for journey in journeys:
                journey.enters("batch", now, shared)


def _refuse(asked: _Asked, refusal: Refused) -> None:
    if not asked.future.done():
        asked.future.set_exception(refusal)
