"""A bounded look at a request."""

import pytest

from gateway.adapters.requests import LOOK_BYTES, asks_to_draw

CHAT = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("body", "drawn"),
    [
        (b'{"model": "m", "messages": [{"content": "x"}], "temperature": 0}', False),
        (b'{"messages": [], "seed": 7, "temperature": 1.5}', False),
        (b'{"messages": []}', True),
        (b'{"messages": [], "temperature": 1}', True),
        (b'{"prompt": "\\"temperature\\": 0"}', True),
        (b'{"temperature": 0', True),
        (b"[]", True),
        (b"", True),
        (b"[" * 100_000, True),
        (b"\xff", True),
        (b'{"temperature": ' + b"9" * 5000 + b"}", True),
    ],
)
def test_a_chat_request_is_greedy_only_if_it_says_so(body: bytes, drawn: bool) -> None:
    """What cannot be read never raises and never makes a pair."""
    assert asks_to_draw(CHAT, body) is drawn


def test_what_is_too_large_is_not_looked_at() -> None:
    """It may be drawn, for all that is known."""
    said = b'{"temperature": 0, "prompt": "%b"}'
    assert not asks_to_draw(CHAT, said % (b"x" * (LOOK_BYTES - 100)))
    assert asks_to_draw(CHAT, said % (b"x" * LOOK_BYTES))


def test_embeddings_are_not_looked_at() -> None:
    """Tensors behind JSON, broken bodies: it does not matter."""
    assert not asks_to_draw("/v1/embeddings", b"\xff")
    assert not asks_to_draw("/v2/models/m/infer", b'{"temperature": 1}')
