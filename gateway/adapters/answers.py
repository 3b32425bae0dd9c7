"""Decodes two answers, so that the core can compare plain arrays, or every field under the plan's policy."""

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.core.compare.documents import compare
from gateway.core.compare.embeddings import PairKind, PairResult, compare_embeddings, compare_statuses, is_pair
from gateway.core.compare.parity import ParityStats
from gateway.core.compare.policy import ContentKind, ContentPolicy
from gateway.core.compare.protocols import content_kind, readable
from gateway.core.compare.result import whole_answer
from gateway.core.plan import Plan
from gateway.core.snapshot import Answer, Pair
from wire import openai
from wire.oip import InferResponse


def compare_pair(pair: Pair, plan: Plan, stats: ParityStats) -> bool | None:
    """Counts one pair under the plan's policy: whether the answers agree, None when the two form no pair."""
    if not plan.compares or not is_pair(pair.baseline.status, pair.candidate.status):
        return None
    kind = content_kind(pair.path)
    content = None if plan.policy is None else plan.policy.of(kind)
    if plan.policy is not None and content is None:
        return None  # the plan names no policy for such answers
    result = compare_statuses(pair.baseline.status, pair.candidate.status)
    if result is None:
        result = _embeddings_alone(pair, plan) if content is None else _field_by_field(pair, kind, content)
    stats.add(pair.request_id, result)
    return result.ok


def _embeddings_alone(pair: Pair, plan: Plan) -> PairResult:
    """The short form of a policy, as fast as it can be: one cosine a row."""
    assert plan.parity is not None, "a plan without fields names a cosine"
    left, right = embeddings(pair.path, pair.baseline), embeddings(pair.path, pair.candidate)
    if left is None or right is None:
        arm = "baseline" if left is None else "candidate"
        return PairResult(kind=PairKind.SHAPE, detail=f"{arm}: the answer holds no embeddings")
    return compare_embeddings(left, right, plan.parity)


def _field_by_field(pair: Pair, kind: ContentKind, policy: ContentPolicy) -> PairResult:
    sides = []
    for arm, answer in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        try:
            sides.append(readable(kind, _document(answer)))
        except Exception:
            # Foreign bytes, as above: whatever a decoder makes of them, it is no answer.
            return whole_answer("body", PairKind.UNDECODABLE, f"{arm}: no JSON that can be read").result(kind)
    return compare(policy, *sides).result(kind)


def _document(answer: Answer) -> object:
    """The decoded body; one that does not claim to be JSON is a single value of bytes."""
    is_json = answer.content_type.partition(";")[0].strip().lower().endswith(("/json", "+json"))
    return msgspec.json.decode(answer.body) if is_json else answer.body


def embeddings(path: str, answer: Answer) -> NDArray[np.float32] | None:
    """Rows [n, d] as float32, in the order of the inputs; None when the body is not a readable answer."""
    try:
        if path.startswith("/v1/"):
            return _openai_rows(answer.body)
        return _oip_rows(answer.body)
    except Exception:
        # Foreign bytes: whatever a decoder makes of them (a 400-digit number, a thousand brackets), it is no answer.
        return None


def _openai_rows(body: bytes) -> NDArray[np.float32]:
    response = msgspec.json.decode(body, type=openai.EmbeddingResponse)
    rows = [_vector(item.embedding) for item in sorted(response.data, key=lambda item: item.index)]
    return np.stack(rows) if rows else np.empty((0, 0), np.float32)


def _vector(value: list[float] | str) -> NDArray[np.float32]:
    if isinstance(value, str):
        return np.frombuffer(openai.decode_base64(value), dtype="<f4")
    return np.asarray(value, dtype=np.float32)


def _oip_rows(body: bytes) -> NDArray[np.float32]:
    response = msgspec.json.decode(body, type=InferResponse)
    output = response.outputs[0] if response.outputs else None
    if output is None:
        return np.empty((0, 0), np.float32)
    data: Any = output.data
    return np.asarray(data, dtype=np.float32).reshape(output.shape)
