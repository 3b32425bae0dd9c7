"""When two values of one field count as equal: seven rules, frozen before a run.

Every rule is a plain value with its name in ``rule``, so an encoder that writes all fields writes a canonical form and
two different rules never look alike. A rule bounds the worst element, row or place, never a mean. NaN, infinity, shape
and dtype fail under every rule.

Bounds are inclusive: a figure equal to its bound passes.
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from gateway.core.compare.forms import Form, FormError
from gateway.core.compare.paths import Path

MAX_K: Final = 256
"""Rank correlation compares all pairs of up to 2k elements."""


class Unit(StrEnum):
    """What a text is cut into. A list of token ids has units of its own and is not cut."""

    WORD = "word"
    """White space and what follows it up to the next: nothing is lost, so equal words are equal texts."""
    CHARACTER = "character"


class RankBy(StrEnum):
    KENDALL = "kendall"
    """Tau-b, which counts ties (Kendall, The treatment of ties in ranking problems, Biometrika 33, 1945)."""
    SPEARMAN = "spearman"
    """Pearson's correlation of ranks, tied elements at their mean rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """Equal in value: 1 and 1.0 are, as are 0.0 and -0.0; true and 1 are not. Integers of any size, texts, trees."""

    rule: str = field(default="exact", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsRel:
    """|candidate - baseline| <= abs + rel x |baseline| for every single element."""

    rule: str = field(default="abs_rel", init=False)
    abs: float
    rel: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cosine:
    """Smallest cosine over the rows of the last axis; optionally bounds on what a cosine does not see.

    max_abs: on the largest difference of two elements. length_rel: on the difference of two rows' lengths, as a share
    of the baseline's; a candidate that forgot to normalise has cosine 1.
    """

    rule: str = field(default="cosine", init=False)
    min: float
    max_abs: float | None = None
    length_rel: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The k best of each row of scores: the share that both hold, and how alike they order them.

    overlap_min: share from 0 to 1. rank_min: correlation over the union of both sets, -1 to 1; None: not asked for.
    """

    rule: str = field(default="top_k", init=False)
    k: int
    overlap_min: float
    rank_min: float | None = None
    rank_by: RankBy = RankBy.KENDALL


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """The same label in every row: the best of a row of scores, or the label itself where a text or number is given."""

    rule: str = field(default="label", init=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPrefix:
    """How far two texts agree from their beginning. Texts that are equal pass whatever their length.

    share_min: of the longer one's units, 0 to 1. tokens_min: units. What is given must hold; one of them is.
    """

    rule: str = field(default="token_prefix", init=False)
    share_min: float | None = None
    tokens_min: int | None = None
    unit: Unit = Unit.WORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Json:
    """Equal structure and values, but for what lies at the ``ignore`` paths, which begin at the field."""

    rule: str = field(default="json", init=False)
    ignore: tuple[Path, ...] = ()


Rule = Exact | AbsRel | Cosine | TopK | Label | TokenPrefix | Json
_BY_NAME: Final[dict[str, type[Rule]]] = {
    "exact": Exact, "abs_rel": AbsRel, "cosine": Cosine, "top_k": TopK, "label": Label,
    "token_prefix": TokenPrefix, "json": Json,
}  # fmt: skip
RULE_NAMES: Final = tuple(_BY_NAME)

# Fields of a rule that bound a figure, and whether more is tighter. None means unbounded, which nothing is looser than.
_BOUNDS: Final[dict[str, bool]] = {
    "abs": False, "rel": False, "min": True, "max_abs": False, "length_rel": False, "overlap_min": True,
    "rank_min": True, "share_min": True, "tokens_min": True,
}  # fmt: skip
_RANGES: Final[dict[str, tuple[float, float]]] = {
    "abs": (0.0, 1e300), "rel": (0.0, 1.0), "min": (-1.0, 1.0), "max_abs": (0.0, 1e300), "length_rel": (0.0, 1e6),
    "k": (1, MAX_K), "overlap_min": (0.0, 1.0), "rank_min": (-1.0, 1.0), "share_min": (0.0, 1.0),
    "tokens_min": (1, 1_000_000),
}  # fmt: skip


def problems(rule: Rule) -> list[str]:
    """What is wrong with the rule's numbers: field, value, what is allowed. Empty when it can be used."""
    found = []
    for name in _RANGES:
        if (value := getattr(rule, name, None)) is not None:
            found += [f"{name}: {text}" for text in _range_problem(name, value)]
    if isinstance(rule, TokenPrefix) and rule.share_min is None and rule.tokens_min is None:
        found.append("share_min: missing; share_min or tokens_min must be given")
    return found


def canonical(rule: Rule) -> dict[str, Any]:
    """JSON-able, the same for equal rules: all fields by name, paths and enums as their texts, bounds as floats."""
    found: dict[str, Any] = {}
    for name, value in asdict(rule).items():
        if name == "ignore" and isinstance(rule, Json):
            found[name] = sorted(str(path) for path in rule.ignore)
        elif name in _BOUNDS and name != "tokens_min" and value is not None:
            # -0.0 and 0.0 bound alike, as do 1 and 1.0.
            found[name] = float(value) + 0.0
        else:
            found[name] = str(value) if isinstance(value, StrEnum) else value
    return found


def rule_of(given: Mapping[str, Any], at: str = "") -> Rule:
    """The rule of a canonical form, read strictly. FormError names every fault under ``at``."""
    found: list[str] = []
    name = given.get("rule")
    if not isinstance(name, str) or name not in _BY_NAME:
        Form(given, at, found, given.keys()).refuse("rule", f"one of {', '.join(RULE_NAMES)}")
        raise FormError(found)
    parts = {part.name: part for part in fields(_BY_NAME[name]) if part.init}
    form = Form(given, at, found, ("rule", *parts))
    values: dict[str, Any] = {}
    for key, part in parts.items():
        optional = part.default is not MISSING
        if optional and form.value(key) is None:
            continue
        value = _part(form, key)
        if value is not None:
            values[key] = value
            found += [f"{form.path(key)}: {text}" for text in _range_problem(key, value)]
    if found:
        raise FormError(found)
    rule = _BY_NAME[name](**values)
    if wrong := problems(rule):
        raise FormError([form.path(text) for text in wrong])
    return rule


def _part(form: Form, name: str) -> object:
    """None where it was refused."""
    match name:
        case "ignore":
            return tuple(sorted(form.paths(name), key=str))
        case "unit":
            return Unit(text) if (text := form.one_of(name, list(Unit))) else None
        case "rank_by":
            return RankBy(text) if (text := form.one_of(name, list(RankBy))) else None
        case "k" | "tokens_min":
            return form.whole(name)
        case _:
            return form.number(name)


def _range_problem(name: str, value: Any) -> list[str]:
    if name not in _RANGES:
        return []
    low, high = _RANGES[name]
    # The negated form also refuses NaN.
    return [f"{value!r:.80} must lie between {low:g} and {high:g}"] if not low <= value <= high else []
