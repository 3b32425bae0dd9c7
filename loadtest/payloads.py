"""Seeded catalogue-item texts with a known number of WordPiece tokens.

Every word of the lists stands with its cost in tokens of the uncased BERT vocabulary, so a text can be built to
an exact length without a tokenizer. Request ``index`` of a seed is always the same request, whoever asks.

Some requests take their texts from a pool of known texts, whose vectors can be compared with right ones. A known text
stands in for a text of exactly its length, so the pool changes no request's shape.
"""

import bisect
import collections
import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

SPECIAL_TOKENS: Final = 2  # [CLS] and [SEP], which every text carries
MIN_TOKENS: Final = SPECIAL_TOKENS + 1
MAX_TOKENS: Final = 128
MAX_TEXTS: Final = 4
# Share of the requests that ask the pool of known texts. Requests of several texts are fewer, and only they can show
# answers whose rows are out of order, so more of them do.
KNOWN_SHARE: Final = 0.25
SEVERAL_KNOWN_SHARE: Final = 0.5

Style = Literal["plain", "unicode"]

# All of one token each.
ADJECTIVES: Final = (
    "small", "large", "long", "short", "light", "heavy", "soft", "hard", "warm", "cold", "dry", "new", "old", "used",
    "plain", "red", "green", "blue", "black", "white", "grey", "brown", "yellow", "golden", "silver", "easy", "quiet",
    "safe", "strong", "simple", "modern", "classic", "round", "square", "flat", "double", "single", "outdoor", "indoor",
)  # fmt: skip
MATERIALS: Final = (
    "steel", "glass", "paper", "cotton", "wool", "leather", "rubber", "plastic", "copper", "iron", "stone", "concrete",
    "wooden",
)  # fmt: skip
THINGS: Final = (
    "chair", "table", "lamp", "shelf", "desk", "bed", "door", "window", "mirror", "clock", "box", "bag", "bottle",
    "cup", "plate", "bowl", "knife", "fork", "spoon", "pot", "pan", "kettle", "oven", "shirt", "coat", "jacket",
    "dress", "skirt", "shoes", "boots", "hat", "gloves", "belt", "scarf", "watch", "ring", "phone", "camera", "radio",
    "speaker", "cable", "battery", "screen", "keyboard", "engine", "pump", "filter", "valve", "wheel", "bicycle",
    "helmet", "tent", "rope", "book", "map", "pen", "pencil", "brush", "paint", "hammer", "drill", "ladder", "bucket",
    "coffee", "tea", "rice", "soap", "towel", "pillow", "blanket", "carpet", "curtain",
)  # fmt: skip
LINKS: Final = ("with", "and", "for", "from", "in", "without")
PLACES: Final = (
    "garden", "kitchen", "office", "bathroom", "bedroom", "travel", "winter", "summer", "children", "water", "air",
    "heat", "wind", "rain", "power",
)  # fmt: skip
# Text with its cost: accents are stripped, CJK is split by character, what the vocabulary lacks is one [UNK].
UNICODE: Final = (
    ("café", 1), ("naïve", 1), ("crème brûlée", 5), ("日本製", 3), ("Größe 42", 4), ("№ 7", 2), ("żółty", 4),
    ("кофе", 4), ("☕", 1), ("👟", 1), ("M6×20", 4), ("“best”", 3), ("½", 1), ("ガラス", 3), ("Ångström", 2),
    ("e\u0301clair", 3), ("مصباح", 5), ("500 ml", 2), ("25 %", 2),
)  # fmt: skip


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One class of requests. ``tokens`` and ``texts`` are inclusive ranges; tokens count the two special ones."""

    name: str
    share: float
    tokens: tuple[int, int]
    texts: tuple[int, int] = (1, 1)
    style: Style = "plain"


class Mix(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Classes of requests; the shares are weights and need not add up to one."""

    parts: list[Part]


