"""Which answers are drawn at random."""

import pytest

from gateway.core.compare.sampling import is_drawn

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"


@pytest.mark.parametrize(
    ("request_", "drawn"),
    [
        ({"temperature": 0}, False),
        ({"temperature": 0.0, "prompt": "x"}, False),
        ({"temperature": 0.7, "seed": 3}, False),
        ({"seed": 3}, False),
        ({"temperature": 0.7}, True),
        ({"temperature": False}, True),
        ({"temperature": "0"}, True),
        ({"temperature": 0.7, "seed": None}, True),
        ({"seed": True}, True),
        ({}, True),
        ("no object", True),
        (None, True),
    ],
)
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
def test_openai_text_is_drawn_unless_the_request_says_otherwise(path: str, request_: object, drawn: bool) -> None:
    """By default the temperature is 1. What nobody can read may be drawn."""
    assert is_drawn(path, request_) is drawn


@pytest.mark.parametrize(
    ("request_", "drawn"),
    [
        ({}, False),
        (None, False),
        ({"temperature": 0.5}, True),
        ({"temperature": 0.5, "seed": 1}, False),
        ({"inputs": "x", "parameters": {"do_sample": True}}, True),
        ({"inputs": "x", "parameters": {"do_sample": True, "seed": 4}}, False),
        ({"inputs": "x", "parameters": {"temperature": 0.2}, "temperature": None}, True),
        ({"inputs": "x", "parameters": 5}, False),
    ],
)
def test_other_servers_draw_where_they_are_told(request_: object, drawn: bool) -> None:
    """Text Generation Inference, Triton's generate, and whatever a custom arm serves."""
    assert is_drawn("/v2/models/m/generate", request_) is drawn


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v2/models/m/infer", "/v2/models/m/versions/1/infer"])
def test_what_is_not_generated_is_not_drawn(path: str) -> None:
    """Whatever stands in the request."""
    assert not is_drawn(path, {"temperature": 1})
