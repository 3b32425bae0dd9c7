"""All that a worker counts: the tallies of this epoch and of those before that have requests open, and its pulse."""

from typing import Final

from gateway.core.types import OUTCOME_COUNT, Count, Lane, Outcome, Phase, Role
from gateway.runtime.pulse import Pulse
from gateway.runtime.tallies import Limits, StreamLimits, Tallies
from gateway.runtime.ticket import Ticket

NOISE: Final = "noise"
"""The direction of copies of the baseline's requests to the baseline itself."""


class Books:
    """A request is counted in the tallies of the epoch in which it arrived, whenever it ends."""

    def __init__(self, now: float) -> None:
        self.current = Tallies(epoch=0, window_s=1.0, limits=(None, None, None))
        self.past: list[Tallies] = []
        self.pulse = Pulse(now)
        self.copies: dict[str, int] = {}

    def begin_epoch(
        self, epoch: int, window_s: float, limits: Limits, stream_limits: StreamLimits = (None, None)
    ) -> None:
        """The present counts become the past's; scores and copies start over."""
        if not self.current.is_settled:
            self.past.append(self.current)
        self.current = Tallies(epoch=epoch, window_s=window_s, limits=limits, stream_limits=stream_limits)
        self.pulse.reset()
        self.copies = {}

    def forget_settled(self) -> None:
        """Drop the past epochs of which nothing is open and everything is reported."""
        self.past = [tallies for tallies in self.past if not tallies.is_settled]

    def close(
        self,
        tallies: Tallies,
        ticket: Ticket,
        role: Role,
        outcome: Outcome,
        now: float,
        *,
        at: float | None = None,
        compiles: int = 0,
        compiled: tuple[str, ...] = (),
        phase: Phase | None = None,
    ) -> None:
        """The outcome of a request that was sent; ``phase`` of a failed one."""
        tallies.close(ticket, outcome, now, at=at, compiles=compiles, compiled=compiled, phase=phase)
        self._pulse(tallies, role, outcome)

    def book(
        self, tallies: Tallies, role: Role, lane: Lane, arrived: float, outcome: Outcome, stratum: int = 0
    ) -> None:
        """The outcome of a request that was not sent to the arm it is charged to."""
        tallies.add(role, lane, arrived, OUTCOME_COUNT[outcome], stratum)
        self._pulse(tallies, role, outcome)

    def failed_over(self, tallies: Tallies, at: float, stratum: int = 0) -> None:
        """``at``: wall time in whose window it is counted."""
        tallies.add(Role.CANDIDATE, Lane.LIVE, at, Count.FAILED_OVER, stratum)
        if tallies is self.current:
            self.pulse.failed_over()

    def copy(self, tallies: Tallies, direction: str, fate: str) -> None:
        """One copy's fate; of past epochs nobody asks any more. direction: the arm that gets it, or NOISE."""
        if tallies is self.current:
            key = f"{direction}:{fate}"
            self.copies[key] = self.copies.get(key, 0) + 1

    def take_copies(self) -> dict[str, int]:
        copies, self.copies = self.copies, {}
        return copies

    def _pulse(self, tallies: Tallies, role: Role, outcome: Outcome) -> None:
        if tallies is self.current:
            self.pulse.count(role, outcome)
