"""What a server that does not answer now says: why, and when asking again is worth while as far as is known."""

from typing import Final

from server.core.lifecycle import Life, State
from server.core.types import Draining, NotReady

# Longer waits are not believed: a warm-up from cache is faster than the one that the record tells of.
LONGEST_S: Final = 60.0


def refusal(life: Life, now: float, reason: str = "") -> NotReady:
    """``reason`` stands in place of the state's own sentence."""
    sentence = reason or f"server: {life.state}: {life.detail}"
    if life.leaving:
        return Draining(sentence)
    left_s = ready_in_s(life, now)
    return NotReady(sentence, retry_after_s=None if left_s is None else min(left_s, LONGEST_S))


def ready_in_s(life: Life, now: float) -> float | None:
    """Until it is ready, by the last warm-up, or where that is not known or was too short by the buckets so far."""
    if life.state not in (State.STARTING, State.LOADING, State.WARMING):
        return None
    if life.due is not None and life.due > now:
        return life.due - now
    if life.state is State.WARMING and life.warmed:
        return (now - life.loaded_at) / len(life.warmed) * (life.buckets - len(life.warmed))
    return None
