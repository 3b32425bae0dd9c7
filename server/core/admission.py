"""Who may wait: a bound in rows, one in time, and the caller's own deadline.

What is refused is refused at once: a caller told in a millisecond can go elsewhere, one told after its deadline cannot.
"""

from dataclasses import dataclass

from server.core.types import DeadlinePassed, QueueFull


@dataclass(frozen=True, slots=True)
class Limits:
    """``rows`` that may wait, and ``wait_s`` of estimated work before a request. Copies have ``shadow`` of both."""

    rows: int
    wait_s: float
    shadow: float = 0.5


@dataclass(frozen=True, slots=True)
class Load:
    """What a request finds. ``ahead_s``: of the work that waits before it; ``device_s``: until the device is idle.

    ``waiting_s``: of all the work that waits, where what comes before the request is not known yet.
    """

    rows: int
    ahead_s: float = 0.0
    device_s: float = 0.0
    waiting_s: float = 0.0

    @property
    def wait_s(self) -> float:
        return self.ahead_s + self.device_s


@dataclass(frozen=True, slots=True)
class Ask:
    """One who comes: its rows, what they cost the device, the time that its caller has, and whether it is a copy."""

    rows: int
    own_s: float = 0.0
    left_s: float | None = None
    shadow: bool = False


def admit(load: Load, ask: Ask, limits: Limits) -> QueueFull | DeadlinePassed | None:
    """None when ``ask`` may wait. An empty queue takes any request that is served, and an idle device any deadline."""
    share = limits.shadow if ask.shadow else 1.0
    if load.rows and load.rows + ask.rows > limits.rows * share:
        return _full(load, f"{load.rows} rows are waiting, {ask.rows} more would exceed the limit of", limits.rows, ask)
    if load.rows and load.ahead_s > limits.wait_s * share:
        return _full(load, f"the wait is {load.ahead_s:.2f} s, longer than the limit of", f"{limits.wait_s:g} s", ask)
    if ask.left_s is not None and load.wait_s > 0 and load.wait_s + ask.own_s > ask.left_s:
        return DeadlinePassed(
            "admission",
            f"deadline: an answer would take {load.wait_s + ask.own_s:.2f} s, the caller's time is over in "
            f"{max(0.0, ask.left_s):.2f} s",
        )
    return None


def _full(load: Load, what: str, limit: object, ask: Ask) -> QueueFull:
    whose = f"{limit}, of which copies have a part" if ask.shadow else f"{limit}"
    return QueueFull(f"queue: {what} {whose}", retry_after_s=max(load.ahead_s, load.waiting_s) + load.device_s)


def deadline_at(arrived: float, deadline_ms: float | None) -> float | None:
    """The moment at which the caller stops waiting, seconds of the clock of ``arrived``."""
    return None if deadline_ms is None else arrived + deadline_ms / 1000


def expired(deadline: float | None, now: float) -> bool:
    return deadline is not None and now >= deadline
