"""Decodes two answers, so that the core can compare plain arrays, or every field under the plan's policy."""

import json
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from gateway.core.compare.content import FLOATS, Tensor, Unreadable
from gateway.core.compare.documents import compare
from gateway.core.compare.embeddings import PairKind, PairResult, compare_embeddings, compare_statuses, is_pair
from gateway.core.compare.policy import ContentKind, ContentPolicy
from gateway.core.compare.protocols import content_kind, readable
from gateway.core.compare.result import NotCompared, whole_answer
from gateway.core.plan import Plan
from gateway.core.snapshot import Answer, Pair
from wire import openai
from wire.framing import SIZE, BadFrame, json_part, media_type, pieces
from wire.oip import InferResponse
from wire.tensors import BadTensor, Wrong, from_raw

_KINDS: Final = {
    Wrong.DATATYPE: PairKind.DTYPE,
    Wrong.SHAPE: PairKind.SHAPE,
    Wrong.SIZE: PairKind.SHAPE,
    Wrong.ELEMENT: PairKind.UNDECODABLE,
}


def compare_pair(pair: Pair, plan: Plan) -> PairResult | NotCompared | None:
    """One pair under the plan's policy. None: the two statuses form no pair, or the plan compares nothing."""
    if not plan.compares or not is_pair(pair.baseline.status, pair.candidate.status):
        return None
    if (refused := compare_statuses(pair.baseline.status, pair.candidate.status)) is not None:
        return refused
    kind = content_kind(pair.path)
    content = None if plan.policy is None else plan.policy.of(kind)
    if plan.policy is not None and content is None:
        return NotCompared.NO_POLICY
    if (pair.baseline.drawn or pair.candidate.drawn) and not (content is not None and content.sampled):
        return NotCompared.SAMPLED
    result = _embeddings_alone(pair, plan) if content is None else _field_by_field(pair, kind, content)
    return NotCompared.TOO_LARGE if result.kind is PairKind.TOO_LARGE else result


def _embeddings_alone(pair: Pair, plan: Plan) -> PairResult:
    """The short form of a policy, as fast as it can be: one cosine a row."""
    assert plan.parity is not None, "a plan without fields names a cosine"
    left, right = embeddings(pair.path, pair.baseline), embeddings(pair.path, pair.candidate)
    if left is None or right is None:
        arm = "baseline" if left is None else "candidate"
        return PairResult(kind=PairKind.SHAPE, detail=f"{arm}: the answer holds no embeddings")
    return _unless_the_same(pair, compare_embeddings(left, right, plan.parity))


def _field_by_field(pair: Pair, kind: ContentKind, policy: ContentPolicy) -> PairResult:
    sides = []
    for arm, answer in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        try:
            sides.append(readable(kind, document(kind, answer)))
        except Exception:
            # Foreign bytes, as below: whatever a decoder makes of them, it is no answer.
            return whole_answer("body", PairKind.UNDECODABLE, f"{arm}: no JSON that can be read").result(kind)
    return _unless_the_same(pair, compare(policy, *sides).result(kind))


def _unless_the_same(pair: Pair, result: PairResult) -> PairResult:
    """Equal bytes of one type under one status are equal, whatever a policy looks for in them and does not find.

    But what is no number, or cannot be read, is no answer on either arm.
    """
    one, other = pair.baseline, pair.candidate
    same = (one.status, one.content_type, one.body) == (other.status, other.content_type, other.body)
    if result.ok or not same or result.kind in (PairKind.NAN, PairKind.INFINITY, PairKind.UNDECODABLE):
        return result
    return PairResult(
        kind=PairKind.OK, min_cosine=result.min_cosine, max_abs=result.max_abs, content=result.content
    )  # fmt: skip


def document(kind: ContentKind, answer: Answer) -> object:
    """The decoded body; one that does not claim to be JSON is a single value of bytes."""
    if kind is ContentKind.INFER and (parts := json_part(answer.content_type, answer.body)) is not None:
        return _joined(_json(parts[0]), parts[1])
    is_json = media_type(answer.content_type).endswith(("/json", "+json"))
    return _json(answer.body) if is_json else answer.body


def _joined(head: object, binary: bytes) -> object:
    """The JSON of an Open Inference answer with the tensors behind it as the ``data`` of their outputs."""
    outputs = head.get("outputs") if isinstance(head, dict) else None
    if not isinstance(head, dict) or not isinstance(outputs, list):
        return head
    declared = [output if isinstance(output, dict) else {} for output in outputs]
    try:
        raw = pieces((_size(output) for output in declared), binary)
    except BadFrame:
        # Nobody knows whose bytes are whose, so none of them is trusted.
        return {**head, "outputs": Unreadable(PairKind.UNDECODABLE, "outputs: the sizes do not fit the answer")}
    joined = [
        whole if piece is None else {**output, "data": _tensor(output, piece)}
        for whole, output, piece in zip(outputs, declared, raw, strict=True)
    ]
    return {**head, "outputs": joined}


def _size(output: dict[str, Any]) -> object:
    parameters = output.get("parameters")
    return parameters.get(SIZE) if isinstance(parameters, dict) else None


def _tensor(output: dict[str, Any], raw: memoryview) -> Tensor | Unreadable:
    datatype, shape = output.get("datatype"), output.get("shape")
    if not isinstance(datatype, str) or not isinstance(shape, list):
        return Unreadable(PairKind.UNDECODABLE, "an output needs datatype and shape")
    try:
        values = from_raw(datatype, shape, raw)
    except BadTensor as error:
        return Unreadable(_KINDS[error.wrong], str(error))
    return Tensor(datatype, values.astype(np.float64) if datatype in FLOATS else values)


def _json(text: bytes) -> object:
    """Also what JSON has no words for but encoders write (NaN, Infinity, 1e400): as numbers that are not finite."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return json.loads(text.decode())


def embeddings(path: str, answer: Answer) -> NDArray[np.float32] | None:
    """Rows [n, d] as float32, in the order of the inputs; None when the body is not a readable answer."""
    try:
        if path.startswith("/v1/"):
            return _openai_rows(answer.body)
        return _oip_rows(answer)
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


def _oip_rows(answer: Answer) -> NDArray[np.float32]:
    if (parts := json_part(answer.content_type, answer.body)) is not None:
        return _binary_rows(*parts)
    response = msgspec.json.decode(answer.body, type=InferResponse)
    output = response.outputs[0] if response.outputs else None
    if output is None:
        return np.empty((0, 0), np.float32)
    data: Any = output.data
    return np.asarray(data, dtype=np.float32).reshape(output.shape)


def _binary_rows(head: bytes, binary: bytes) -> NDArray[np.float32]:
    answer: Any = readable(ContentKind.INFER, _joined(msgspec.json.decode(head), binary))
    first = next(iter(answer["outputs"].values()), Tensor("FP32", np.empty((0, 0))))
    return np.asarray(first.values, dtype=np.float32)
