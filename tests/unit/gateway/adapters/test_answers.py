"""Both protocols' answers become the same arrays, and pairs are judged by the plan's policy."""

import base64
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from gateway.adapters.answers import compare_pair, embeddings
from gateway.core.compare.parity import ParityStats
from gateway.core.compare.policy import policy_of
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.snapshot import Answer, Pair
from gateway.core.types import Role

ROWS = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)
PLAN = Plan(
    rollout="r",
    steps=(1000,),
    metrics=(MetricLimit(metric=MetricId.ERROR, allowed=0.05), MetricLimit(metric=MetricId.PARITY, allowed=0.05)),
    parity=ParityPolicy(cosine_min=0.99),
    copies=5000,
)


def openai(rows: np.ndarray[Any, Any], *, as_base64: bool, reverse: bool = False) -> bytes:
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode() if as_base64 else row.tolist(),
        }
        for i, row in enumerate(rows)
    ]
    body = {"object": "list", "data": data[::-1] if reverse else data, "model": "m"}
    return msgspec.json.encode({**body, "usage": {"prompt_tokens": 1, "total_tokens": 1}})


def oip(rows: np.ndarray[Any, Any]) -> bytes:
    output = {"name": "embedding", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    return msgspec.json.encode({"model_name": "m", "outputs": [output]})


def answer(body: bytes, status: int = 200) -> Answer:
    return Answer(status=status, content_type="application/json", body=body)


def pair(baseline: Answer, candidate: Answer, path: str = "/v1/embeddings") -> Pair:
    return Pair(
        epoch=1, window=1, request_id="id", path=path, served=Role.BASELINE, body_hash=b"h",
        baseline=baseline, candidate=candidate,
    )  # fmt: skip


@pytest.mark.parametrize("as_base64", [True, False])
def test_openai_forms_decode_alike_and_by_index(as_base64: bool) -> None:
    """Base64 and float lists give the same float32 rows, ordered by index."""
    found = embeddings("/v1/embeddings", answer(openai(ROWS, as_base64=as_base64, reverse=True)))
    assert found is not None
    np.testing.assert_array_equal(found, ROWS)


def test_oip_rows_take_the_declared_shape() -> None:
    """A flat OIP output is read as [n, d]."""
    found = embeddings("/v2/models/m/infer", answer(oip(ROWS)))
    assert found is not None
    np.testing.assert_array_equal(found, ROWS)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"data": [{"index": 0, "embedding": "%%"}]}',
        b"\xff",
        b"[" * 100_000,
        b'{"data": [{"index": 0, "embedding": [' + b"9" * 400 + b"]}]}",
    ],
)
def test_what_cannot_be_read_is_none(body: bytes) -> None:
    """A body that is no answer never raises."""
    assert embeddings("/v1/embeddings", answer(body)) is None


def test_pairs_are_counted_under_the_policy() -> None:
    """Equal rows agree in any form; a rotated row, an unreadable body and a refusal do not; 5xx is no pair."""
    stats = ParityStats()
    good = answer(openai(ROWS, as_base64=True))
    assert compare_pair(pair(good, answer(openai(ROWS, as_base64=False))), PLAN, stats) is True
    assert compare_pair(pair(good, answer(openai(ROWS[::-1], as_base64=True))), PLAN, stats) is False
    assert compare_pair(pair(good, answer(b"junk")), PLAN, stats) is False
    assert compare_pair(pair(good, answer(b"", 400)), PLAN, stats) is False
    assert compare_pair(pair(good, answer(b"", 503)), PLAN, stats) is None
    assert (stats.pairs, stats.bad) == (4, 3)
    assert stats.min_cosine == pytest.approx(0.6)


def field_plan(**kinds: Any) -> Plan:
    policy = policy_of({"kinds": kinds})
    return replace(PLAN, parity=None, compare=policy.canonical_text())


def counted(one: Answer, other: Answer, plan: Plan, path: str = "/v2/models/m/infer") -> tuple[bool | None, str]:
    stats = ParityStats()
    return compare_pair(pair(one, other, path), plan, stats), stats.sentence()


LABELS = field_plan(oip_infer={"fields": [{"path": "outputs.*", "rule": "label"}], "ignore": ["model_version"]})


def test_a_policy_decides_field_by_field() -> None:
    """Scores may move as long as the label stays; another model's name is a difference that nobody ignored."""
    scores, moved, other = (np.array([row], dtype=np.float32) for row in ([0.1, 0.7], [0.3, 0.4], [0.7, 0.1]))
    assert counted(answer(oip(scores)), answer(oip(moved)), LABELS) == (True, "")
    agrees, said = counted(answer(oip(scores)), answer(oip(other)), LABELS)
    assert agrees is False
    assert "outputs" in said
    renamed = answer(oip(scores).replace(b'"m"', b'"n"'))
    assert counted(answer(oip(scores)), renamed, LABELS)[0] is False


def test_kinds_that_the_policy_does_not_name_form_no_pair() -> None:
    """A plan that compares one protocol says nothing about the other."""
    both = answer(openai(ROWS, as_base64=False))
    assert counted(both, both, LABELS, "/v1/embeddings") == (None, "")


def test_a_refusal_and_a_broken_answer_fail_under_every_policy() -> None:
    """Status and an answer that nobody can read are failures of their own, and no payload is told."""
    good, refusal = answer(oip(ROWS)), answer(b"{}", status=400)
    agrees, said = counted(good, refusal, LABELS)
    assert (agrees, "status" in said) == (False, True)
    for broken in (b"secret", b"[" * 100_000, b"\xff"):
        agrees, said = counted(good, answer(broken), LABELS)
        assert agrees is False
        assert "candidate: no JSON that can be read" in said
        assert "secret" not in said


def test_embeddings_are_the_same_in_both_forms_of_a_policy() -> None:
    """The short form and the policy that it stands for agree on every pair of these."""
    long = field_plan(openai_embeddings={"fields": [{"path": "data[*].embedding", "rule": "cosine", "min": 0.99}]})
    turned = ROWS[::-1].copy()
    for rows in (ROWS, turned, ROWS * 2, ROWS * np.float32("nan")):
        one, other = answer(openai(ROWS, as_base64=True)), answer(openai(rows, as_base64=True))
        assert counted(one, other, long, "/v1/embeddings")[0] == counted(one, other, PLAN, "/v1/embeddings")[0]
