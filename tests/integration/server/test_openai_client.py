"""OpenAI's own client against a ready server, on the CPU and on the emulated device."""

import asyncio
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
from integration.server.running import MODEL, RunningServer, tiny_model

HELLO = [101, 7592, 2088, 102]
TEXTS = ["Hello world", "naïve café"]


@pytest.fixture
def client(any_server: RunningServer) -> Iterator[openai.OpenAI]:
    """As its users have it: it repeats what is worth repeating."""
    with client_of(any_server) as client:
        yield client


def client_of(server: RunningServer, **options: Any) -> openai.OpenAI:
    return openai.OpenAI(base_url=str(server.data.base_url.join("/v1")), api_key="none", **options)


def vectors(answer: Any) -> Any:
    assert [item.index for item in answer.data] == list(range(len(answer.data)))
    return np.array([item.embedding for item in answer.data], dtype=np.float32)


def attempts(server: RunningServer, request_id: str) -> list[int]:
    """The statuses that a request of this id was answered with."""
    lines = map(json.loads, server.access_log.read_text().splitlines())
    return [line["status"] for line in lines if line["request_id"] == request_id]


def test_the_four_forms_of_input_are_one_question(client: openai.OpenAI) -> None:
    """A text, texts, token ids, lists of them; two texts at once are two vectors in their order."""
    (expected,) = vectors(client.embeddings.create(model=MODEL, input="Hello world"))
    for given in (["Hello world"], HELLO, [HELLO]):
        answer = client.embeddings.create(model=MODEL, input=given)  # type: ignore[arg-type]
        assert np.abs(vectors(answer) - expected).max() < 1e-6
        assert (answer.usage.prompt_tokens, answer.usage.total_tokens, answer.model) == (4, 4, MODEL)
    both = vectors(client.embeddings.create(model=MODEL, input=TEXTS))
    swapped = vectors(client.embeddings.create(model=MODEL, input=TEXTS[::-1]))
    assert np.abs(both - swapped[::-1]).max() < 1e-6
    assert np.abs(both[0] - expected).max() < 1e-5
    assert np.abs(both[0] - both[1]).max() > 1e-2


def test_numbers_and_base64_are_the_same_vectors(client: openai.OpenAI) -> None:
    """The client asks for base64 unless told otherwise, and hands out base64 as it came when told so."""
    default = vectors(client.embeddings.create(model=MODEL, input=TEXTS))
    numbers = vectors(client.embeddings.create(model=MODEL, input=TEXTS, encoding_format="float"))
    assert np.abs(default - numbers).max() < 1e-7
    raw = client.embeddings.with_raw_response.create(model=MODEL, input=TEXTS, encoding_format="base64")
    assert isinstance(json.loads(raw.text)["data"][0]["embedding"], str)
    assert raw.headers["x-canary-compiles"] == "0"


def test_the_models_own_dimensions_alone_are_served(client: openai.OpenAI) -> None:
    """Fewer would be another vector space."""
    assert vectors(client.embeddings.create(model=MODEL, input="a", dimensions=384)).shape == (1, 384)
    with pytest.raises(openai.BadRequestError, match="got 8, allowed is 384") as refused:
        client.embeddings.create(model=MODEL, input="a", dimensions=8)
    assert (refused.value.param, refused.value.code) == ("dimensions", "bad_request")


@pytest.mark.parametrize(
    ("given", "kind", "code", "param"),
    [
        ({"model": "other", "input": "a"}, openai.NotFoundError, "model_not_found", "model"),
        ({"input": []}, openai.BadRequestError, "bad_request", "input"),
        ({"input": ["a", 1]}, openai.BadRequestError, "bad_request", "input"),
        ({"input": [99999]}, openai.BadRequestError, "bad_request", "input"),
        ({"input": "word " * 40}, openai.BadRequestError, "shape_not_served", "input"),
        ({"input": "a", "encoding_format": "hex"}, openai.BadRequestError, "bad_request", "encoding_format"),
        ({"input": "x" * 1_100_000}, openai.APIStatusError, "body_too_large", None),
    ],
)
def test_a_mistake_is_told_once(
    client: openai.OpenAI, any_server: RunningServer, given: dict[str, Any], kind: Any, code: str, param: str | None
) -> None:
    """As the client's own exception, with the reason and the field; it is not repeated."""
    name = str(uuid.uuid4())
    with pytest.raises(kind) as refused:
        client.embeddings.create(**{"model": MODEL, **given}, extra_headers={"x-request-id": name})
    assert (refused.value.code, refused.value.param) == (code, param)
    assert refused.value.type == "invalid_request_error"
    assert attempts(any_server, name) == [refused.value.status_code]


def test_a_deadline_that_passed_is_not_repeated(client: openai.OpenAI, any_server: RunningServer) -> None:
    """The answer would be as late again, and the client would wait three times as long."""
    name = str(uuid.uuid4())
    with pytest.raises(openai.InternalServerError) as late:
        client.embeddings.create(
            model=MODEL, input=["many"] * 200, extra_headers={"x-request-id": name, "x-canary-deadline-ms": "1"}
        )
    assert (late.value.status_code, late.value.code) == (504, "deadline")
    assert attempts(any_server, name) == [504]


def test_a_client_that_repeats_gets_over_a_start(start_server: Callable[..., Any], tmp_path: Path) -> None:
    """503 until the model is warm, then its answer; the client keeps to the server's advice when to come again."""
    with start_server(model=tiny_model(tmp_path)) as server, client_of(server, max_retries=40) as client:
        answer = client.embeddings.create(model=MODEL, input="a", extra_headers={"x-request-id": "early"})
        assert len(answer.data) == 1
        statuses = attempts(server, "early")
        assert set(statuses[:-1]) == {503}
        assert statuses[-1] == 200


def test_the_asynchronous_client_is_served_too(any_server: RunningServer) -> None:
    """Ten at once, each its own answer."""
    texts = [f"sentence {number}" for number in range(10)]

    async def ask() -> list[Any]:
        url = str(any_server.data.base_url.join("/v1"))
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as client:
            return await asyncio.gather(*(client.embeddings.create(model=MODEL, input=text) for text in texts))

    together = [vectors(answer)[0] for answer in asyncio.run(ask())]
    with client_of(any_server) as client:
        for text, got in zip(texts, together, strict=True):
            alone = vectors(client.embeddings.create(model=MODEL, input=text))[0]
            assert float(alone @ got) >= 0.99999
