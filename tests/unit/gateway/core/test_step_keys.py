"""What a sticky key does to the verdict: a hold, a note, and nothing to the rules that roll back."""

import json
import re
from typing import Any

import pytest
from decision_cases import HEALTHY, Cells, begin, started

from gateway.core.keys import MOST_KEYS, KeyCounts
from gateway.core.plan import MetricId
from gateway.core.sequential import Cell
from gateway.core.types import Role
from gateway.core.verdict import Judge, Verdict, VerdictName

SLOW = HEALTHY | {MetricId.LAT_P99: Cell(50, 3, 450, 2)}
BROKEN = HEALTHY | {MetricId.ERROR: Cell(50, 10, 450, 0)}


def keys(**requests: dict[int, int]) -> dict[Role, KeyCounts]:
    """Requests by key, for each arm."""
    found = {Role(role): KeyCounts() for role in requests}
    for role, by_key in requests.items():
        for key, n in by_key.items():
            for _ in range(n):
                found[Role(role)].add(key)
    return found


def feed(judge: Judge, seen: dict[Role, KeyCounts], *, cells: Cells = HEALTHY, first: int = 0, count: int = 30) -> None:
    """``count`` windows, each with the same keys."""
    for window in range(first, first + count):
        judge.close_window(window, cells, compiles=0, answered=50, keys=seen)


def judged(seen: dict[Role, KeyCounts], **step: Any) -> Verdict:
    """A healthy step of full age."""
    judge = started(**{"sticky": True, **step})
    feed(judge, seen)
    return judge.verdict(now=300.0)


def crowd(n: int, *, heavy: int = 1) -> dict[Role, KeyCounts]:
    """``n`` keys, a tenth of them in the candidate; the first has ``heavy`` requests a window, the others one."""
    tenth = n // 10
    return keys(
        baseline={key: heavy if key == 0 else 1 for key in range(n - tenth)},
        candidate=dict.fromkeys(range(n - tenth, n), 1),
    )


def test_two_tenants_hold_whatever_else_is_proven() -> None:
    """The sentence has both numbers and what is allowed, the note the keys of each arm."""
    verdict = judged(keys(baseline={1: 3}, candidate={2: 1}))
    assert (verdict.name, verdict.reason, verdict.metric, verdict.to_go_s) == (
        VerdictName.HOLD,
        "too_few_keys",
        None,
        None,
    )
    text = (
        "keys: 2 distinct in this step, needs at least 200;"
        " the largest has 90 of 120 live requests (75 %), may have at most 20 %"
    )
    assert verdict.missing == (text,)
    assert verdict.text == f"{text}."
    assert (
        "split by key; distinct keys in this step: baseline 1, candidate 1;"
        " the largest has 90 of 120 live requests (75 %)" in verdict.notes
    )


@pytest.mark.parametrize(("n", "name"), [(199, VerdictName.HOLD), (200, VerdictName.ADVANCE)])
def test_two_hundred_keys_of_both_arms_together_are_enough(n: int, name: VerdictName) -> None:
    """One less is not; the same keys in every window are counted once."""
    assert judged(crowd(n)).name is name


@pytest.mark.parametrize(
    ("heavy", "name"), [(40, VerdictName.ADVANCE), (65, VerdictName.ADVANCE), (80, VerdictName.HOLD)]
)
def test_one_key_may_have_a_fifth_of_the_requests(heavy: int, name: VerdictName) -> None:
    """Of both arms together: 65 of 364 are within, 80 of 379 beyond."""
    verdict = judged(crowd(300, heavy=heavy))
    assert verdict.name is name
    if name is VerdictName.HOLD:
        assert verdict.reason == "too_few_keys"
        assert re.search(r"the largest has [\d,]+ to [\d,]+ of 11,370 live requests", verdict.text)


