"""Traces of requests. What runs notes times on a Journey; spans are made of that when the request is over."""

from dataclasses import dataclass
from typing import Protocol

from server.core.journey import Journey


@dataclass(frozen=True, slots=True)
class Opened:
    """A request at its arrival, seconds of the clock. ``parent`` and ``state``: its W3C trace headers, or empty."""

    at: float
    method: str
    route: str
    path: str
    http_version: str
    parent: str
    state: str


@dataclass(frozen=True, slots=True)
class Told:
    """How it ended: numbers and names, nothing of what was asked or answered."""

    at: float
    status: int
    reason: str
    journey: Journey
    request_id: str
    shadow: bool
    compiles: int
    bucket: str = ""
    rows: int = 0
    tokens: int = 0


class Trace(Protocol):
    """One request that is recorded."""

    @property
    def id(self) -> str:
        """32 hex digits."""
        ...

    def end(self, told: Told) -> None: ...


class Tracer(Protocol):
    """Neither waits nor raises: a request is worth more than its trace."""

    def begin(self, opened: Opened) -> Trace | None:
        """None: this one is not recorded."""
        ...

    def close(self, limit_s: float) -> None:
        """Sends what is left, within ``limit_s``."""
        ...
