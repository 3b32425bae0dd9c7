"""What this worker wrote to which arm, in order: the proof behind an acknowledgement."""

import json
from collections.abc import Callable

from gateway.core.types import Role
from gateway.ports import Clock

Sink = Callable[[str], None]
"""Takes one line without its end. Lines reach the file in order."""


class Writes:
    """Counts the requests written to the candidate and, when there is a log, notes every request written."""

    __slots__ = ("_clock", "_sink", "to_candidate")

    def __init__(self, clock: Clock, sink: Sink | None) -> None:
        self._clock = clock
        self._sink = sink
        self.to_candidate = 0

    def wrote(self, role: Role, arm: str, lane: str, request_id: str, epoch: int) -> None:
        """A request has been handed to the connection of ``arm``."""
        if role is Role.CANDIDATE:
            self.to_candidate += 1
        if self._sink is not None:
            self._sink(
                f'{{"at":{self._clock.wall():.6f},"request_id":{json.dumps(request_id)},"arm":{json.dumps(arm)},'
                f'"lane":"{lane}","epoch":{epoch}}}'
            )

    def acknowledged(self, version: int, epoch: int) -> None:
        """A snapshot is about to be acknowledged; every later line is of its epoch."""
        if self._sink is not None:
            self._sink(f'{{"ack":{version},"epoch":{epoch}}}')
