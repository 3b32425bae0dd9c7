"""Paths: how a policy names places in an answer.

    path  = step *( "." key | "[" index "]" )      first step: a key or an index in brackets
    key   = name | text in double quotes, as JSON writes it | "*" (any key)
    name  = a letter or "_", then letters, digits, "_" or "-"
    index = a number from 0 | "*" (any index)

So ``data[*].embedding``, ``usage.*``, ``choices[0].message.content`` and ``outputs."odd name"``. A path names the place
and everything below it. There is no descent at any depth: a policy says which places it means.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

MAX_STEPS: Final = 32
MAX_LENGTH: Final = 512

Step = str | int
"""A key or an index of a place in an answer."""

_KEY: Final = r'[A-Za-z_][A-Za-z0-9_-]*|"(?:[^"\\]|\\.)*"|\*'
_INDEX: Final = r"\[(?:[0-9]{1,9}|\*)\]"
_TOKEN: Final = re.compile(rf"(?P<dot>\.)?(?P<key>{_KEY})|(?P<index>{_INDEX})")


@dataclass(frozen=True, slots=True)
class AnyKey:
    """Matches every key of an object."""


@dataclass(frozen=True, slots=True)
class AnyIndex:
    """Matches every index of a list."""


Pattern = str | int | AnyKey | AnyIndex


class PathError(ValueError):
    """The text is no path; the message names the text and what is allowed."""


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path. Two paths are equal when their texts are."""

    text: str
    steps: tuple[Pattern, ...]

    def __str__(self) -> str:
        return self.text

    def matches(self, at: int, step: Step) -> bool:
        """The path's step number ``at`` allows this key or index. A bool is neither."""
        pattern = self.steps[at]
        if isinstance(pattern, AnyKey):
            return isinstance(step, str)
        if isinstance(pattern, AnyIndex):
            return isinstance(step, int)
        return type(pattern) is type(step) and pattern == step


def parse(text: str) -> Path:
    """Reads a path. PathError when it is none, too long or too deep."""
    allowed = 'a path is written like data[*].embedding, usage.* or outputs."odd name"'
    if not text or len(text) > MAX_LENGTH:
        raise PathError(f"'{text[:80]}': {allowed}, of 1 to {MAX_LENGTH} characters")
    steps: list[Pattern] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        # A dot stands before every key but the first, and before no index.
        if token is None or (token["key"] is not None and (token["dot"] is None) == bool(steps)):
            raise PathError(f"'{text}': not understood from character {at + 1} on; {allowed}")
        steps.append(_key(text, token["key"]) if token["key"] is not None else _index(token["index"]))
        at = token.end()
    if len(steps) > MAX_STEPS:
        raise PathError(f"'{text[:80]}': {len(steps)} steps, at most {MAX_STEPS}")
    return Path(text, tuple(steps))


def _key(text: str, written: str) -> Pattern:
    if written == "*":
        return AnyKey()
    if not written.startswith('"'):
        return written
    try:
        key = json.loads(written)
    except ValueError as error:
        raise PathError(f"'{text}': {written} is not written as JSON writes a text") from error
    return str(key)


def _index(written: str) -> Pattern:
    return AnyIndex() if written == "[*]" else int(written[1:-1])


class Sightings:
    """Which of several paths lead through, or end at, a place of an answer. Grows step by step with the place."""

    __slots__ = ("_alive", "ends")

    def __init__(self, paths: tuple[Path, ...], alive: tuple[tuple[int, int], ...] | None = None) -> None:
        """``alive``: (number of the path, its steps already matched)."""
        start = alive if alive is not None else tuple((number, 0) for number in range(len(paths)))
        self.ends = tuple(number for number, matched in start if matched == len(paths[number].steps))
        """Numbers of the paths that name this very place, in their order."""
        self._alive = tuple(pair for pair in start if pair[1] < len(paths[pair[0]].steps))

    @property
    def leads_on(self) -> bool:
        """Some path names a place below this one."""
        return bool(self._alive)

    def below(self) -> tuple[int, ...]:
        """Numbers of the paths that name a place below this one."""
        return tuple(number for number, _ in self._alive)

    @property
    def width(self) -> int:
        """How many paths have to be looked at for each place below this one."""
        return len(self._alive)

    def last_keys(self, paths: tuple[Path, ...]) -> Iterator[tuple[int, str]]:
        """(number, key) of the paths that would end one step below this place, at a key by its name."""
        for number, matched in self._alive:
            steps = paths[number].steps
            if matched == len(steps) - 1 and isinstance(step := steps[matched], str):
                yield number, step

    def after(self, paths: tuple[Path, ...], step: Step) -> "Sightings":
        """The same for the place one step further. ``paths`` must be those of the beginning."""
        alive = self._alive
        return Sightings(paths, tuple((n, m + 1) for n, m in alive if paths[n].matches(m, step)) if alive else ())


_SCHEMAS: Final = (
    "id object created model data index embedding usage prompt_tokens completion_tokens total_tokens choices message"
    " role content refusal tool_calls function name arguments type finish_reason stop_reason logprobs text"
    " reasoning_content system_fingerprint service_tier error code param model_name model_version parameters outputs"
    " shape datatype results relevance_score score label annotations audio prompt_logprobs"
)
NAMES: Final = frozenset(_SCHEMAS.split(" "))
"""Keys that belong to the protocols' schemas; a sentence may show them. Others may be text of a client's."""


def show(place: tuple[Step, ...], also: frozenset[str] = frozenset()) -> str:
    """The place in words for logs: schema keys and indices; any other key appears as ``?``."""
    shown = ""
    for step in place:
        if isinstance(step, int):
            shown += f"[{step}]"
        else:
            known = step in NAMES or step in also
            shown += ("." if shown else "") + (step if known else "?")
    return shown or "the whole answer"
