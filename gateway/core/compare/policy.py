"""What a run asks of two answers: a rule for each field, the paths that do not count, and equality for the rest.

A policy is frozen with the plan; its canonical form goes into the plan's digest.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from gateway.core.compare.content import Tensor, Unreadable
from gateway.core.compare.forms import Form, FormError
from gateway.core.compare.paths import Path
from gateway.core.compare.reach import DECLARED, covers, dead_end, undecidable_types, unfit_types
from gateway.core.compare.rules import Rule, canonical, problems, rule_of

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
    """The policy of a canonical form, read strictly. PolicyError with every problem, each under its path."""
    found: list[str] = []
    whole = Form(form, "", found, ("kinds", "source"))
    kinds = []
    given = whole.value("kinds") if "kinds" in whole else {}
    for name, part in (given if isinstance(given, Mapping) else {}).items():
        if name not in ContentKind.__members__.values():
            found.append(f"kinds.{name}: unknown; {', '.join(ContentKind)}")
        else:
            kinds.append((ContentKind(name), _content_of(part, ContentKind(name), found)))
    if not isinstance(given, Mapping):
        whole.refuse("kinds", "an object")
    source = whole.value("source") if "source" in whole else "plan"
    if not isinstance(source, str):
        whole.refuse("source", "a text")
    if found:
        raise PolicyError(found)
    return ComparePolicy(kinds=tuple(kinds), source=str(source))


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
        for number, rule in enumerate(part.fields):
            found += [f"{at}.fields[{number}].{problem}" for problem in problems(rule.rule)]
        found += _unreachable(kind, part.fields, part.ignore)
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


def _content_of(given: object, kind: ContentKind, found: list[str]) -> ContentPolicy:
    at, before = f"kinds.{kind}", len(found)
    form = Form(given, at, found, ("fields", "ignore", "rest", "sampled"))
    if given == {}:
        found.append(f"{at}: empty; fields, or rest: true where everything must be equal")
    read = [_field_of(entry, f"{at}.fields[{n}]", found) for n, entry in enumerate(form.list("fields"))]
    part = ContentPolicy(
        fields=tuple(rule for rule in read if rule is not None),
        ignore=form.paths("ignore"),
        rest=form.flag("rest", True),
        sampled=form.flag("sampled", False),
    )
    if len(found) > before:  # no policy will be built to say what else is wrong
        found += _unreachable(kind, read, part.ignore)
    return part


def _field_of(entry: object, at: str, found: list[str]) -> FieldRule | None:
    if not isinstance(entry, Mapping):
        found.append(f"{at}: {entry!r:.80} must be an object with path and rule")
        return None
    form = Form(entry, at, found, entry.keys())
    path, datatypes = form.one_path("path"), tuple(sorted(form.texts("datatypes")))
    try:
        rule = rule_of({name: value for name, value in entry.items() if name not in ("path", "datatypes")}, at)
    except FormError as error:
        found += error.problems
        return None
    return None if path is None else FieldRule(path=path, rule=rule, datatypes=datatypes)


def _unreachable(kind: ContentKind, read: Sequence[FieldRule | None], ignore: tuple[Path, ...]) -> list[str]:
    """Paths that name nothing, and fields that another one, or an ignored path, leaves nothing to decide.

    read: the fields as they were written, None where one could not be understood.
    """
    at = f"kinds.{kind}"
    found = []
    fields = [(number, rule) for number, rule in enumerate(read) if rule is not None]
    for number, path in enumerate(ignore):
        if (why := dead_end(kind, path)) is not None:
            found.append(f"{at}.ignore[{number}]: '{path}' can never match: {why}")
        for _, rule in fields:
            if path == rule.path:
                found.append(f"{at}.ignore: '{path}' is a field with a rule of its own")
            elif covers(path, rule.path):
                found.append(f"{at}.ignore: '{path}' hides the field '{rule.path}'")
    for number, rule in fields:
        where = f"{at}.fields[{number}]"
        if (why := dead_end(kind, rule.path)) is not None:
            found.append(f"{where}.path: '{rule.path}' can never match: {why}")
            continue
        if unfit := unfit_types(kind, rule.path, rule.datatypes):
            for name in unfit:
                why = f"is had by no tensor of {kind} at '{rule.path}'"
                if name not in DECLARED:
                    why = f"is none of {', '.join(sorted(DECLARED))}"
                found.append(f"{where}.datatypes: '{name}' {why}")
        elif unable := undecidable_types(kind, rule.path, rule.rule, rule.datatypes):
            found.append(f"{where}.rule: {rule.rule.rule} cannot compare {', '.join(unable)}")
        for before, other in fields:
            shallower = len(other.path.steps) < len(rule.path.steps)
            if (before < number or shallower) and not other.datatypes and covers(other.path, rule.path):
                found.append(f"{where}.path: '{rule.path}' is decided by fields[{before}] '{other.path}'")
                break
    return found