def test_a_key_that_may_have_more_than_a_fifth_holds() -> None:
    """What the bounded counters cannot tell is not taken for an all-clear: 75 of 374 are 20.05 %."""
    verdict = judged(crowd(300, heavy=75))
    found = re.search(r"the largest has ([\d,]+) to ([\d,]+) of 11,220 live requests", verdict.text)
    assert verdict.reason == "too_few_keys"
    assert found is not None
    least, most = (int(n.replace(",", "")) for n in found.groups())
    assert least < 0.2 * 11_220 < 75 * 30 <= most


@pytest.mark.parametrize("arms", [("baseline", "baseline"), ("baseline", "candidate")])
def test_a_heavy_key_that_changed_its_arm_is_still_one_key(arms: tuple[str, str]) -> None:
    """An eighth of the requests before, an eighth after: together more than a fifth."""
    judge = started(sticky=True)
    for number, arm in enumerate(arms):
        feed(judge, keys(baseline=dict.fromkeys(range(250), 1)), first=number * 15, count=14)
        feed(judge, keys(**{arm: {7: 1200}}), first=number * 15 + 14, count=1)
    verdict = judge.verdict(now=300.0)
    assert verdict.reason == "too_few_keys", verdict.text


def test_without_a_sticky_key_there_is_no_hold_and_no_word_of_keys() -> None:
    """The default: a key for each request."""
    verdict = judged({}, sticky=False)
    assert verdict.name is VerdictName.ADVANCE
    assert not any("key" in note for note in verdict.notes)


def test_no_keys_at_all_hold() -> None:
    """No data is never a pass."""
    verdict = judged({})
    assert (verdict.reason, verdict.missing) == (
        "too_few_keys",
        (
            "keys: 0 distinct in this step, needs at least 200; the largest has none of 0 live requests,"
            " may have at most 20 %",
        ),
    )


def test_a_rollback_does_not_wait_for_keys() -> None:
    """Few keys forbid a pass, never a rollback."""
    judge = started(sticky=True)
    feed(judge, keys(baseline={1: 1}, candidate={2: 1}), cells=BROKEN, count=10)
    verdict = judge.verdict(now=100.0)
    assert (verdict.name, verdict.metric) == (VerdictName.ROLL_BACK, MetricId.ERROR)


def test_silence_and_suspicion_are_told_first_and_thin_counts_after() -> None:
    """The order of the reasons."""
    assert started(sticky=True).verdict(now=300.0).reason == "no_data"
    judge = started(sticky=True)
    feed(judge, crowd(20), count=2)
    assert judge.verdict(now=20.0).reason == "too_few_keys"
    suspect = started(sticky=True)
    feed(suspect, crowd(20), cells=SLOW, count=4)
    found = suspect.verdict(now=40.0)
    assert (found.name, found.reason) == (VerdictName.HOLD, "suspect")


def test_each_step_counts_its_own_keys() -> None:
    """Those of the step before, and of windows that began in it, do not count."""
    judge = started(sticky=True)
    feed(judge, crowd(300))
    assert judge.verdict(now=300.0).name is VerdictName.ADVANCE
    begin(judge, weight_bp=5000, next_weight_bp=10_000, window=31, now=300.0, sticky=True)
    feed(judge, crowd(300), first=30, count=1)
    feed(judge, crowd(20), first=31, count=30)
    verdict = judge.verdict(now=610.0)
    assert verdict.missing[0].startswith("keys: 20 distinct in this step")


def test_more_keys_than_are_kept_are_told_as_at_least() -> None:
    """They are enough."""
    verdict = judged(crowd(2 * MOST_KEYS))
    assert verdict.name is VerdictName.ADVANCE
    assert f"baseline at least {MOST_KEYS:,}, candidate 204" in "; ".join(verdict.notes)


@pytest.mark.parametrize("sticky", [True, False])
def test_a_restored_judge_says_the_same(sticky: bool) -> None:
    """Through JSON; where keys are not sticky nothing is kept of them."""
    judge = started(sticky=sticky)
    feed(judge, crowd(150, heavy=80))
    saved = json.loads(json.dumps(judge.checkpoint()))
    assert ("keys" in saved) is sticky
    again = Judge(judge._plan, first_window=0, resume=saved)
    assert again.verdict(now=300.0) == judge.verdict(now=300.0)
