"""What differs between two arms, and whether this kind of run allows it (gate 1, compatibility).

A comparison means something only while model, data and contract are the same. What has to differ for the sake of the
migration is declared in the plan; an upgrade changes one dimension at a time.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

MUST_EQUAL: Final = ("revision", "tokenizer", "truncation", "output")
"""Never allowed to differ, and never unknown: declaring them does not help."""

MAY_DIFFER: Final = (
    "model",
    "device",
    "dtype",
    "matmul_precision",
    "torch",
    "torch_tpu",
    "libtpu",
    "compiled",
    "strict",
    "emulated",
    "topology",
    "catalogue",
)
"""Allowed to differ when the plan declares it; whatever else an arm reports is treated the same."""

NOT_AVAILABLE: Final = "not_available"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One field in which the arms differ."""

    field: str
    baseline: object
    candidate: object

    def __str__(self) -> str:
        return f"{self.field} (baseline {_shown(self.baseline)}, candidate {_shown(self.candidate)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityCheck:
    """``problems`` end the run before it starts, each with field, values and what is allowed."""

    problems: tuple[str, ...]
    differences: tuple[Difference, ...]


def differences(baseline: Mapping[str, object], candidate: Mapping[str, object]) -> tuple[Difference, ...]:
    """Fields whose values differ, in a fixed order; a field that is absent equals one that is None."""
    known = (*MUST_EQUAL, *MAY_DIFFER)
    others = sorted((baseline.keys() | candidate.keys()) - set(known))
    return tuple(
        Difference(field=field, baseline=baseline.get(field), candidate=candidate.get(field))
        for field in (*known, *others)
        if baseline.get(field) != candidate.get(field)
    )


def check_identity(
    baseline: Mapping[str, object], candidate: Mapping[str, object], *, kind: str, declared: Collection[str]
) -> IdentityCheck:
    """Gate 1 on two identities. ``kind`` is ``migration`` or ``upgrade``; ``declared`` the fields that may differ.

    ValueError for another kind.
    """
    if kind not in ("migration", "upgrade"):
        raise ValueError(f"run_kind: '{kind}' is not allowed; migration or upgrade")
    found = differences(baseline, candidate)
    free = [difference for difference in found if difference.field not in MUST_EQUAL]
    problems = [
        *_must_equal_problems(baseline, candidate),
        *(
            f"declared_differences: '{field}' must be equal in both arms; declaring it does not allow a difference"
            for field in MUST_EQUAL
            if field in declared
        ),
        *(
            f"{d}: not declared; list it in declared_differences or make it equal"
            for d in free
            if d.field not in declared
        ),
    ]
    if kind == "upgrade" and len(free) != 1:
        names = ", ".join(difference.field for difference in free) or "nothing"
        problems.append(f"run_kind: upgrade, but {len(free)} dimensions differ ({names}); allowed: exactly 1")
    return IdentityCheck(problems=tuple(problems), differences=found)


def _must_equal_problems(baseline: Mapping[str, object], candidate: Mapping[str, object]) -> list[str]:
    problems = []
    for field in MUST_EQUAL:
        left, right = baseline.get(field), candidate.get(field)
        unknown = [
            arm for arm, value in (("baseline", left), ("candidate", right)) if value in (None, "", NOT_AVAILABLE)
        ]
        if unknown:
            problems.append(f"{field}: not reported by {' and '.join(unknown)}; must be known and equal in both arms")
        elif left != right:
            problems.append(f"{Difference(field=field, baseline=left, candidate=right)}: must be equal in both arms")
    return problems


def _shown(value: object) -> str:
    return NOT_AVAILABLE if value is None else f"'{value}'"
