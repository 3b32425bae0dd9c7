"""Seeded catalogue-item texts with a known number of WordPiece tokens.

Every word of the lists stands with its cost in tokens of the uncased BERT vocabulary, so a text can be built to
an exact length without a tokenizer. Request ``index`` of a seed is always the same request, whoever asks.
"""

import random
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

SPECIAL_TOKENS: Final = 2  # [CLS] and [SEP], which every text carries
MIN_TOKENS: Final = SPECIAL_TOKENS + 1
MAX_TOKENS: Final = 128
MAX_TEXTS: Final = 4
# One request in four that carries a single text takes it from the pool of known texts, whose vectors can be compared.
KNOWN_SHARE: Final = 0.25

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
    """One request. ``tokens`` is the length of the longest text; ``known`` its place in the pool, None outside it."""

    index: int
    part: str
    texts: tuple[str, ...]
    tokens: int
    known: int | None = None


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
    """All requests of one seed. ``known`` texts form a pool that some requests draw from."""

    def __init__(self, mix: Mix, *, seed: int, known: int = 0) -> None:
        self.mix = mix
        self._seed = seed
        self._shares = [part.share for part in mix.parts]
        self.known = tuple(self._known_text(number) for number in range(known))

    def request(self, index: int) -> Payload:
        """Request ``index``; equal for equal mix, seed, pool size and index."""
        draw = random.Random(f"{self._seed}/{index}")
        part = draw.choices(self.mix.parts, self._shares)[0]
        rows = draw.randint(*part.texts)
        if rows == 1 and self.known and draw.random() < KNOWN_SHARE:
            number = draw.randrange(len(self.known))
            text, tokens = self.known[number]
            return Payload(index, "known", (text,), tokens, number)
        made = [_text(draw, part) for _ in range(rows)]
        return Payload(index, part.name, tuple(text for text, _ in made), max(tokens for _, tokens in made))

    def _known_text(self, number: int) -> tuple[str, int]:
        draw = random.Random(f"{self._seed}/known/{number}")
        return _text(draw, draw.choices(self.mix.parts, self._shares)[0])


def _text(draw: random.Random, part: Part) -> tuple[str, int]:
    """A text and its length in tokens, special ones included."""
    tokens = draw.randint(*part.tokens)
    words: list[str] = []
    left = tokens - SPECIAL_TOKENS
    while left > 0:
        odd, cost = draw.choice(UNICODE)
        if part.style == "unicode" and cost <= left and draw.random() < 0.5:
            words.append(odd)
            left -= cost
            continue
        phrase = _phrase(draw)[-left:]
        words.extend(phrase)
        left -= len(phrase)
    return " ".join(words), tokens


def _phrase(draw: random.Random) -> list[str]:
    """Seven words of one token each: "small red cotton shirt for winter travel"."""
    return [
        draw.choice(ADJECTIVES), draw.choice(ADJECTIVES), draw.choice(MATERIALS), draw.choice(THINGS),
        draw.choice(LINKS), draw.choice(PLACES), draw.choice(THINGS),
    ]  # fmt: skip
