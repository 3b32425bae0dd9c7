"""One request on its way through the server, and the compiles that it meets there."""

from dataclasses import dataclass

from server.core.admission import deadline_at
from server.core.journey import Journey
from server.core.types import Bucket


@dataclass(frozen=True, slots=True)
class Compiles:
    """Programs that a request had compiled or waited behind, and their buckets, each once, the newest last."""

    count: int = 0
    buckets: tuple[Bucket, ...] = ()

    def plus(self, count: int, bucket: Bucket) -> "Compiles":
        """With ``count`` more, all for ``bucket``."""
        if count == 0:
            return self
        return Compiles(self.count + count, (*(each for each in self.buckets if each != bucket), bucket))

    def named(self, own: Bucket | None, most: int) -> tuple[Bucket, ...]:
        """At most ``most`` of the buckets: ``own``, the request's, if it is among them, then the newest first."""
        newest = self.buckets[::-1]
        return tuple(sorted(newest, key=lambda bucket: bucket != own)[:most])


@dataclass(slots=True)
class Visit:
    """When a request arrived, until when its caller waits (seconds of the same clock; None is for ever), what it met.

    ``shadow``: it is a copy, whose answer nobody waits for.
    ``journey`` is there when its way is recorded.
    However the request ends, answered, refused or left, ``compiles`` tells what it met until then.
    """

    arrived: float
    deadline: float | None = None
    compiles: Compiles = Compiles()
    shadow: bool = False
    journey: Journey | None = None

    def within(self, ms: float) -> None:
        """The caller waits no longer than ``ms`` from its arrival; it may have named less elsewhere."""
        deadline = deadline_at(self.arrived, ms)
        self.deadline = deadline if self.deadline is None or deadline is None else min(self.deadline, deadline)
