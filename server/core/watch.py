"""When a worker that is there counts as stuck. Busy is not dead: what may take long has its own, longer limit."""

from dataclasses import dataclass
from typing import Final

from server.core.lifecycle import Life, State
from server.core.types import Bucket

# The worker beats each second, from a thread of its own. Importing and tracing may hold the interpreter's lock for
# long; serving what is warm never does.
SILENCE_S: Final = 30.0
SILENCE_BUSY_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class StuckRule:
    """A batch may take ``times`` the warm median of its bucket, and ``floor_s`` in any case.

    ``step_s`` is for one step of the warm-up, loading or one bucket, and for the first batch of an undeclared shape,
    which compiles while clients wait.
    """

    times: float = 20.0
    floor_s: float = 30.0
    step_s: float = 600.0

    def batch_limit_s(self, life: Life, bucket: Bucket) -> float:
        """Of a bucket that has run. An undeclared one has no median: it is scaled from the declared ones."""
        warm_s = {each.bucket: each.warm_s for each in life.warmed}
        own_s = warm_s.get(bucket)
        if own_s is None:
            own_s = max((each_s * bucket.cells / each.cells for each, each_s in warm_s.items()), default=0.0)
        return max(self.floor_s, self.times * own_s)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of the worker: seconds since its last word and its last step, and its batch if it has one."""

    silent_s: float
    step_s: float
    bucket: Bucket | None = None
    running_s: float = 0.0
    compiling: bool = False


def stalled(life: Life, seen: Seen, rule: StuckRule) -> str | None:
    """Why the worker counts as stuck, or None. A draining server has a limit of its own."""
    state = life.stuck_in if life.state is State.STUCK else life.state
    if state not in (State.LOADING, State.WARMING, State.READY):
        return None
    busy = state is not State.READY or seen.compiling
    if seen.silent_s > (SILENCE_BUSY_S if busy else SILENCE_S):
        return f"worker: nothing heard for {seen.silent_s:.0f} s"
    if state is not State.READY:
        if seen.step_s > rule.step_s:
            step = "loading the model" if state is State.LOADING else f"bucket {life.current or 'of the warm-up'}"
            return f"worker: {step} has taken {seen.step_s:.0f} s, the limit is {rule.step_s:g} s"
    elif seen.bucket is not None:
        limit_s = rule.step_s if seen.compiling else rule.batch_limit_s(life, seen.bucket)
        if seen.running_s > limit_s:
            return (
                f"worker: a batch of shape {seen.bucket} has been on the device for {seen.running_s:.0f} s, "
                f"the limit is {limit_s:g} s"
            )
    return None
