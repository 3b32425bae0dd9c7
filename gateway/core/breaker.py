"""The circuit breaker: for the case where more than half of everything fails, within seconds.

It is no test with an error rate. Once a second, per arm (decision rule, section on the circuit breaker):
``score <- min(2 x threshold, max(0, score + 2 x failed - attempts))``: the score grows only while more than half of the
attempts fail, and an arm that recovers is forgiven as fast.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DEFAULT_THRESHOLD: Final = 8.0
DEFAULT_HOLD_S: Final = 3


@dataclass(slots=True, kw_only=True)
class Breaker:
    """The score of one arm, 0 to twice the threshold. ``second`` is called once a second."""

    threshold: float = DEFAULT_THRESHOLD
    hold_s: int = DEFAULT_HOLD_S
    score: float = 0.0
    held_s: int = 0

    def second(self, attempts: int, failed: int) -> float:
        """Book the attempts of one second, of which ``failed`` failed; the new score.

        ValueError unless 0 <= failed <= attempts.
        """
        if not 0 <= failed <= attempts:
            raise ValueError(f"failed: {failed} must lie between 0 and the attempts ({attempts})")
        self.score = min(2.0 * self.threshold, max(0.0, self.score + 2 * failed - attempts))
        self.held_s = self.held_s + 1 if self.is_sick else 0
        return self.score

    @property
    def is_sick(self) -> bool:
        """The score has reached the threshold."""
        return self.score >= self.threshold

    @property
    def fires(self) -> bool:
        """The arm has been sick for ``hold_s`` seconds on end."""
        return self.held_s >= self.hold_s


class Pulse(StrEnum):
    """What the two breakers say together."""

    QUIET = "quiet"
    CANDIDATE_SICK = "candidate_sick"
    """Take the candidate out."""
    BOTH_SICK = "both_sick"
    """A shared outage: hold and alarm; moving traffic to the other sick arm would help nobody."""


class BreakerWatch:
    """Both arms' breakers and the seconds for which the candidate alone has been sick."""

    __slots__ = ("_alone_s", "baseline", "candidate")

    def __init__(self, *, threshold: float = DEFAULT_THRESHOLD, hold_s: int = DEFAULT_HOLD_S) -> None:
        self.baseline = Breaker(threshold=threshold, hold_s=hold_s)
        self.candidate = Breaker(threshold=threshold, hold_s=hold_s)
        self._alone_s = 0

    def second(self, *, baseline: tuple[int, int], candidate: tuple[int, int], failed_over_recently: bool) -> Pulse:
        """Book one second's (attempts, failed) of each arm.

        failed_over_recently: a request was failed over within the last ten seconds. Then the candidate cannot hide
            behind a shared outage: its failures are what loads the baseline.
        """
        self.baseline.second(*baseline)
        self.candidate.second(*candidate)
        both = self.baseline.is_sick and self.candidate.is_sick
        self._alone_s = self._alone_s + 1 if self.candidate.is_sick and not self.baseline.is_sick else 0
        if both:
            return Pulse.CANDIDATE_SICK if failed_over_recently else Pulse.BOTH_SICK
        return Pulse.CANDIDATE_SICK if self._alone_s >= self.candidate.hold_s else Pulse.QUIET

    @property
    def is_quiet(self) -> bool:
        """Neither arm is sick."""
        return not (self.baseline.is_sick or self.candidate.is_sick)

    def checkpoint(self) -> list[float]:
        """Five numbers that ``restore`` takes."""
        return [self.baseline.score, self.baseline.held_s, self.candidate.score, self.candidate.held_s, self._alone_s]

    def restore(self, numbers: list[float]) -> None:
        """Go on where ``checkpoint`` was taken. ValueError unless it is five numbers."""
        if len(numbers) != 5:
            raise ValueError(f"breaker: {len(numbers)} numbers, must be 5")
        self.baseline.score, self.candidate.score = float(numbers[0]), float(numbers[2])
        self.baseline.held_s, self.candidate.held_s, self._alone_s = int(numbers[1]), int(numbers[3]), int(numbers[4])