class MixError(ValueError):
    """The mix file cannot be used. ``problems`` names every field, its value and what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


DEFAULT_MIX: Final = Mix(
    parts=[
        Part("title", 0.42, (5, 16)),
        Part("summary", 0.24, (17, 32)),
        Part("description", 0.10, (33, 64)),
        Part("leaflet", 0.03, (65, 127)),
        Part("several", 0.12, (5, 32), texts=(2, 4)),
        Part("one word", 0.03, (3, 3)),
        Part("unicode", 0.04, (8, 32), style="unicode"),
        Part("longest", 0.02, (MAX_TOKENS, MAX_TOKENS)),
    ]
)


@dataclass(frozen=True, slots=True)
class Payload:
    """One request. ``tokens`` is the length of the longest text.

    ``known`` holds the place of each text in the pool of known texts; empty when the texts are not from there.
    """

    index: int
    part: str
    texts: tuple[str, ...]
    tokens: int
    known: tuple[int, ...] = ()


def read_mix(raw: bytes) -> Mix:
    """A mix from JSON. Raises MixError with every problem."""
    try:
        mix = msgspec.json.decode(raw, type=Mix)
    except msgspec.DecodeError as broken:
        raise MixError([str(broken)]) from broken
    problems = [] if mix.parts else ["parts: [] is not allowed; at least one class of requests"]
    for number, part in enumerate(mix.parts):
        where = f"parts[{number}]"
        if not part.share > 0:
            problems.append(f"{where}.share: {part.share} must be above 0")
        if not MIN_TOKENS <= part.tokens[0] <= part.tokens[1] <= MAX_TOKENS:
            problems.append(f"{where}.tokens: {list(part.tokens)} must rise within {MIN_TOKENS} to {MAX_TOKENS}")
        if not 1 <= part.texts[0] <= part.texts[1] <= MAX_TEXTS:
            problems.append(f"{where}.texts: {list(part.texts)} must rise within 1 to {MAX_TEXTS}")
    if problems:
        raise MixError(problems)
    return mix


class Payloads:
    """All requests of one seed. ``known`` is the size of the pool of known texts that some requests draw from."""

    def __init__(self, mix: Mix, *, seed: int, known: int = 0) -> None:
        self.mix = mix
        self._seed = seed
        self._shares = [part.share for part in mix.parts]
        self.known = tuple(self._pool(known))
        self._known_by_length: dict[int, list[int]] = collections.defaultdict(list)
        for number, (_, tokens) in enumerate(self.known):
            self._known_by_length[tokens].append(number)

    def request(self, index: int) -> Payload:
        """Request ``index``; equal for equal mix, seed, pool size and index. The pool changes no shape."""
        draw = random.Random(f"{self._seed}/{index}")
        part = draw.choices(self.mix.parts, self._shares)[0]
        lengths = [draw.randint(*part.tokens) for _ in range(draw.randint(*part.texts))]
        asks = draw.random() < (KNOWN_SHARE if len(lengths) == 1 else SEVERAL_KNOWN_SHARE)
        known = self._known_of(index, lengths) if asks and self.known else ()
        if known:
            texts = tuple(self.known[number][0] for number in known)
        else:
            texts = tuple(_text(draw, part.style, tokens) for tokens in lengths)
        return Payload(index, part.name, texts, max(lengths), known)

    def _known_of(self, index: int, lengths: Sequence[int]) -> tuple[int, ...]:
        """Places of distinct known texts of these lengths, empty when the pool lacks one."""
        draw = random.Random(f"{self._seed}/{index}/known")
        places: list[int] = []
        for tokens in lengths:
            taken = {self.known[place][0] for place in places}
            fitting = [place for place in self._known_by_length.get(tokens, ()) if self.known[place][0] not in taken]
            if not fitting:
                return ()
            places.append(draw.choice(fitting))
        return tuple(places)

    def _pool(self, size: int) -> Iterator[tuple[str, int]]:
        """Known texts with their lengths: the parts in proportion, the lengths of each part evenly."""
        draw = random.Random(f"{self._seed}/known")
        bounds = list(itertools.accumulate(self._shares))
        lengths: list[Iterator[int]] = []
        for part in self.mix.parts:
            low, high = part.tokens
            lengths.append(itertools.cycle(draw.sample(range(low, high + 1), high + 1 - low)))
        for number in range(size):
            place = bisect.bisect_left(bounds, (number + 0.5) / size * bounds[-1])
            tokens = next(lengths[place])
            yield _text(draw, self.mix.parts[place].style, tokens), tokens


def _text(draw: random.Random, style: Style, tokens: int) -> str:
    """A text of this length in tokens, special ones included."""
    words: list[str] = []
    left = tokens - SPECIAL_TOKENS
    while left > 0:
        odd, cost = draw.choice(UNICODE)
        if style == "unicode" and cost <= left and draw.random() < 0.5:
            words.append(odd)
            left -= cost
            continue
        phrase = _phrase(draw)[-left:]
        words.extend(phrase)
        left -= len(phrase)
    return " ".join(words)


def _phrase(draw: random.Random) -> list[str]:
    """Seven words of one token each: "small red cotton shirt for winter travel"."""
    return [
        draw.choice(ADJECTIVES), draw.choice(ADJECTIVES), draw.choice(MATERIALS), draw.choice(THINGS),
        draw.choice(LINKS), draw.choice(PLACES), draw.choice(THINGS),
    ]  # fmt: skip
