"""The baseline against itself: bounds, refusals, proposals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.documents import compare
from gateway.core.compare.noise import (
    NoiseFloor,
    Standing,
    embedding_problems,
    judge,
    least_telling,
    pairs_needed,
    share_beyond,
    upper_bound,
)
from gateway.core.compare.parity import ParityStats
from gateway.core.compare.paths import parse
from gateway.core.compare.policy import ComparePolicy, ContentKind, ContentPolicy, FieldRule
from gateway.core.compare.result import PairKind, PairResult
from gateway.core.compare.rules import AbsRel, Cosine, Label, Rule
from gateway.core.plan import ParityPolicy

ALLOWED = 0.005


def policy(rule: Rule, *ignore: str, rest: bool = True) -> ComparePolicy:
    content = ContentPolicy(
        fields=(FieldRule(path=parse("x"), rule=rule),), ignore=tuple(map(parse, ignore)), rest=rest
    )
    return ComparePolicy(kinds=((ContentKind.JSON, content),))


def floor(of: ComparePolicy, *pairs: tuple[object, object]) -> NoiseFloor:
    found = NoiseFloor(of)
    content = of.of(ContentKind.JSON)
    assert content is not None
    for number, (left, right) in enumerate(pairs):
        found.add(f"r{number}", compare(content, left, right).result(ContentKind.JSON))
    return found


def angle(radians: float) -> dict[str, object]:
    return {"x": [math.cos(radians), math.sin(radians)], "id": 1}


SAME = (angle(0.0), angle(0.0))


@pytest.mark.parametrize(("allowed", "needed"), [(0.05, 59), (0.01, 299), (0.005, 598), (0.5, 5)])
def test_pairs_needed_are_those_of_the_tables(allowed: float, needed: int) -> None:
    """59 observations for 95/95, 299 for 95/99: Wilks' numbers."""
    assert pairs_needed(allowed) == needed
    assert share_beyond(needed) <= allowed < share_beyond(needed - 1)


@pytest.mark.parametrize(
    ("pairs", "allowed", "least"), [(200, 0.005, 4), (200, 0.05, 16), (59, 0.05, 7), (20, 0.005, 2), (2000, 0.5, 1038)]
)
def test_the_least_bad_number_that_tells_is_the_binomial_one(pairs: int, allowed: float, least: int) -> None:
    """As the binomial tables have it: so many come by chance at most once in 20, one less more often."""

    def at_least(bad: int) -> float:
        return math.fsum(math.comb(pairs, k) * allowed**k * (1 - allowed) ** (pairs - k) for k in range(bad, pairs + 1))

    assert least_telling(pairs, allowed) == least
    if pairs < 1000:  # beyond it these plain powers leave what a float can hold
        assert at_least(least) <= 0.05 < at_least(least - 1)


def test_bounds_of_the_short_form_that_the_baseline_itself_reaches() -> None:
    """Each with what was reached; one that every pair keeps is none of them, and so is one that was not measured."""
    stats = ParityStats()
    tolerance = ParityPolicy(cosine_min=0.99, max_abs=0.5)
    assert embedding_problems(tolerance, stats) == ()
    for cosine in (1.0, 0.97, 0.995):
        stats.add("r", PairResult(kind=PairKind.OK, min_cosine=cosine, max_abs=0.01))
    (found,) = embedding_problems(tolerance, stats)
    assert found.startswith("embedding: min 0.99 lies in the noise: the baseline against itself reached cosine 0.97")
    assert found.endswith("it must lie outside, below 0.97")
    assert len(embedding_problems(ParityPolicy(cosine_min=0.99, max_abs=0.01), stats)) == 2


def test_no_pairs_bound_nothing() -> None:
    """Without a pair everything may lie beyond."""
    assert share_beyond(0) == 1.0


@pytest.mark.parametrize(
    ("bad", "pairs", "bound"),
    [(0, 598, 0.005), (0, 1, 0.95), (1, 10, 0.3942), (3, 100, 0.0757), (10, 10, 1.0), (5, 1000, 0.01048)],
)
def test_exact_binomial_bounds(bad: int, pairs: int, bound: float) -> None:
    """Clopper and Pearson's one-sided upper limits."""
    assert upper_bound(bad, pairs) == pytest.approx(bound, rel=2e-3)


@given(st.integers(1, 400), st.data())
def test_the_binomial_bound_is_its_definition(pairs: int, data: st.DataObject) -> None:
    """At the bound, as few bad pairs still happen with probability 5 %; none is the bound of the largest of n."""
    bad = data.draw(st.integers(0, min(20, pairs - 1)))
    bound = upper_bound(bad, pairs)
    tail = math.fsum(math.comb(pairs, k) * bound**k * (1 - bound) ** (pairs - k) for k in range(bad + 1))
    assert tail == pytest.approx(0.05, rel=1e-6)
    assert upper_bound(0, pairs) == pytest.approx(share_beyond(pairs), rel=1e-9)


