"""Live and copied answers of the candidate side by side: said when they differ, and nothing else."""

import json
import random

import pytest

from gateway.core.mirror_load import Lanes, MirrorLoad
from gateway.core.plan import MetricId, MetricLimit, RuleParameters

LIMIT = MetricLimit(metric=MetricId.LAT_P95, allowed=0.05, limit_ms=80.0)
RULE = RuleParameters()


def fed(*windows: Lanes, rounds: int = 60) -> MirrorLoad:
    """``windows`` one after the other, again and again."""
    mirror = MirrorLoad(RULE)
    mirror.start()
    for window in range(rounds):
        mirror.add(window, {MetricId.LAT_P95: windows[window % len(windows)]})
    return mirror


def test_slower_copies_are_told_with_both_shares() -> None:
    """The note has the metric, both lanes' counts, the limit and which lane is slower."""
    (note,) = fed((20, 1, 40, 6)).notes([LIMIT])
    assert note.startswith("mirror load: lat_p95: 57 of 1,140 (5 %) of the candidate's live answers and 342 of 2,280")
    assert "took longer than 80 ms; the copies are slower" in note


def test_slower_live_answers_are_told_as_well() -> None:
    """A mirror that spares the candidate makes it look better than it is."""
    (note,) = fed((40, 6, 20, 1)).notes([LIMIT])
    assert "the live answers are slower" in note


@pytest.mark.parametrize(
    "windows",
    [
        [(20, 1, 40, 2)],
        [(20, 0, 40, 0)],
        [(20, 20, 40, 40)],
        [(20, 1, 0, 0)],
        [(0, 0, 40, 2)],
        [(1, 0, 40, 6)],
    ],
    ids=["equal", "never late", "always late", "no copies", "no live", "too few live"],
)
def test_nothing_is_told_without_a_difference_in_enough_events(windows: list[Lanes]) -> None:
    """Equal shares, an empty lane, or fewer than a hundred events say nothing."""
    assert fed(*windows).notes([LIMIT]) == []


def test_too_few_groups_cannot_tell_bursts_from_a_difference() -> None:
    """However many events: the first four minutes say nothing."""
    assert fed((400, 20, 400, 80), rounds=24).notes([LIMIT]) == []
    assert fed((400, 20, 400, 80), rounds=25).notes([LIMIT]) != []


def test_one_bad_spell_of_one_lane_is_no_difference() -> None:
    """The same shares spread evenly are a difference; in one burst they are bad luck."""
    even = fed((20, 1, 20, 3), rounds=60)
    spell = MirrorLoad(RULE)
    for window in range(60):
        late = 20 if 30 <= window < 36 else 1
        spell.add(window, {MetricId.LAT_P95: (20, 1, 20, late)})
    assert even.notes([LIMIT]) != []
    assert spell.notes([LIMIT]) == []


def test_equal_lanes_are_seldom_told_to_differ_however_often_one_looks() -> None:
    """An hour of looks at each of 60 healthy candidates, in shared bursts and without: at most three notes."""
    draw = random.Random(7)  # seeded
    told = 0
    for run in range(60):
        mirror = MirrorLoad(RULE)
        for window in range(360):
            p = 0.4 if run % 2 and draw.random() < 0.05 else 0.04
            lanes = tuple(sum(draw.random() < p for _ in range(n)) for n in (20, 40))
            mirror.add(window, {MetricId.LAT_P95: (20, lanes[0], 40, lanes[1])})
            if window % 3 == 0 and mirror.notes([LIMIT]):
                told += 1
                break
    assert told <= 3


def test_a_step_begins_anew_and_a_checkpoint_goes_on() -> None:
    """Through JSON and back the same is said; a new step has counted nothing."""
    mirror = fed((20, 1, 40, 6), rounds=59)
    again = MirrorLoad(RULE)
    again.restore(json.loads(json.dumps(mirror.checkpoint())))
    assert again.checkpoint() == mirror.checkpoint()
    for each in (mirror, again):
        each.add(59, {MetricId.LAT_P95: (20, 1, 40, 6)})
    assert again.notes([LIMIT]) == mirror.notes([LIMIT]) != []
    again.start()
    assert (again.notes([LIMIT]), again.checkpoint()) == ([], {})


def test_without_copies_nothing_is_kept() -> None:
    """A plan that copies nothing has the checkpoint that it always had."""
    assert fed((20, 1, 0, 0)).checkpoint() == {}
