"""What a path can ever name in an answer of a known protocol, and which of two paths leaves nothing to the other.

A policy that looks where nothing can be compares less than it seems to: it is refused before a run, not found out
after one.
"""

from typing import Final, Literal

from gateway.core.compare.content import DATATYPES, FLOATS, INTEGERS, NUMBER
from gateway.core.compare.paths import AnyIndex, AnyKey, Path, Pattern, parse
from gateway.core.compare.rules import AbsRel, Cosine, Rule, TokenPrefix, TopK

Holds = Literal["object", "list", "tensor"]

DECLARED: Final = DATATYPES - {NUMBER}
"""Types that an answer declares; lists of JSON numbers declare none."""

_CHOICES: Final[dict[str, Holds]] = {"choices": "list", "choices[*]": "object", "usage": "object"}
_HOLDS: Final[dict[str, dict[str, Holds]]] = {
    "openai_embeddings": {
        "data": "list", "data[*]": "object", "data[*].embedding": "tensor", "usage": "object",
    },
    "oip_infer": {"outputs": "object", "outputs.*": "tensor"},
    "openai_chat": {**_CHOICES, "choices[*].message": "object", "choices[*].message.tool_calls": "list"},
    "openai_completions": _CHOICES,
    "json": {},
}  # fmt: skip
_PLACES: Final = {
    kind: [(parse(text).steps, holds) for text, holds in places.items()] for kind, places in _HOLDS.items()
}
_TENSORS: Final[dict[str, frozenset[str]]] = {"openai_embeddings": frozenset({"FP32"}), "oip_infer": DECLARED}


def covers(one: Path, other: Path) -> bool:
    """Every place that ``other`` names is one that ``one`` names, or lies below one."""
    return len(one.steps) <= len(other.steps) and all(map(_includes, one.steps, other.steps))


def dead_end(kind: str, path: Path) -> str | None:
    """Why no answer of this kind has such a place; None when one may have."""
    if kind == "json":
        return None
    for at, step in enumerate(path.steps):
        holds = _holds(kind, path.steps[:at])
        is_key = isinstance(step, str | AnyKey)
        if holds == "tensor":
            return "nothing can be named inside of a tensor; the path ends at it"
        if holds is not None and is_key != (holds == "object"):
            where = Path("", path.steps[:at])
            return f"step {len(where.steps) + 1} must be {'a key' if holds == 'object' else 'an index in brackets'}"
    return None


def unfit_types(kind: str, path: Path, datatypes: tuple[str, ...]) -> list[str]:
    """Of the given datatypes those that no tensor at this path can have."""
    may_be = any(holds == "tensor" and _meet(steps, path.steps) for steps, holds in _PLACES[kind])
    return [name for name in datatypes if not may_be or name not in _TENSORS.get(kind, ())]


def undecidable_types(kind: str, path: Path, rule: Rule, datatypes: tuple[str, ...]) -> list[str]:
    """Datatypes that the field is sure to have, or to be asked for, and that its rule cannot compare."""
    types = datatypes or (_TENSORS[kind] if _holds(kind, path.steps) == "tensor" else ())
    match rule:
        case AbsRel() | Cosine() | TopK():
            able = FLOATS | INTEGERS
        case TokenPrefix():
            able = INTEGERS
        case _:
            able = DECLARED
    unable = sorted(set(types) - able)
    # Outputs of any type may well all be of one that the rule can compare.
    return unable if datatypes or len(unable) == len(types) else []


def _holds(kind: str, steps: tuple[Pattern, ...]) -> Holds | None:
    if not steps:
        return "object"
    return next(
        (
            holds
            for known, holds in _PLACES[kind]
            if len(known) == len(steps) and all(map(_includes, known, steps))
        ),
        None,
    )  # fmt: skip


def _meet(one: tuple[Pattern, ...], other: tuple[Pattern, ...]) -> bool:
    same = len(one) == len(other)
    return same and all(_includes(a, b) or _includes(b, a) for a, b in zip(one, other, strict=True))


def _includes(one: Pattern, other: Pattern) -> bool:
    if isinstance(one, AnyKey):
        return isinstance(other, str | AnyKey)
    if isinstance(one, AnyIndex):
        return isinstance(other, int | AnyIndex)
    return type(one) is type(other) and one == other
