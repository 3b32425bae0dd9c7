"""A run's policy: canonical form, refusals, tightening."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.paths import Path, parse
from gateway.core.compare.policy import (
    ComparePolicy,
    ContentKind,
    ContentPolicy,
    FieldRule,
    PolicyError,
    is_at_least_as_tight,
    loosenings,
    policy_of,
)
from gateway.core.compare.rules import AbsRel, Cosine, Exact, Rule, TokenPrefix

TEXT = FieldRule(path=parse("choices[*].text"), rule=TokenPrefix(tokens_min=8))
FLOATS = FieldRule(path=parse("outputs.*"), rule=AbsRel(abs=0.1), datatypes=("FP16", "FP32"))
CONTENT = ContentPolicy(fields=(TEXT, FLOATS), ignore=(parse("id"), parse("usage.*")))


def one(content: ContentPolicy, kind: ContentKind = ContentKind.COMPLETIONS) -> ComparePolicy:
    return ComparePolicy(kinds=((kind, content),))


def with_rule(rule: Rule, path: Path = TEXT.path) -> ComparePolicy:
    return one(replace(CONTENT, fields=(FieldRule(path=path, rule=rule), FLOATS)))


def test_the_canonical_text_restores_the_policy() -> None:
    """And is the same for the restored one."""
    policy = one(CONTENT)
    again = policy_of(json.loads(policy.canonical_text()))
    assert again == policy
    assert again.canonical_text() == policy.canonical_text()


def test_the_canonical_text_is_fixed() -> None:
    """A digest of a plan must not move with a release: the form by hand."""
    policy = one(ContentPolicy(fields=(FLOATS,), ignore=(parse("id"),)), ContentKind.INFER)
    assert policy.canonical_text() == (
        '{"kinds":{"oip_infer":{"fields":[{"abs":0.1,"datatypes":["FP16","FP32"],"path":"outputs.*","rel":0.0,'
        '"rule":"abs_rel"}],"ignore":["id"],"rest":true,"sampled":false}},"source":"plan"}'
    )


def test_only_what_decides_nothing_may_be_reordered() -> None:
    """Kinds and ignored paths have no order, fields have."""
    kinds = ((ContentKind.JSON, ContentPolicy(fields=())), (ContentKind.COMPLETIONS, CONTENT))
    swapped = replace(CONTENT, ignore=CONTENT.ignore[::-1])
    back = ((ContentKind.COMPLETIONS, swapped), (ContentKind.JSON, ContentPolicy(fields=())))
    assert ComparePolicy(kinds=kinds).canonical_text() == ComparePolicy(kinds=back).canonical_text()
    assert one(CONTENT).canonical_text() != one(replace(CONTENT, fields=CONTENT.fields[::-1])).canonical_text()


@pytest.mark.parametrize(
    "other",
    [
        one(CONTENT, ContentKind.CHAT),
        one(replace(CONTENT, rest=False)),
        one(replace(CONTENT, sampled=True)),
        one(replace(CONTENT, ignore=())),
        one(replace(CONTENT, fields=(TEXT,))),
        with_rule(TokenPrefix(tokens_min=9)),
        with_rule(TokenPrefix(tokens_min=8), parse("choices[0].text")),
        replace(one(CONTENT), source="a guess"),
    ],
)
def test_whatever_differs_shows_in_the_canonical_text(other: ComparePolicy) -> None:
    """Every field of a policy is part of its digest."""
    assert other.canonical_text() != one(CONTENT).canonical_text()


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        ((), "kinds: empty; a policy compares at least one kind of content"),
        (((ContentKind.JSON, CONTENT), (ContentKind.JSON, CONTENT)), "kinds.json: given more than once"),
        (((ContentKind.JSON, ContentPolicy(fields=(), rest=False)),), "kinds.json: no fields and rest: false"),
        (
            ((ContentKind.JSON, replace(CONTENT, ignore=(TEXT.path,))),),
            "kinds.json.ignore: 'choices[*].text' is a field with a rule of its own",
        ),
        (
            ((ContentKind.JSON, replace(CONTENT, fields=(replace(TEXT, rule=Cosine(min=2)),))),),
            "kinds.json.fields[0].min: 2 must lie between -1 and 1",
        ),
        (
            ((ContentKind.JSON, replace(CONTENT, fields=(replace(TEXT, datatypes=("float",)),))),),
            "kinds.json.fields[0].datatypes: 'float' is none of BF16, BOOL",
        ),
        (((ContentKind.JSON, replace(CONTENT, fields=(TEXT,) * 65)),), "kinds.json.fields: 65 entries, at most 64"),
    ],
)
def test_a_policy_that_cannot_be_used_cannot_be_built(
    kinds: tuple[tuple[ContentKind, ContentPolicy], ...], problem: str
) -> None:
    """Field, value, what is allowed."""
    with pytest.raises(PolicyError) as error:
        ComparePolicy(kinds=kinds)
    assert any(problem in text for text in error.value.problems)


def test_all_problems_of_a_form_are_reported_at_once() -> None:
    """Each under its path."""
    form = {
        "kinds": {
            "grpc": {},
            "json": {
                "fields": [
                    {"path": "a..b", "rule": "exact"},
                    {"path": "a", "rule": "cosine", "min": 3},
                    {"rule": "exact"},
                ],
                "ignore": ["", "ok"],
            },
        }
    }
    with pytest.raises(PolicyError) as error:
        policy_of(form)
    starts = [problem.split(": ")[0] for problem in error.value.problems]
    assert starts == [
        "kinds.grpc", "kinds.json.fields[0]", "kinds.json.fields[1]", "kinds.json.fields[2]", "kinds.json.ignore",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("tight", "loose"),
    [
        (with_rule(TokenPrefix(tokens_min=9)), one(CONTENT)),
        (with_rule(Exact()), one(CONTENT)),
        (one(replace(CONTENT, ignore=CONTENT.ignore[:1])), one(CONTENT)),
        (one(CONTENT), one(replace(CONTENT, rest=False))),
        (one(replace(CONTENT, sampled=True)), one(CONTENT)),
        (
            ComparePolicy(kinds=((ContentKind.COMPLETIONS, CONTENT), (ContentKind.JSON, ContentPolicy(fields=())))),
            one(CONTENT),
        ),
    ],
)
def test_limits_are_only_tightened(tight: ComparePolicy, loose: ComparePolicy) -> None:
    """One way is a tightening; the way back is refused, in words that begin with the place."""
    assert is_at_least_as_tight(tight, loose)
    assert not is_at_least_as_tight(loose, tight)
    assert all(text.startswith("kinds.") for text in loosenings(loose, tight))


@pytest.mark.parametrize(
    "other",
    [
        one(replace(CONTENT, fields=CONTENT.fields[::-1])),
        one(replace(CONTENT, fields=(TEXT,))),
        one(replace(CONTENT, fields=(*CONTENT.fields, FieldRule(path=parse("x"), rule=Exact())))),
        one(replace(CONTENT, fields=(TEXT, replace(FLOATS, datatypes=("FP32",))))),
    ],
)
def test_other_fields_count_as_looser(other: ComparePolicy) -> None:
    """Which rule decides may have changed, so the direction is not known."""
    assert "cannot be compared" in loosenings(other, one(CONTENT))[0]


def test_a_policy_is_at_least_as_tight_as_itself() -> None:
    """Where a bound came from changes nothing."""
    assert loosenings(replace(one(CONTENT), source="elsewhere"), one(CONTENT)) == []


@given(st.floats(-1, 1), st.floats(-1, 1), st.floats(-1, 1))
def test_tightening_is_transitive(a: float, b: float, c: float) -> None:
    """Step by step never ends looser than the beginning."""
    first, second, third = (with_rule(Cosine(min=bound)) for bound in (a, b, c))
    if is_at_least_as_tight(second, first) and is_at_least_as_tight(third, second):
        assert is_at_least_as_tight(third, first)