def test_the_share_beyond_the_worst_holds_its_promise() -> None:
    """In simulation too: of 2,000 floors of 59 pairs at most 5 % (and not far fewer) leave more than 5 % beyond."""
    worst = np.random.default_rng(7).random((2000, 59)).max(axis=1)
    assert 0.03 < np.mean(1.0 - worst > share_beyond(59)) <= 0.06


def test_a_policy_above_the_floor_stands() -> None:
    """Enough pairs and every bar beyond the worst of them."""
    measured = policy(Cosine(min=0.99))
    found = floor(measured, *[SAME] * 599, (angle(0.0), angle(0.1)))
    verdict = judge(measured, found, ALLOWED)
    assert (verdict.standing, verdict.problems, verdict.missing) == (Standing.ABOVE, (), ())


def test_a_policy_in_the_noise_is_refused_with_numbers() -> None:
    """Bar, figure, pairs, what the pairs are worth, where it must lie."""
    measured = policy(Cosine(min=0.9999))
    found = floor(measured, *[SAME] * 599, (angle(0.0), angle(0.1)))
    verdict = judge(measured, found, ALLOWED)
    assert verdict.standing is Standing.BELOW
    assert verdict.problems == (
        "x: min 0.9999 lies in the noise: the baseline against itself reached cosine 0.995004165 in 600 pairs (at most"
        " 0.50% of such pairs go further, 95% confidence); it must lie outside, below 0.995004165",
    )


def test_too_few_pairs_are_neither_pass_nor_refusal() -> None:
    """How many are there, what they leave open, how many are needed."""
    measured = policy(Cosine(min=0.99))
    verdict = judge(measured, floor(measured, *[SAME] * 100), ALLOWED)
    assert (verdict.standing, verdict.problems) == (Standing.TOO_FEW, ())
    assert verdict.missing == (
        "x: 100 pairs, 0 of them bad, leave up to 2.95% of all pairs beyond what was seen (95% confidence); 0.50% are"
        " allowed: more pairs are needed (at least 598)",
        "(rest): 100 pairs, 0 of them bad, leave up to 2.95% of all pairs beyond what was seen (95% confidence); 0.50%"
        " are allowed: more pairs are needed (at least 598)",
    )
    assert judge(measured, NoiseFloor(measured), ALLOWED).standing is Standing.TOO_FEW


@pytest.mark.parametrize(
    "bad", [{"x": [1.0, None], "id": 1}, {"id": 1}, {"x": [1.0, 0.0, 0.0], "id": 1}, {"x": [0.0, 0.0], "id": 1}]
)
def test_failures_of_their_own_have_no_bar(bad: object) -> None:
    """NaN, a missing field, another shape: too often is a refusal whatever the bounds."""
    measured = policy(Cosine(min=-1.0))
    verdict = judge(measured, floor(measured, *[SAME] * 90, *[(angle(0.0), bad)] * 10), ALLOWED)
    assert verdict.standing is Standing.BELOW
    assert "x: the baseline disagrees with itself in 10 of 100 pairs" in verdict.problems[0]
    assert "0.50% are allowed and no bar covers this" in verdict.problems[0]


def test_rules_without_bars_are_counted() -> None:
    """A label that flips once in 2,000 pairs is allowed here, once in 600 undecided, once in 100 too often."""
    measured = policy(Label(), rest=False)
    flip = ({"x": "a"}, {"x": "b"})
    same = ({"x": "a"}, {"x": "a"})
    assert judge(measured, floor(measured, flip, *[same] * 1999), ALLOWED).standing is Standing.ABOVE
    assert judge(measured, floor(measured, flip, *[same] * 599), ALLOWED).standing is Standing.TOO_FEW
    assert judge(measured, floor(measured, flip, *[same] * 99), ALLOWED).standing is Standing.BELOW


@pytest.mark.parametrize(
    ("judged", "problem"),
    [
        (policy(AbsRel(abs=0.1)), "x: measured under cosine, not under this abs_rel; measure the floor again"),
        (
            policy(Cosine(min=0.9)),
            "kinds.json: the noise floor was measured with 'id' ignored; measure the floor again",
        ),
    ],
)
def test_a_floor_of_another_policy_is_no_floor(judged: ComparePolicy, problem: str) -> None:
    """What was not compared then says nothing now."""
    ignoring = "id" if "ignored" in problem else "other"
    measured = policy(Cosine(min=0.9), ignoring)
    judged = judged if "ignored" in problem else policy(AbsRel(abs=0.1), ignoring)
    assert judge(judged, floor(measured, *[SAME] * 600), ALLOWED).problems == (problem,)


def test_contents_and_rests_that_were_not_measured_are_named() -> None:
    """A policy may not compare more than its floor did."""
    found = floor(policy(Cosine(min=0.9), rest=False), *[SAME] * 600)
    assert "rest: false" in judge(policy(Cosine(min=0.9)), found, ALLOWED).problems[0]
    other = ComparePolicy(kinds=((ContentKind.CHAT, ContentPolicy(fields=())),))
    assert "without this content" in judge(other, found, ALLOWED).problems[0]
