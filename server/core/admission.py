"""Who may wait: a bound in rows, and a deadline that the caller named."""

from server.core.types import QueueFull


def admit(waiting_rows: int, rows: int, max_rows: int) -> QueueFull | None:
    """None when ``rows`` more may wait. An empty queue takes any request that the catalogue serves."""
    if waiting_rows == 0 or waiting_rows + rows <= max_rows:
        return None
    return QueueFull(f"queue: {waiting_rows} rows are waiting, {rows} more would exceed the limit of {max_rows}")


def deadline_at(arrived: float, deadline_ms: float | None) -> float | None:
    """The moment at which the caller stops waiting, seconds of the clock of ``arrived``."""
    return None if deadline_ms is None else arrived + deadline_ms / 1000


def expired(deadline: float | None, now: float) -> bool:
    return deadline is not None and now >= deadline
