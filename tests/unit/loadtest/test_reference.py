import array
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from loadtest.reference import NoReference, Reference, ask_over_http, gather
from wire.openai import Embedding, EmbeddingResponse, Usage, encode_base64


def test_gather_keeps_the_order_of_the_pool() -> None:
    """Each known text is asked for alone and its vector kept in its place."""

    def ask(texts: Sequence[str]) -> tuple[int, bytes]:
        vector = array.array("f", [1.0, 0.0] if texts == ["a"] else [0.0, 1.0])
        data = [Embedding(index=0, embedding=encode_base64(vector.tobytes()))]
        return 200, msgspec.json.encode(EmbeddingResponse(data=data, model="m", usage=Usage(1, 1)))

    reference = gather(ask, ["a", "b"], dimension=2)
    assert reference.compare([0], [[1.0, 0.0]]) == (pytest.approx(1.0), False)
    assert reference.compare([1], [[1.0, 0.0]]) == (pytest.approx(0.0), True)


def test_wrong_below_the_bound_only() -> None:
    """A cosine of 0.95 is still an answer, below it is a wrong one."""
    reference = Reference(((1.0, 0.0),))
    assert not reference.compare([0], [(0.96, (1 - 0.96**2) ** 0.5)])[1]
    assert reference.compare([0], [(0.94, (1 - 0.94**2) ** 0.5)])[1]


def test_every_row_is_compared() -> None:
    """An answer of right vectors in another order is wrong, and the smallest cosine of its rows is told."""
    reference = Reference(((1.0, 0.0), (0.0, 1.0), (0.6, 0.8)))
    assert reference.compare([2, 0], [(0.6, 0.8), (1.0, 0.0)]) == (pytest.approx(1.0), False)
    assert reference.compare([2, 0], [(1.0, 0.0), (0.6, 0.8)]) == (pytest.approx(0.6), True)
    assert reference.compare([0, 1], [(1.0, 0.0), (0.6, 0.8)]) == (pytest.approx(0.8), True)


def test_missing_reference_names_the_text() -> None:
    """The first text without a usable vector ends the gathering and is named."""
    with pytest.raises(NoReference, match=r"known text 0 of 1: status_503"):
        gather(lambda _: (503, b"warming"), ["a"], dimension=2)


def test_vectors_come_over_http(endpoint: Any) -> None:
    """The known texts are asked of the endpoint one by one; a connection that breaks ends the gathering."""
    ask = ask_over_http(endpoint.url, "m", timeout_s=10.0)
    assert len(gather(ask, ["a", "b"], dimension=384).vectors) == 2
    assert endpoint.texts == [["a"], ["b"]]
    endpoint.reply = lambda _, __: None
    with pytest.raises(NoReference, match="known text 0 of 1"):
        gather(ask, ["c"], dimension=384)
