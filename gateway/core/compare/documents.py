"""Two whole answers under one policy: every field by its rule, and everything else structure by structure.

Both trees are walked together, without recursion, to a fixed depth and with a fixed effort, so no answer can exhaust
anything. A place that a field rule names is compared by the first such rule; an ignored place and all below it is
skipped, on one arm alone too; the rest must be equal. A policy whose fields appear on neither arm has compared nothing,
and that is a failure; a field that both leave out of an object that holds it otherwise, or that both have none of, is
equal.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from gateway.core.compare.content import Tensor, Unreadable, type_name
from gateway.core.compare.numbers import abs_rel, cosine, exact
from gateway.core.compare.paths import Path, Sightings, Step, show
from gateway.core.compare.policy import REST, ContentPolicy, FieldRule
from gateway.core.compare.ranks import label, top_k
from gateway.core.compare.result import FieldResult, Figure, Outcome, PairComparison, PairKind, worst_of
from gateway.core.compare.rules import AbsRel, Cosine, Exact, Json, Label, Rule, TokenPrefix, TopK
from gateway.core.compare.texts import token_prefix

MAX_DEPTH: Final = 64
MAX_EFFORT: Final = 40_000
"""Places of a pair that are visited, about 10 µs each. Deterministic, where a clock would not be."""
_RULE_EFFORT: Final = 10
"""A rule costs as much as so many visits, whatever the place holds."""
_PATHS_A_VISIT: Final = 8
"""Looking for so many paths costs as much as one visit."""
_SEVERAL: Final = 2

Place = tuple[Step, ...]


def compare(policy: ContentPolicy, baseline: object, candidate: object) -> PairComparison:
    """Compares two decoded answers. One result for each field that was seen, then one for the rest."""
    walk = _Walk(policy, _Effort())
    walk.run(baseline, candidate)
    return PairComparison(tuple(walk.results()))


@dataclass(slots=True)
class _Found:
    """Outcomes of one field, place by place."""

    places: int = 0
    failed: int = 0
    worst: Outcome = field(default_factory=lambda: Outcome(PairKind.OK))
    at: Place = ()
    figures: dict[Figure, float] = field(default_factory=dict)

    def add(self, place: Place, outcome: Outcome) -> None:
        self.places += 1
        self.failed += not outcome.ok
        self.figures = worst_of((self.figures, outcome.figures))
        if self.places == 1 or outcome.is_worse_than(self.worst):
            self.worst, self.at = outcome, place

    def text(self, name: str, also: frozenset[str]) -> str:
        """The worst place and what is wrong there, empty when nothing is."""
        if self.worst.ok:
            return ""
        where = show(self.at, also)
        text = self.worst.text if not self.at or where == name else f"at {where}: {self.worst.text}"
        return f"{text} (worst of {self.failed} places that differ)" if self.failed >= _SEVERAL else text


@dataclass(slots=True)
class _Node:
    place: Place
    baseline: object
    candidate: object
    fields: Sightings
    ignored: Sightings


class _Effort:
    """What may still be spent on a pair."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MAX_EFFORT

    def spend(self, amount: int) -> bool:
        """False when there is nothing left."""
        self.left -= amount
        return self.left >= 0


