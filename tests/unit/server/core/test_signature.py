"""Names, types and shapes of what a model takes and gives."""

from typing import Any

import pytest

from server.core.signature import ModelSignature, TensorSpec, embedding, of_tokens

PIXELS = TensorSpec("pixels", "FP32", (-1, 3, 8, 8))
LOGITS = TensorSpec("logits", "FP32", (-1, 2))


def test_an_embedding_model_takes_tokens_and_gives_rows_of_floats() -> None:
    """What batches of token ids can carry."""
    signature = embedding(384)
    assert (signature.takes_tokens, signature.rows_of_floats) == (True, True)
    assert signature.outputs[0].row == 384


def test_a_model_of_pictures_takes_no_tokens() -> None:
    """It has named dimensions of its own."""
    assert not ModelSignature((PIXELS,), (LOGITS,)).takes_tokens
    assert not of_tokens(TensorSpec("states", "FP32", (-1, -1, 8)), task="tensors").rows_of_floats


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda: TensorSpec("", "FP32", (-1,)), "empty name"),
        (lambda: TensorSpec("x", "FP31", (-1,)), "datatype: got 'FP31'"),  # type: ignore[arg-type]
        (lambda: TensorSpec("x", "FP32", ()), r"shape: got \[\]"),
        (lambda: TensorSpec("x", "FP32", (-1, 0)), r"shape: got \[-1, 0\]"),
        (lambda: ModelSignature((), (LOGITS,)), "inputs: got none"),
        (lambda: ModelSignature((PIXELS,), (LOGITS, LOGITS)), "outputs: .*twice"),
        (lambda: ModelSignature((PIXELS,), (LOGITS,), labels=("a",)), "labels: got 1"),
        (lambda: TensorSpec("x", "FP32", (-1, -1)).row, "no fixed size"),
    ],
)
def test_a_signature_that_says_nothing_clear_is_not_built(build: Any, part: str) -> None:
    """Field, value and what is allowed."""
    with pytest.raises(ValueError, match=part):
        build()
