"""The open loop on gevent: a clock hands out due requests, whatever the answers do.

A request that finds no free user waits in the queue and is sent late; its latency still counts from its planned
start, so a slow server cannot slow the load down and hide itself. Bounded: the schedule ends, and what is unsent
``grace_s`` after the last arrival is counted as such.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import gevent
import gevent.event
import gevent.queue

from loadtest.answers import BadAnswer, read_answer
from loadtest.options import Options
from loadtest.payloads import Payload
from loadtest.reference import Reference, Source
from loadtest.schedule import arrivals
from loadtest.tally import RunStats, Tally

_POLL_S: Final = 0.2
_WATCH_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Due:
    """A request whose time has come. ``planned`` is in perf_counter seconds; ``reference`` belongs to its mix."""

    planned: float
    payload: Payload
    reference: Reference | None


class OpenLoop:
    """One run. ``then`` is the source of requests once the file ``options.then_when`` exists.

    ``publish`` gets the statistics every second and once at the end.
    """

    def __init__(
        self, options: Options, source: Source, then: Source | None, publish: Callable[[RunStats], None]
    ) -> None:
        self.options = options
        self.tally = Tally()
        self._source = source
        self._then = then
        self._publish = publish
        self._queue: gevent.queue.Queue = gevent.queue.Queue()
        self._stopping = gevent.event.Event()
        self._finished = gevent.event.Event()
        self._zero = time.perf_counter()
        self._state = "running"

    def start(self) -> None:
        """Zero of the schedule is now."""
        self._zero = time.perf_counter()
        gevent.spawn(self._run)

    def stop(self) -> None:
        """No further arrivals; what is due still finishes within the grace time."""
        self._stopping.set()

    def wait(self) -> RunStats:
        """The statistics of the whole run, once every due request has ended or been given up."""
        self._finished.wait()
        return self._stats()

    @property
    def finished(self) -> bool:
        return bool(self._finished.is_set())

    def take(self) -> Due | None:
        """The next due request, None when none came for a while."""
        try:
            due: Due = self._queue.get(timeout=_POLL_S)
        except gevent.queue.Empty:
            return None
        self.tally.started(time.perf_counter() - due.planned)
        return due

    def answer(self, due: Due, *, status: int, body: bytes, arm: str, bucket: str, failover: bool) -> float:
        """Check and count an answer; milliseconds since the planned start. Raises BadAnswer (counted as a failure)."""
        payload = due.payload
        ms = (time.perf_counter() - due.planned) * 1000.0
        try:
            vectors = read_answer(status, body, rows=len(payload.texts), dimension=self.options.dimension)
        except BadAnswer as bad:
            self.tally.failed(bad.code, f"request {payload.index} ({payload.part}) from arm {arm or '?'}: {bad}")
            raise
        self.tally.succeeded(ms, arm=arm, bucket=bucket, failover=failover)
        if due.reference is not None and payload.known:
            cosine, wrong = due.reference.compare(payload.known, vectors)
            self.tally.compared_with_reference(cosine, wrong=wrong)
        return ms

    def lost(self, due: Due, error: BaseException) -> float:
        """Count a request without an answer; milliseconds since the planned start."""
        payload = due.payload
        self.tally.failed("connection", f"request {payload.index} ({payload.part}): {type(error).__name__}: {error}")
        return (time.perf_counter() - due.planned) * 1000.0

    def _run(self) -> None:
        greenlets = [gevent.spawn(self._publish_each_second)]
        if self.options.stop_file is not None:
            greenlets.append(gevent.spawn(_watch, self.options.stop_file, self.stop))
        if self._then is not None and self.options.then_when is not None:
            greenlets.append(gevent.spawn(_watch, self.options.then_when, functools.partial(self._switch, self._then)))
        gevent.sleep(0)  # a file that is there already counts from the first request on
        try:
            self._dispatch()
            self._state = "finishing"
            self._drain()
        finally:
            gevent.killall(greenlets)
            self._state = "done"
            self._publish(self._stats())
            self._finished.set()

    def _dispatch(self) -> None:
        options = self.options
        schedule = arrivals(rate=options.rate, seconds=options.seconds, seed=options.seed, gaps=options.gaps)
        for index, due in enumerate(schedule):
            source = self._source
            payload = source.payloads.request(index)
            # Made before its time, so that making it costs no lateness.
            if self._stopping.wait(max(0.0, self._zero + due - time.perf_counter())):
                return
            if source is not self._source:
                source = self._source
                payload = source.payloads.request(index)
            if source is self._then and self.tally.switched_at is None:
                self.tally.switched(time.perf_counter() - self._zero, at=time.time())
            self.tally.planned += 1
            self._queue.put(Due(self._zero + due, payload, source.reference))

    def _drain(self) -> None:
        deadline = time.perf_counter() + self.options.grace_s
        while (self._queue.qsize() or self.tally.in_flight) and time.perf_counter() < deadline:
            gevent.sleep(0.02)
        while self._queue.qsize():
            self._queue.get_nowait()
            self.tally.unsent += 1
        for _ in range(self.tally.in_flight):
            self.tally.failed("no_answer", f"no answer within {self.options.grace_s:.0f} s of the last arrival")

    def _publish_each_second(self) -> None:
        while True:
            self._publish(self._stats())
            gevent.sleep(1.0)

    def _switch(self, then: Source) -> None:
        self._source = then

    def _stats(self) -> RunStats:
        return self.tally.stats(
            state=self._state,
            elapsed_s=time.perf_counter() - self._zero,
            seed=self.options.seed,
            rate=self.options.rate,
        )


def _watch(path: Path, act: Callable[[], None]) -> None:
    while not path.exists():
        gevent.sleep(_WATCH_S)
    act()
