"""What was heard of one worker, and whether it counts as stuck."""

from server.core.lifecycle import Life
from server.core.watch import Seen, StuckRule, stalled
from server.ports.clock import Clock
from server.ports.worker import Beat, BucketBegan, BucketWarm, Finished, Loaded, RunFailed, Warmed, WorkerEvent
from server.runtime.batcher import Batcher


class Heard:
    """``spawned`` and ``at`` are when the worker was started and last said something, seconds of ``clock``."""

    def __init__(self, clock: Clock, batcher: Batcher, rule: StuckRule) -> None:
        self._clock = clock
        self._batcher = batcher
        self._rule = rule
        self.anew()

    def anew(self) -> None:
        """Another worker is started."""
        self.spawned = self.at = self._stepped = self._clock.monotonic()
        self._compiling = False
        self._owed: int | None = None

    def word(self, event: WorkerEvent) -> None:
        self.at = self._clock.monotonic()
        if isinstance(event, Loaded | BucketBegan | BucketWarm | Warmed):
            self._stepped = self.at
        if not isinstance(event, Beat):
            self._compiling = isinstance(event, BucketBegan)
        if isinstance(event, Finished | RunFailed) and event.number == self._owed:
            self._owed = None

    def owes(self) -> None:
        """It is stuck, and goes on when the batch that it has, if any, is done: a worker runs one at a time."""
        self._owed = self._batcher.running_number

    def stalled(self, life: Life) -> str | None:
        """Why the worker counts as stuck, if it does."""
        now = self._clock.monotonic()
        seen = Seen(
            silent_s=now - self.at,
            step_s=now - self._stepped,
            bucket=self._batcher.running,
            running_s=self._batcher.running_s(now),
            compiling=self._compiling,
        )
        return stalled(life, seen, self._rule)

    def goes_on(self, life: Life) -> bool:
        """Whether a stuck worker is back: it owes no batch and is within its limits."""
        return self._owed is None and self.stalled(life) is None
