"""The way of one request through the server, for those whose trace is recorded: phases that follow one another."""

from dataclasses import dataclass
from typing import Literal

from server.core.types import Bucket

Leg = Literal["tokenise", "queue", "batch"]


@dataclass(frozen=True, slots=True)
class Shared:
    """A batch as its members see it. ``number`` is the same for all of them; ``padding`` a share of its positions."""

    number: int
    bucket: Bucket
    requests: int
    rows: int
    padding: float


@dataclass(slots=True)
class Step:
    """One phase; seconds of one clock. ``device`` is the part of a batch on the device; ``why``: it ended the way."""

    leg: Leg
    began: float
    ended: float | None = None
    batch: Shared | None = None
    device: tuple[float, float] | None = None
    compiles: int = 0
    why: str = ""


class Journey:
    """Written on the way, read at its end. At most one step is open."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def enters(self, leg: Leg, now: float, batch: Shared | None = None) -> None:
        """What went before is over."""
        self.ends(now)
        self.steps.append(Step(leg, now, batch=batch))

    def ran(self, now: float, began: float, device_s: float, compiles: int) -> None:
        """The batch is over. ``began`` is the worker's word, which has no weight where it cannot be."""
        step = self._open()
        if step is None:
            return
        latest = max(step.began, now - device_s)
        start = min(max(began, step.began), latest) if began else latest
        step.device = start, min(now, start + device_s)
        step.compiles = compiles
        step.ended = now

    def ends(self, now: float, why: str = "") -> None:
        """Here, if a step is open."""
        step = self._open()
        if step is not None:
            step.ended, step.why = now, why

    def _open(self) -> Step | None:
        return self.steps[-1] if self.steps and self.steps[-1].ended is None else None
