import json

from fakes.arms import HandClock

from gateway.core.types import Role
from gateway.runtime.writes import Writes


def test_every_write_and_acknowledgement_is_a_line_in_order() -> None:
    """The lines are JSON whatever a client calls its request."""
    lines: list[str] = []
    writes = Writes(HandClock(), lines.append)
    writes.wrote(Role.CANDIDATE, "tpu", "live", 'quo"te', 3)
    writes.acknowledged(7, 4)
    writes.wrote(Role.BASELINE, "gpu", "copy", "r2", 4)
    assert [json.loads(line) for line in lines] == [
        {"at": 1_700_001_000.0, "request_id": 'quo"te', "arm": "tpu", "lane": "live", "epoch": 3},
        {"ack": 7, "epoch": 4},
        {"at": 1_700_001_000.0, "request_id": "r2", "arm": "gpu", "lane": "copy", "epoch": 4},
    ]
    assert writes.to_candidate == 1


def test_without_a_log_the_candidates_writes_are_still_counted() -> None:
    """The acknowledgement carries the number."""
    writes = Writes(HandClock(), None)
    for role in (Role.CANDIDATE, Role.BASELINE, Role.CANDIDATE):
        writes.wrote(role, "arm", "live", "r", 1)
    writes.acknowledged(1, 1)
    assert writes.to_candidate == 2
