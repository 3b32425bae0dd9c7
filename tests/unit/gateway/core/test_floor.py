"""The baseline against itself: when it holds, what it says, that it survives a restart."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes.control import PLAN

from gateway.core.compare.defaults import BOUNDS, policy_with
from gateway.core.compare.policy import ContentKind
from gateway.core.compare.result import FieldResult, Figure, PairKind, PairResult
from gateway.core.floor import SHARE, Floor, floor_of
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan, PlanError

ALLOWED = 0.05
LIMITS = (*PLAN.metrics, MetricLimit(metric=MetricId.PARITY, allowed=ALLOWED))
NOISY = replace(PLAN, metrics=LIMITS, parity=ParityPolicy(cosine_min=0.99), copies=1000, noise_pairs=200)
LEAST = 16
"""Of 200 with 5 % allowed: as many come by chance in 1 case of 20."""
SAME = PairResult(kind=PairKind.OK, min_cosine=1.0, max_abs=0.0)
OTHER = PairResult(kind=PairKind.TOLERANCE, min_cosine=0.42, max_abs=0.3, detail="cosine 0.42")


def floor(bad: int, good: int = 0, plan: Plan = NOISY) -> Floor:
    found = Floor(plan)
    for n, result in ((good, SAME), (bad, OTHER)):
        for _ in range(n):
            found.stats.add("r", result)
    return found


def test_a_quiet_baseline_holds_nothing_and_is_copied_until_there_are_enough_pairs() -> None:
    """The number of pairs, their bound and the plan's allowance are said."""
    assert floor(0, 199).copies == SHARE
    quiet = floor(0, 200)
    assert (quiet.copies, quiet.gaps(), quiet.in_noise) == (0, [], False)
    assert quiet.sentence == (
        "noise floor: the baseline disagrees with itself in 0 of 200 (0 %) pairs (at most 1.49 % of all, 95%"
        " confidence), 5 % may"
    )


def test_too_few_pairs_are_a_note_and_no_hold() -> None:
    """It is a safeguard: a step does not wait for it."""
    assert "no pair of the baseline with itself yet, 200 are wanted" in floor(0).sentence
    few = floor(1, 30)
    assert few.gaps() == []
    assert few.sentence.endswith("; too few, 200 are wanted")


@pytest.mark.parametrize("good", [0, 184])
def test_noise_beyond_what_the_plan_lets_differ_holds(good: int) -> None:
    """From the same number on whether all pairs are there or not; the sentence says what has to lie where."""
    assert floor(LEAST - 1, good).gaps() == []
    (gap,) = floor(LEAST, good).gaps()
    assert (gap.reason, gap.metric) == ("noise_floor", MetricId.PARITY)
    assert f"the baseline disagrees with itself in 16 of {16 + good}" in gap.text
    assert "5 % may differ; embedding: min 0.99 lies in the noise" in gap.text
    assert "it must lie outside, below 0.42. Start a new run with a tolerance above that" in gap.text
    assert "may be the baseline's own noise" in floor(LEAST, good).sentence


def test_the_bounds_of_a_policy_by_field_are_named() -> None:
    """At most three of them, then how many more."""
    policy = policy_with(BOUNDS["float32"])
    content = policy.of(ContentKind.EMBEDDINGS)
    assert content is not None
    name = content.fields[0].name
    plan = replace(NOISY, parity=None, compare=policy.canonical_text())
    found = Floor(plan)
    result = FieldResult(field=name, kind=PairKind.TOLERANCE, figures={Figure.COSINE: 0.5}, sentence="far")
    for _ in range(LEAST):
        found.stats.add("r", PairResult(kind=PairKind.TOLERANCE, content=str(ContentKind.EMBEDDINGS), fields=(result,)))
    (gap,) = found.gaps()
    assert f"{name}: min" in gap.text
    assert "it must lie outside, below 0.5." in gap.text


def test_disagreement_that_no_bound_covers_is_told_by_its_kind() -> None:
    """A status, a shape: no tolerance helps, so none is named."""
    found = Floor(NOISY)
    for _ in range(LEAST):
        found.stats.add("r", PairResult(kind=PairKind.STATUS))
    (gap,) = found.gaps()
    assert "no bound covers it (16 status)" in gap.text


def test_identical_bodies_count_once_within_a_window() -> None:
    """And nothing is wanted once there are enough."""
    open_ = floor(0)
    assert [open_.wants(*pair) for pair in ((7, b"a"), (7, b"a"), (7, b"b"), (8, b"a"))] == [True, False, True, True]
    assert not floor(0, 200).wants(7, b"a")


def test_it_goes_on_after_a_restart() -> None:
    """Through JSON; a plan that wants no pairs has no floor."""
    before = floor(LEAST, 10)
    after = floor_of(NOISY, json.loads(json.dumps(before.checkpoint())))
    assert after is not None
    assert (after.gaps(), after.sentence, after.copies) == (before.gaps(), before.sentence, before.copies)
    assert floor_of(replace(NOISY, noise_pairs=0), None) is None
    assert floor_of(NOISY, None) is not None
    for broken in ({}, {"kinds": {"nonsense": 1}}):
        with pytest.raises((KeyError, ValueError)):
            floor_of(NOISY, broken)


@pytest.mark.parametrize("pairs", [-1, 1, 19, 2001])
def test_a_number_of_pairs_that_could_tell_nothing_is_refused(pairs: int) -> None:
    """With what is allowed."""
    with pytest.raises(PlanError, match=rf"noise_floor.pairs: {pairs} must be 0 \(off\) or 20 to 2000"):
        replace(NOISY, noise_pairs=pairs)


def test_pairs_without_parity_are_refused() -> None:
    """Nothing would be held to the tolerance whose floor they measure."""
    with pytest.raises(PlanError, match=r"noise_floor\.pairs: 200 without slo\.parity"):
        replace(NOISY, metrics=PLAN.metrics)


def test_the_floor_is_looked_into_once_for_each_pair(monkeypatch: Any) -> None:
    """The judge asks several times a second."""
    asked = []
    monkeypatch.setattr("gateway.core.floor.embedding_problems", lambda *_: asked.append(1) or ())
    noisy = floor(LEAST)
    for _ in range(5):
        noisy.gaps()
    noisy.stats.add("r", OTHER)
    noisy.gaps()
    assert len(asked) == 2