class _Walk:
    """One comparison under way. ``fields`` are the rules' paths, numbered as in the policy."""

    def __init__(self, policy: ContentPolicy, effort: _Effort) -> None:
        self._policy = policy
        self._effort = effort
        self._paths = tuple(rule.path for rule in policy.fields)
        self._found: dict[str, _Found] = {}
        self._named = frozenset(
            step for path in (*self._paths, *policy.ignore) for step in path.steps if isinstance(step, str)
        )

    def run(self, baseline: object, candidate: object) -> None:
        # Children are made one by one and visited in order: the first of several equally bad places is shown, and what
        # the effort does not reach is not even made.
        root = _Node((), baseline, candidate, Sightings(self._paths), Sightings(self._policy.ignore))
        open_: list[Iterator[_Node]] = [iter([root])]
        while open_:
            node = next(open_[-1], None)
            if node is None:
                open_.pop()
            elif not self._effort.spend(1 + (node.fields.width + node.ignored.width) // _PATHS_A_VISIT):
                text = "more places than are compared in one pair; those beyond were not looked at"
                self._add(REST, (), Outcome(PairKind.TOO_LARGE, text=text))
                return
            elif not node.ignored.ends:
                open_.append(self._visit(node))

    def results(self) -> Iterator[FieldResult]:
        """In the policy's order. A field that neither arm showed has no result, unless none of them was shown."""
        names = dict.fromkeys(rule.name for rule in self._policy.fields)
        if names and names.keys().isdisjoint(self._found):
            first = next(iter(names))
            text = f"{first}: on neither arm, nor any other field of the policy; nothing could be compared"
            yield FieldResult(field=first, kind=PairKind.MISSING, sentence=text)
        for name in (*names, REST):
            if (found := self._found.get(name)) is not None:
                text = found.text(name, self._named)
                sentence = f"{name}: {text}" if text else ""
                yield FieldResult(field=name, kind=found.worst.kind, figures=found.figures, sentence=sentence)

    def outcome(self) -> Outcome:
        """The rest as one outcome; its figure counts the places that differ."""
        found = self._found.get(REST, _Found())
        return Outcome(found.worst.kind, {Figure.DIFFERENCES: found.failed}, found.text(REST, self._named))

    def _visit(self, node: _Node) -> Iterator[_Node]:
        rule = self._rule_at(node)
        if rule is not None:
            self._effort.spend(_RULE_EFFORT)
            self._add(rule.name, node.place, apply(rule.rule, node.baseline, node.candidate, self._effort))
        elif not self._matters(node.fields):
            return
        elif len(node.place) >= MAX_DEPTH:
            text = f"nested deeper than {MAX_DEPTH} levels, not compared"
            self._add(REST, node.place, Outcome(PairKind.UNDECODABLE, text=text))
        elif node.place and node.fields.leads_on and _are_empty(node.baseline, node.candidate):
            self._add(self._charged(node), node.place, Outcome(PairKind.OK))
        elif isinstance(node.baseline, dict) and isinstance(node.candidate, dict):
            yield from self._keys(node, node.baseline, node.candidate)
        elif isinstance(node.baseline, list) and isinstance(node.candidate, list):
            yield from self._elements(node, node.baseline, node.candidate)
        else:
            outcome = leaf(node.baseline, node.candidate)
            # Two nulls where a field should lie below agree, but they are not that field.
            if self._policy.rest or not outcome.ok:
                self._add(REST if outcome.ok else self._charged(node), node.place, outcome)

    def _rule_at(self, node: _Node) -> FieldRule | None:
        rules = (self._policy.fields[number] for number in node.fields.ends)
        return next((rule for rule in rules if rule.applies_to(node.baseline, node.candidate)), None)

    def _keys(self, node: _Node, baseline: dict[str, object], candidate: dict[str, object]) -> Iterator[_Node]:
        if node.place and self._policy.rest:
            # A message that calls tools has no text: as long as the rest of it is compared, that is agreement.
            for number, key in node.fields.last_keys(self._paths):
                if key not in baseline and key not in candidate:
                    self._add(self._policy.fields[number].name, node.place, Outcome(PairKind.OK))
        for key in sorted(baseline.keys() | candidate.keys()):
            child = self._child(node, key, baseline.get(key), candidate.get(key))
            if key in baseline and key in candidate:
                yield child
            elif not child.ignored.ends and (child.fields.ends or self._matters(child.fields)):
                arm, kind = ("candidate", PairKind.MISSING) if key in baseline else ("baseline", PairKind.UNEXPECTED)
                other = "baseline" if arm == "candidate" else "candidate"
                text = f"missing on the {arm}, present on the {other}"
                self._effort.spend(1)
                self._add(self._charged(child), child.place, Outcome(kind, text=text))

    def _elements(self, node: _Node, baseline: list[object], candidate: list[object]) -> Iterator[_Node]:
        if not (node.fields.leads_on or node.ignored.leads_on) and _plainly_equal(baseline, candidate):
            if self._policy.rest:
                self._add(REST, node.place, Outcome(PairKind.OK, {Figure.DIFFERENCES: 0}))
        elif len(baseline) == len(candidate):
            for index, (left, right) in enumerate(zip(baseline, candidate, strict=True)):
                yield self._child(node, index, left, right)
        else:
            # With an element too many nobody knows which one it is: the rest of the list is not compared.
            text = f"baseline {len(baseline)} elements, candidate {len(candidate)}; must be as many"
            self._add(self._charged(node), node.place, Outcome(PairKind.SHAPE, text=text))

    def _child(self, node: _Node, step: Step, baseline: object, candidate: object) -> _Node:
        fields = node.fields.after(self._paths, step)
        ignored = node.ignored.after(self._policy.ignore, step)
        return _Node((*node.place, step), baseline, candidate, fields, ignored)

    def _matters(self, fields: Sightings) -> bool:
        """Something below this place is compared."""
        return self._policy.rest or fields.leads_on

    def _charged(self, node: _Node) -> str:
        """The field that a fault at this place belongs to: one that lies here or would lie below, else the rest."""
        numbers = node.fields.ends or node.fields.below()
        return self._policy.fields[numbers[0]].name if numbers else REST

    def _add(self, name: str, place: Place, outcome: Outcome) -> None:
        self._found.setdefault(name, _Found()).add(place, outcome)


def apply(rule: Rule, baseline: object, candidate: object, effort: _Effort | None = None) -> Outcome:
    """One rule on one place. ``effort``: what the pair may still cost, a whole pair's where it is not given."""
    for arm, value in (("baseline", baseline), ("candidate", candidate)):
        if isinstance(value, Unreadable):
            return Outcome(value.kind, text=f"{arm}: {value.text}")
    match rule:
        case Exact():
            return json_equal((), baseline, candidate, effort)
        case Json(ignore=ignore):
            return json_equal(ignore, baseline, candidate, effort)
        case AbsRel():
            return abs_rel(rule, baseline, candidate)
        case Cosine():
            return cosine(rule, baseline, candidate)
        case TopK():
            return top_k(rule, baseline, candidate)
        case Label():
            return label(rule, baseline, candidate)
        case TokenPrefix():
            return token_prefix(rule, baseline, candidate)


def json_equal(ignore: tuple[Path, ...], baseline: object, candidate: object, effort: _Effort | None = None) -> Outcome:
    """Two trees as one outcome; its figure counts the places that differ."""
    walk = _Walk(ContentPolicy(fields=(), ignore=ignore, rest=True), effort or _Effort())
    walk.run(baseline, candidate)
    return walk.outcome()


def leaf(baseline: object, candidate: object) -> Outcome:
    """Two values that are not both objects or both lists. Numbers are equal in value, booleans are no numbers."""
    for arm, value in (("baseline", baseline), ("candidate", candidate)):
        if isinstance(value, Unreadable):
            return Outcome(value.kind, text=f"{arm}: {value.text}")
        if isinstance(value, float) and not math.isfinite(value):
            kind = PairKind.NAN if math.isnan(value) else PairKind.INFINITY
            return Outcome(kind, text=f"{arm}: {'not a number' if kind is PairKind.NAN else 'infinite'}")
    if isinstance(baseline, Tensor) and isinstance(candidate, Tensor):
        return exact(baseline, candidate)
    if type_name(baseline) != type_name(candidate):
        text = f"dtype: baseline {type_name(baseline)}, candidate {type_name(candidate)}; must be equal"
        return Outcome(PairKind.DTYPE, text=text)
    if baseline == candidate:
        return Outcome(PairKind.OK, {Figure.DIFFERENCES: 0})
    text = f"the {type_name(baseline)} differs"
    if isinstance(baseline, str | bytes) and isinstance(candidate, str | bytes):
        text += f" (baseline of length {len(baseline)}, candidate of length {len(candidate)})"
    return Outcome(PairKind.TOLERANCE, {Figure.DIFFERENCES: 1}, f"{text}; must be equal")


def _are_empty(baseline: object, candidate: object) -> bool:
    """Two empty lists, or two empty objects."""
    return type(baseline) is type(candidate) and isinstance(baseline, list | dict) and not baseline and not candidate


def _plainly_equal(baseline: list[object], candidate: list[object]) -> bool:
    """Lists of plain values that are equal beyond doubt: seen at once, where a walk would visit each element."""
    types = list(map(type, baseline))
    if not set(types) <= {int, float, str, bool, type(None)} or types != list(map(type, candidate)):
        return False
    return baseline == candidate and all(math.isfinite(x) for x in baseline if isinstance(x, float))
