"""What a run asks of two answers: a rule for each field, the paths that do not count, and equality for the rest.

A policy is frozen with the plan. Its canonical form goes into the plan's digest; while a run is open it may only be
tightened.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from gateway.core.compare.content import DATATYPES, Tensor, Unreadable
from gateway.core.compare.paths import Path, PathError, parse
from gateway.core.compare.rules import Rule, canonical, loosened, problems, rule_of

REST: Final = "(rest)"
"""The name under which results speak of everything that no field rule names."""
MAX_FIELDS: Final = 64
MAX_IGNORED: Final = 64


class ContentKind(StrEnum):
    """What an answer is, known from the request's path alone."""

    EMBEDDINGS = "openai_embeddings"
    CHAT = "openai_chat"
    COMPLETIONS = "openai_completions"
    INFER = "oip_infer"
    JSON = "json"
    """Any other answer; one that is not JSON is a single value of bytes."""


class PolicyError(ValueError):
    """The policy is refused. ``problems`` lists every fault: field, value, what is allowed."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldRule:
    """A rule for the places that ``path`` names; with ``datatypes`` only for tensors of these."""

    path: Path
    rule: Rule
    datatypes: tuple[str, ...] = ()

    def applies_to(self, baseline: object, candidate: object) -> bool:
        """The baseline's type decides; where it has none, the candidate's, so that the failure is this field's."""
        if not self.datatypes or isinstance(baseline, Unreadable) or isinstance(candidate, Unreadable):
            return True
        side = baseline if isinstance(baseline, Tensor) else candidate
        return isinstance(side, Tensor) and side.datatype in self.datatypes

    @property
    def name(self) -> str:
        return f"{self.path} ({', '.join(self.datatypes)})" if self.datatypes else str(self.path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentPolicy:
    """For one kind of content: the first field rule whose path fits decides; ``ignore`` wins over all.

    rest: what no rule names must be equal. sampled: answers that were drawn at random (temperature above 0, no seed)
    are compared too; otherwise they form no pair.
    """

    fields: tuple[FieldRule, ...]
    ignore: tuple[Path, ...] = ()
    rest: bool = True
    sampled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparePolicy:
    """A policy for each kind of content that is compared; kinds that are not named form no pairs.

    source: where the bounds come from; shown with every verdict, so that a default never passes for a measurement.
    """

    kinds: tuple[tuple[ContentKind, ContentPolicy], ...]
    source: str = "plan"

    def __post_init__(self) -> None:
        if found := policy_problems(self):
            raise PolicyError(found)

    def of(self, kind: ContentKind) -> ContentPolicy | None:
        """The policy for one kind of content; None when it forms no pairs."""
        return next((policy for named, policy in self.kinds if named is kind), None)

    def canonical(self) -> dict[str, Any]:
        """JSON-able and the same for equal policies. Fields keep their order, which decides; the rest has none."""
        return {
            "source": self.source,
            "kinds": {str(kind): _form(policy) for kind, policy in sorted(self.kinds)},
        }

    def canonical_text(self) -> str:
        """What a digest is taken of: the canonical form as JSON, keys sorted, no spaces."""
        return json.dumps(self.canonical(), sort_keys=True, separators=(",", ":"), allow_nan=False)


@lru_cache(maxsize=8)
def policy_of_text(text: str) -> ComparePolicy:
    """The policy of a canonical text: what a plan freezes and a store keeps. ValueError when it is none."""
    return policy_of(json.loads(text))


def policy_of(form: Mapping[str, Any]) -> ComparePolicy:
    """The policy of a canonical form. PolicyError with every problem, each under its path in the form."""
    found: list[str] = []
    kinds = []
    for name, part in form.get("kinds", {}).items():
        try:
            kind = ContentKind(name)
        except ValueError:
            found.append(f"kinds.{name}: unknown; {', '.join(ContentKind)}")
            continue
        fields = []
        for number, entry in enumerate(part.get("fields", ())):
            try:
                fields.append(_field_of(entry))
            except (ValueError, KeyError, TypeError) as error:
                found.append(f"kinds.{name}.fields[{number}]: {error}")
        ignore = _paths(part.get("ignore", ()), f"kinds.{name}.ignore", found)
        flags = {flag: part[flag] for flag in ("rest", "sampled") if flag in part}
        kinds.append((kind, ContentPolicy(fields=tuple(fields), ignore=ignore, **flags)))
    if found:
        raise PolicyError(found)
    return ComparePolicy(kinds=tuple(kinds), source=form.get("source", "plan"))


def policy_problems(policy: ComparePolicy) -> list[str]:
    """Why a policy cannot be used; empty when it can."""
    found = [] if policy.kinds else ["kinds: empty; a policy compares at least one kind of content"]
    names = [kind for kind, _ in policy.kinds]
    found += [f"kinds.{name}: given more than once" for name in sorted(set(names)) if names.count(name) > 1]
    for kind, part in policy.kinds:
        at = f"kinds.{kind}"
        if not part.fields and not part.rest:
            found.append(f"{at}: no fields and rest: false compare nothing")
        for limit, count, name in ((MAX_FIELDS, len(part.fields), "fields"), (MAX_IGNORED, len(part.ignore), "ignore")):
            if count > limit:
                found.append(f"{at}.{name}: {count} entries, at most {limit}")
        hidden = {str(path) for path in part.ignore} & {str(rule.path) for rule in part.fields}
        found += [f"{at}.ignore: '{path}' is a field with a rule of its own" for path in sorted(hidden)]
        for number, rule in enumerate(part.fields):
            found += [f"{at}.fields[{number}].{problem}" for problem in problems(rule.rule)]
            unknown = sorted(set(rule.datatypes) - DATATYPES)
            found += [
                f"{at}.fields[{number}].datatypes: '{u}' is none of {', '.join(sorted(DATATYPES))}" for u in unknown
            ]
    return found


def loosenings(new: ComparePolicy, old: ComparePolicy) -> list[str]:
    """Where ``new`` would pass what ``old`` fails, in words with both values. Empty: at least as tight everywhere.

    Fields must keep their paths, types and order, since the first that fits decides. A change whose direction is not
    known counts as looser.
    """
    found: list[str] = []
    for kind, before in old.kinds:
        after = new.of(kind)
        if after is None:
            found.append(f"kinds.{kind}: no longer compared")
        else:
            found += [f"kinds.{kind}.{text}" for text in _content_loosenings(after, before)]
    return found


def is_at_least_as_tight(new: ComparePolicy, old: ComparePolicy) -> bool:
    """Every pair that fails under ``old`` fails under ``new``: what a change to an open run must satisfy."""
    return not loosenings(new, old)


def _content_loosenings(new: ContentPolicy, old: ContentPolicy) -> list[str]:
    before, after = ([rule.name for rule in side.fields] for side in (old, new))
    if before != after:
        return [f"fields: {', '.join(after) or 'none'} instead of {', '.join(before) or 'none'} cannot be compared"]
    found = []
    for one, other in zip(new.fields, old.fields, strict=True):
        found += [f"{other.name}.{text}" for text in loosened(one.rule, other.rule)]
    known = {str(path) for path in old.ignore}
    found += [f"ignore: '{path}' was not ignored before" for path in new.ignore if str(path) not in known]
    if old.rest and not new.rest:
        found.append("rest: false, was true")
    if old.sampled and not new.sampled:
        found.append("sampled: false, was true")
    return found


def _form(policy: ContentPolicy) -> dict[str, Any]:
    return {
        "fields": [
            {"path": str(rule.path), "datatypes": sorted(rule.datatypes), **canonical(rule.rule)}
            for rule in policy.fields
        ],
        "ignore": sorted(str(path) for path in policy.ignore),
        "rest": policy.rest,
        "sampled": policy.sampled,
    }


def _field_of(entry: Mapping[str, Any]) -> FieldRule:
    given = dict(entry)
    path = parse(given.pop("path"))
    datatypes = tuple(sorted(given.pop("datatypes", ())))
    return FieldRule(path=path, rule=rule_of(given), datatypes=datatypes)


def _paths(texts: Sequence[str], at: str, found: list[str]) -> tuple[Path, ...]:
    paths = []
    for text in texts:
        try:
            paths.append(parse(text))
        except PathError as error:
            found.append(f"{at}: {error}")
    return tuple(paths)
