"""Both protocols' answers become the same arrays, and pairs are judged by the plan's policy."""

import base64
from typing import Any

import msgspec
import numpy as np
import pytest

from gateway.adapters.answers import compare_pair, embeddings
from gateway.core.compare.parity import ParityStats
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
