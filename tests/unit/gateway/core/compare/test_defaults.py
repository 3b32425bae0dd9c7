"""Default policies by numerics and content."""

from typing import Any

import pytest

from gateway.core.compare.defaults import BOUNDS, policy_with
from gateway.core.compare.documents import compare
from gateway.core.compare.policy import ComparePolicy, ContentKind, policy_of
from gateway.core.compare.protocols import readable
from gateway.core.compare.result import PairComparison, PairKind

FINE, COARSE = policy_with(BOUNDS["float32"]), policy_with(BOUNDS["bfloat16"])


def pair(policy: ComparePolicy, kind: ContentKind, baseline: object, candidate: object) -> PairComparison:
    part = policy.of(kind)
    assert part is not None
    return compare(part, readable(kind, baseline), readable(kind, candidate))


def test_defaults_say_where_they_come_from() -> None:
    """No default passes for a figure measured on hardware, nor a judgement for a measurement."""
    assert FINE.source == (
        "default for float32: numbers measured on the TPU emulator, not on TPU hardware;"
        " text agreement a judgement, not measured"
    )
    assert COARSE.source.startswith("default for bfloat16: ")


@pytest.mark.parametrize("policy", [FINE, COARSE])
def test_defaults_have_a_canonical_form(policy: ComparePolicy) -> None:
    """Like any policy."""
    assert policy_of(policy.canonical()).canonical_text() == policy.canonical_text()


def embedding(*rows: list[float], **more: Any) -> dict[str, Any]:
    data = [{"object": "embedding", "index": i, "embedding": row} for i, row in enumerate(rows)]
    return {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 3, "total_tokens": 3}, **more}


def test_embeddings() -> None:
    """Directions within the bound and lengths too; ids and accounts do not count, the model's name does."""
    ours = embedding([0.6, 0.8], [1.0, 0.0])
    near = embedding([0.601, 0.799], [1.0, 0.001], id="x", usage={"prompt_tokens": 4})
    near["data"] = near["data"][::-1]
    for policy in (FINE, COARSE):
        assert pair(policy, ContentKind.EMBEDDINGS, ours, near).ok
    for other in (embedding([0.6, 0.8], [0.0, 1.0]), embedding([1.2, 1.6], [1.0, 0.0])):
        assert pair(COARSE, ContentKind.EMBEDDINGS, ours, other).kind is PairKind.TOLERANCE
    assert pair(COARSE, ContentKind.EMBEDDINGS, ours, embedding([0.6, 0.8])).kind is PairKind.SHAPE
    renamed = pair(COARSE, ContentKind.EMBEDDINGS, ours, embedding([0.6, 0.8], [1.0, 0.0], model="n"))
    assert renamed.sentence.startswith("(rest): at model: the text differs")


def test_the_fine_row_sees_what_the_coarse_one_allows() -> None:
    """A cosine of 0.998, as bfloat16 gave on the emulator."""
    ours, theirs = embedding([1.0, 0.0]), embedding([0.998, (1 - 0.998**2) ** 0.5])
    assert pair(COARSE, ContentKind.EMBEDDINGS, ours, theirs).ok
    assert pair(FINE, ContentKind.EMBEDDINGS, ours, theirs).kind is PairKind.TOLERANCE


def infer(score: float, token: int, **more: Any) -> dict[str, Any]:
    return {
        "model_name": "m",
        "outputs": [
            {"name": "scores", "datatype": "FP32", "shape": [1], "data": [score]},
            {"name": "ids", "datatype": "INT64", "shape": [1], "data": [token]},
        ],
        **more,
    }


def test_open_inference_outputs() -> None:
    """Floats within abs and rel, a single score too; integers exactly; id and version do not count."""
    ours = infer(1.0, 2**60)
    assert pair(COARSE, ContentKind.INFER, ours, infer(1.03, 2**60, id="x", model_version="2")).ok
    assert pair(COARSE, ContentKind.INFER, ours, infer(1.05, 2**60)).kind is PairKind.TOLERANCE
    assert pair(COARSE, ContentKind.INFER, ours, infer(-1.0, 2**60)).kind is PairKind.TOLERANCE
    assert pair(COARSE, ContentKind.INFER, ours, infer(1.0, 2**60 + 1)).kind is PairKind.TOLERANCE


def chat(text: str | None, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {"id": "a", "choices": [{"index": 0, "finish_reason": "stop", "message": message}], "model": "m", **more}


def test_chat_and_completions() -> None:
    """The first words must agree; ids, times and accounts do not count, the role does."""
    ours = "one two three four five six seven eight nine"
    theirs = "one two three four five six seven eight ten"
    assert pair(COARSE, ContentKind.CHAT, chat(ours), chat(theirs, id="b", created=5)).ok is True
    assert pair(FINE, ContentKind.CHAT, chat(ours), chat(theirs)).kind is PairKind.TOLERANCE
    assert pair(COARSE, ContentKind.CHAT, chat(ours), chat("one two")).kind is PairKind.TOLERANCE
    assert pair(COARSE, ContentKind.CHAT, chat(ours), chat(None)).kind is PairKind.DTYPE
    assert pair(COARSE, ContentKind.CHAT, chat(None), chat(None)).ok
    user = chat(ours)
    user["choices"][0]["message"]["role"] = "user"
    assert pair(COARSE, ContentKind.CHAT, chat(ours), user).sentence.startswith("(rest): at choices[0].message.role")
    completion, other = ({"choices": [{"text": text, "logprobs": {"x": 1}}]} for text in (ours, theirs))
    assert pair(COARSE, ContentKind.COMPLETIONS, completion, other).ok


def test_unknown_answers_must_be_equal() -> None:
    """Nothing is ignored where nothing is known."""
    assert pair(COARSE, ContentKind.JSON, {"id": 1}, {"id": 1}).ok
    assert pair(COARSE, ContentKind.JSON, {"id": 1}, {"id": 2}).kind is PairKind.TOLERANCE
