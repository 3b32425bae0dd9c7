"""What a process of a smoke is told; it writes its result where the job says, as JSON."""

from dataclasses import dataclass
from typing import Literal

from server.core.tolerance import Tolerance
from server.ports.worker import Start


@dataclass(frozen=True, slots=True)
class Job:
    """``start`` is what a serving worker would get. ``arrays`` holds inputs and the CPU's outputs, once made."""

    mode: Literal["reference", "eager", "compiled"]
    start: Start
    tolerance: Tolerance
    arrays: str
    result: str
    steady_calls: int
