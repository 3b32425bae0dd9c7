"""The tolerance that a smoke proposes, and what a gateway reads from it."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.adapters.plan_document import parse_plan
from gateway.core.compare.defaults import BOUNDS, policy_with
from gateway.core.compare.policy import ComparePolicy, ContentKind, policy_of
from gateway.core.compare.rules import AbsRel, Cosine
from server.core.proposal import proposed, yaml_lines
from server.core.signature import ModelSignature, TensorSpec, embedding
from server.core.smoke import BucketRun, Difference
from server.core.tolerance import BFLOAT16, FLOAT32, Tolerance
from server.core.types import Bucket

SCORES = ModelSignature((TensorSpec("x", "FP32", (-1, 3)),), (TensorSpec("y", "FP32", (-1, 4)),))


def run(cosine: float = 1.0, length: float = 0.0, used: float = 0.0) -> BucketRun:
    seen = Difference(cosine, length, 0.0, used, 0, 80, finite=True)
    return BucketRun(Bucket(2, 8), 1.0, 3, 0.1, 0.1, 0.1, 20, 0, 0, "eager", seen)


def read(bounds: Tolerance, signature: ModelSignature) -> ComparePolicy:
    """As the gateway does, pasted into a plan."""
    pasted: dict[str, Any] = yaml.safe_load("\n".join(yaml_lines(bounds, signature, ["a: 1", "- b"])))
    plan = {"apiVersion": "canary/v1", "kind": "Plan", "rollout": "r", "steps": [100], "slo": {"parity": {}},
            "copies": {"share": 5}, **pasted}  # fmt: skip
    compare = parse_plan(plan, "r")[0].compare
    assert compare is not None
    return policy_of(json.loads(compare))


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (run(), Tolerance("bfloat16", 0.999, 0.002, 0.002, 0.002)),
        (run(cosine=0.9992, length=0.001, used=0.031), Tolerance("bfloat16", 0.996, 0.005, 0.0062, 0.0062)),
        (run(cosine=0.992, length=0.015, used=0.9), BFLOAT16),
    ],
)
def test_bounds_leave_room_within_a_tenth_and_the_whole_of_the_defaults(seen: BucketRun, wanted: Tolerance) -> None:
    """Five times in direction and length, ten times in an element."""
    assert proposed(BFLOAT16, [run(), seen]) == wanted


@given(st.sampled_from([FLOAT32, BFLOAT16]), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_what_passed_passes_and_nothing_is_wider_than_the_defaults(
    row: Tolerance, cosine: float, length: float, used: float
) -> None:
    """Whatever was seen within the defaults; the smallest numbers included."""
    seen = run(1.0 - cosine * (1.0 - row.cosine_min), length * row.length_rel, used)
    bounds = proposed(row, [seen])
    assert row.cosine_min <= bounds.cosine_min <= max(row.cosine_min, seen.difference.cosine_min)
    assert seen.difference.length_rel <= bounds.length_rel <= row.length_rel
    assert used * row.absolute <= bounds.absolute <= row.absolute
    assert used * row.relative <= bounds.relative <= row.relative


def test_an_embedding_is_held_to_its_direction_in_both_protocols() -> None:
    """The other kinds keep the defaults, and the ignored paths are the defaults' own."""
    found = read(Tolerance("bfloat16", 0.996, 0.005, 0.002, 0.002), embedding(384))
    default = policy_of(policy_with(BOUNDS["bfloat16"]).canonical())
    for kind in (ContentKind.EMBEDDINGS, ContentKind.INFER):
        part, usual = found.of(kind), default.of(kind)
        assert part is not None
        assert usual is not None
        assert [field.rule for field in part.fields] == [Cosine(min=0.996, length_rel=0.005)]
        assert set(part.ignore) == set(usual.ignore)
    assert found.of(ContentKind.CHAT) == default.of(ContentKind.CHAT)


def test_other_outputs_are_held_element_by_element() -> None:
    """Scores and logits have no direction that counts."""
    found = read(Tolerance("float32", 0.99999, 1e-4, 2e-5, 1e-4), SCORES)
    part = found.of(ContentKind.INFER)
    assert part is not None
    assert [field.rule for field in part.fields] == [AbsRel(abs=2e-5, rel=1e-4)]
    default = policy_of(policy_with(BOUNDS["float32"]).canonical())
    assert found.of(ContentKind.EMBEDDINGS) == default.of(ContentKind.EMBEDDINGS)
