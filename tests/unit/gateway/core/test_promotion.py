"""Evidence for the candidate: the vectors of the reference, clustering, clean windows."""

import json
import math
from typing import Any

import pytest
from decision_cases import VECTORS, limits
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.core.plan import MetricId, RuleParameters
from gateway.core.promotion import GroupSums, MetricProof, log_evidence, promotion_limit
from gateway.core.sequential import Cell

RULE = RuleParameters()
P99 = limits((MetricId.LAT_P99, 0.01))[0]


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-9, abs=0.0)


@pytest.mark.parametrize("vector", VECTORS["promote_limit"])
def test_promotion_limit(vector: dict[str, float]) -> None:
    """The smaller the next weight, the wider the limit that must be excluded."""
    assert promotion_limit(vector["p0"], round(vector["w_next"] * 10_000), RULE) == near(vector["out"])


@pytest.mark.parametrize("weight", [0, -1, 10_001])
def test_a_next_weight_that_sends_nothing_has_no_limit(weight: int) -> None:
    """The weight is named with what is allowed."""
    with pytest.raises(ValueError, match=f"next weight: {weight} must lie between 1 and 10000"):
        promotion_limit(0.01, weight, RULE)


@pytest.mark.parametrize("vector", VECTORS["promote_log_e"])
def test_log_evidence(vector: dict[str, Any]) -> None:
    """The log-evidence and whether it passes at five percent are those of the reference."""
    out = log_evidence(vector["n"], vector["k"], vector["limit"], vector["deff"])
    assert out == near(vector["out"])
    assert (out >= MetricProof(P99, RULE).bar) is vector["promote_at_5pct"]


def test_no_events_prove_nothing() -> None:
    """Zero of zero is no evidence either way."""
    assert log_evidence(0, 0, 0.02, 1.0) == pytest.approx(0.0, abs=1e-12)


def test_very_many_events_stay_finite() -> None:
    """A million good or bad events overflow nothing."""
    assert 0 < log_evidence(1_000_000, 0, 0.9, 1.0) < math.inf
    assert -math.inf < log_evidence(1_000_000, 1_000_000, 0.0011, 1.0) < 0


@pytest.mark.parametrize("vector", VECTORS["icc"])
def test_clustering(vector: dict[str, Any]) -> None:
    """The intra-group correlation is that of the reference; groups that cannot tell give none."""
    out = GroupSums((n, k) for n, k in vector["super_buckets"]).icc()
    assert out == (None if vector["out"] is None else near(vector["out"]))


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)).map(lambda g: (g[0], min(g))), max_size=12))
@settings(max_examples=50)
def test_the_order_of_groups_changes_nothing(groups: list[tuple[int, int]]) -> None:
    """Clustering does not depend on the order in which the groups came."""
    assert GroupSums(groups).icc() == GroupSums(reversed(groups)).icc()


def proof_of(cells: list[Cell], *, held_to: float | None = 0.01, first: int = 0) -> MetricProof:
    proof = MetricProof(P99, RULE)
    for window, cell in enumerate(cells, start=first):
        proof.add(window, cell, held_to)
    return proof


def test_bursts_weaken_the_proof() -> None:
    """The same counts prove less when the bad events come in one burst than when they are spread."""
    spread = [Cell(100, 1 if window % 6 == 0 else 0, 900, 0) for window in range(36)]
    burst = [Cell(100, 6 if window == 20 else 0, 900, 0) for window in range(36)]
    even, uneven = proof_of(spread), proof_of(burst)
    assert even.test(5000) > uneven.test(5000)
    assert even.design_effect() == 1.0
    assert uneven.design_effect() > 2.0
    assert (even.clean_n, even.clean_k) == (uneven.clean_n, uneven.clean_k)


def test_the_burstier_arm_decides() -> None:
    """A baseline whose bad events cluster counts against the candidate's proof: the conditions are shared."""
    calm = [Cell(100, 0, 900, 2) for _ in range(30)]
    bursty = [Cell(100, 0, 900, 60 if window == 9 else 0) for window in range(30)]
    calm_proof, bursty_proof = proof_of(calm), proof_of(bursty)
    assert calm_proof.test(5000) > bursty_proof.test(5000)


def test_the_design_effect_is_that_of_the_groups() -> None:
    """D = 1 + (mean group size - 1) x the intra-group correlation of the reference."""
    vector = VECTORS["icc"][0]
    proof = MetricProof(P99, RULE)
    for group, (n, k) in enumerate(vector["super_buckets"]):
        proof.add(RULE.group_windows * group, Cell(n, k, 0, 0), 0.01)
    proof.test(5000)
    assert proof.design_effect() == near(1.0 + 149.0 * vector["out"])


def test_too_few_groups_give_no_design_effect() -> None:
    """Seven groups are not enough to speak of clustering, eight are."""
    burst = [Cell(100, 6 if window == 2 else 0, 0, 0) for window in range(24)]
    seven, eight = proof_of(burst[:21]), proof_of(burst)
    seven.test(5000)
    eight.test(5000)
    assert seven.design_effect() == 1.0
    assert eight.design_effect() > 1.0


@pytest.mark.parametrize(
    ("held_to", "clean", "unclean", "uncontrolled"),
    [(0.01, 1, 0, 0), (0.02, 1, 0, 0), (0.0201, 0, 1, 0), (None, 0, 0, 1)],
)
def test_only_clean_windows_prove(held_to: float | None, clean: int, unclean: int, uncontrolled: int) -> None:
    """A window proves something only while the baseline was measured and near its limit."""
    proof = proof_of([Cell(50, 0, 450, 2)], held_to=held_to)
    assert (proof.clean_windows, proof.unclean_windows, proof.uncontrolled_windows) == (clean, unclean, uncontrolled)
    assert proof.clean_n == 50 * clean
    assert proof.step == Cell(50, 0, 450, 2)


def test_windows_without_candidate_events_are_no_windows() -> None:
    """Empty windows add nothing to the number of windows seen."""
    proof = proof_of([Cell(0, 0, 450, 2)] * 5)
    assert (proof.clean_windows, proof.clean_n) == (0, 0)


def test_bad_events_beyond_the_windows_weaken_the_proof() -> None:
    """Events that no window carries can be added to the test as bad."""
    proof = proof_of([Cell(50, 0, 450, 2)] * 30)
    fair = proof.test(5000)
    assert proof.is_proven
    assert proof.test(5000, more_bad=20) < fair
    assert not proof.is_proven


@settings(max_examples=40)
@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 5))
def test_a_checkpoint_goes_on_where_it_was_taken(before: int, after: int, bad: int) -> None:
    """Through JSON and back, the proof after more windows is the same, groups in progress included."""
    first = proof_of([Cell(50, bad, 450, 2)] * before, first=1)
    second = MetricProof(P99, RULE)
    second.restore(json.loads(json.dumps(first.checkpoint())))
    for window in range(before + 1, before + after + 1):
        first.add(window, Cell(40, 1, 300, 1), 0.01)
        second.add(window, Cell(40, 1, 300, 1), 0.01)
    assert second.test(1000) == first.test(1000)
    assert second.checkpoint() == first.checkpoint()
