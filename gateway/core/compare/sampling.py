"""Which requests ask for text drawn at random: two tries of those answer differently, and nobody is to blame."""

from typing import Final

DRAWN_BY_DEFAULT: Final = frozenset({"/v1/chat/completions", "/v1/completions"})
"""OpenAI's API draws unless ``temperature`` is 0 or a ``seed`` is given (its default temperature is 1)."""
DETERMINISTIC: Final = "/v1/embeddings"


def may_be_drawn(path: str) -> bool:
    """Whether it takes the request's body to know. ``path`` without the query."""
    return path != DETERMINISTIC and not path.endswith("/infer")


def is_drawn(path: str, request: object) -> bool:
    """Whether the answer to this decoded request is drawn. Servers of which nothing is known draw where they are told.

    ``request`` None: it could not be read, so nobody knows.
    """
    if not may_be_drawn(path):
        return False
    if not isinstance(request, dict):
        return path in DRAWN_BY_DEFAULT
    # Text Generation Inference and Triton's generate keep the parameters of generation in an object of their own.
    inner = request.get("parameters")
    given = {**(inner if isinstance(inner, dict) else {}), **{k: v for k, v in request.items() if v is not None}}
    if type(given.get("seed")) is int:
        return False
    temperature = given.get("temperature")
    if type(temperature) in (int, float):
        return temperature != 0
    return path in DRAWN_BY_DEFAULT or given.get("do_sample") is True
