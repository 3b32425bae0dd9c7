"""A run's policy: canonical form, refusals, tightening."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gateway.core.compare.paths import Path, parse
from gateway.core.compare.policy import (
    ComparePolicy,
    ContentKind,
    ContentPolicy,
    FieldRule,
    PolicyError,
    policy_of,
)
from gateway.core.compare.rules import AbsRel, Cosine, Rule, TokenPrefix

TEXT = FieldRule(path=parse("choices[*].text"), rule=TokenPrefix(tokens_min=8))
FLOATS = FieldRule(path=parse("outputs.*"), rule=AbsRel(abs=0.1), datatypes=("FP16", "FP32"))
SCORE = FieldRule(path=parse("choices[*].score"), rule=AbsRel(abs=0.1))
CONTENT = ContentPolicy(fields=(TEXT, SCORE), ignore=(parse("id"), parse("usage.*")))


def one(content: ContentPolicy, kind: ContentKind = ContentKind.COMPLETIONS) -> ComparePolicy:
    return ComparePolicy(kinds=((kind, content),))


def with_rule(rule: Rule, path: Path = TEXT.path) -> ComparePolicy:
    return one(replace(CONTENT, fields=(FieldRule(path=path, rule=rule), SCORE)))


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
        "kinds.grpc", "kinds.json.fields[0].path", "kinds.json.fields[1].min", "kinds.json.fields[2].path",
        "kinds.json.ignore",
    ]  # fmt: skip


FIELD = {"path": "choices[*].text", "rule": "exact"}
TOP_K = {"path": "outputs.*", "rule": "top_k", "k": 2, "overlap_min": 0.5}


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        (5, "kinds: 5 must be an object"),
        ({"json": None}, "kinds.json: None must be an object"),
        ({"json": {}}, "kinds.json: empty; fields, or rest: true where everything must be equal"),
        ({"json": {"rest": "no"}}, "kinds.json.rest: 'no' must be true or false"),
        ({"json": {"sampled": 1}}, "kinds.json.sampled: 1 must be true or false"),
        ({"json": {"ignore": "id"}}, "kinds.json.ignore: 'id' must be a list"),
        ({"json": {"ignore": [5]}}, "kinds.json.ignore[0]: 5 must be a text"),
        ({"json": {"ignored": []}}, "kinds.json.ignored: unknown; fields, ignore, rest, sampled can be given"),
        ({"json": {"fields": {"path": "a"}}}, "kinds.json.fields: {'path': 'a'} must be a list"),
        ({"json": {"fields": ["a"]}}, "kinds.json.fields[0]: 'a' must be an object with path and rule"),
        ({"json": {"fields": [{"path": 5, "rule": "exact"}]}}, "kinds.json.fields[0].path: 5 must be a path"),
        ({"json": {"fields": [{"path": "a"}]}}, "kinds.json.fields[0].rule: missing, must be one of exact"),
        ({"oip_infer": {"fields": [{**TOP_K, "k": 2.0}]}}, "fields[0].k: 2.0 must be a whole number, without a point"),
        ({"oip_infer": {"fields": [{**TOP_K, "k": True}]}}, "fields[0].k: True must be a whole number"),
        ({"oip_infer": {"fields": [{**TOP_K, "k": "2"}]}}, "fields[0].k: '2' must be a whole number"),
        ({"oip_infer": {"fields": [{**TOP_K, "overlap_min": "0.5"}]}}, "fields[0].overlap_min: '0.5' must be a number"),
        ({"oip_infer": {"fields": [{**TOP_K, "overlap_min": True}]}}, "fields[0].overlap_min: True must be a number"),
        ({"oip_infer": {"fields": [{**TOP_K, "kk": 3}]}}, "fields[0].kk: unknown; rule, k, overlap_min"),
        ({"oip_infer": {"fields": [{**TOP_K, "rank_by": "best"}]}}, "rank_by: 'best' must be one of kendall, spearman"),
        ({"oip_infer": {"fields": [{**TOP_K, "datatypes": "FP32"}]}}, "fields[0].datatypes: 'FP32' must be a list"),
        (
            {"json": {"fields": [{"path": "a", "rule": "json", "ignore": "id"}]}},
            "kinds.json.fields[0].ignore: 'id' must be a list",
        ),
    ],
)
def test_nothing_is_converted(kinds: object, problem: str) -> None:
    """A flag in words, a whole number with a point, a text for a list: refused under their path."""
    with pytest.raises(PolicyError) as error:
        policy_of({"kinds": kinds})
    assert any(problem in text for text in error.value.problems), error.value.problems


def test_what_is_wrong_in_one_field_hides_nothing() -> None:
    """Types, ranges, unknown keys and what is missing, of every field at once."""
    fields = [
        {**TOP_K, "k": 2.0, "overlap_min": 3, "x": 1},
        {"path": "outputs.a", "rule": "cosine", "max_abs": "1"},
        {"path": "outputs[0]", "rule": "exact"},
    ]
    with pytest.raises(PolicyError) as error:
        policy_of({"kinds": {"oip_infer": {"fields": fields, "rest": 0}}, "more": 1})
    starts = {text.split(": ")[0].removeprefix("kinds.oip_infer.") for text in error.value.problems}
    assert starts == {
        "more", "rest", "fields[0].k", "fields[0].overlap_min", "fields[0].x", "fields[1].min", "fields[1].max_abs",
        "fields[2].path",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "part", "problem"),
    [
        ("oip_infer", {"fields": [{**FIELD, "path": "outputs[0]"}]}, "step 2 must be a key"),
        ("oip_infer", {"fields": [{**FIELD, "path": "outputs.a.data"}]}, "nothing can be named inside of a tensor"),
        ("oip_infer", {"fields": [{**FIELD, "path": "[*]"}]}, "'[*]' can never match: step 1 must be a key"),
        ("openai_embeddings", {"fields": [{**FIELD, "path": "data.embedding"}]}, "step 2 must be an index in brackets"),
        ("openai_embeddings", {"fields": [{**FIELD, "path": "data[0].embedding[3]"}]}, "inside of a tensor"),
        ("openai_chat", {"fields": [{**FIELD, "path": "choices.message"}]}, "step 2 must be an index"),
        ("openai_chat", {"ignore": ["choices[*][0]"], "rest": True}, "ignore[0]: 'choices[*][0]' can never match"),
        ("openai_chat", {"fields": [{**FIELD, "datatypes": ["FP32"]}]}, "'FP32' is had by no tensor of openai_chat"),
        ("oip_infer", {"fields": [{**TOP_K, "datatypes": ["number"]}]}, "'number' is none of BF16, BOOL"),
        ("oip_infer", {"fields": [{**TOP_K, "datatypes": ["BYTES", "FP32"]}]}, "rule: top_k cannot compare BYTES"),
        (
            "openai_embeddings",
            {"fields": [{"path": "data[*].embedding", "rule": "token_prefix", "tokens_min": 1}]},
            "fields[0].rule: token_prefix cannot compare FP32",
        ),
        ("oip_infer", {"fields": [TOP_K, {**TOP_K, "path": "outputs.a"}]}, "'outputs.a' is decided by fields[0]"),
        ("oip_infer", {"fields": [TOP_K, {**TOP_K, "datatypes": ["FP32"]}]}, "is decided by fields[0] 'outputs.*'"),
        ("json", {"fields": [{**FIELD, "path": "a[*].b"}, {**FIELD, "path": "a[*]"}]}, "decided by fields[1] 'a[*]'"),
        ("json", {"fields": [{**FIELD, "path": "a.b"}], "ignore": ["*"]}, "ignore: '*' hides the field 'a.b'"),
    ],
)
def test_what_can_decide_nothing_is_refused(kind: str, part: dict[str, Any], problem: str) -> None:
    """A place that no such answer has, a type that the rule cannot compare, a field behind another one."""
    with pytest.raises(PolicyError) as error:
        policy_of({"kinds": {kind: part}})
    assert any(problem in text for text in error.value.problems), error.value.problems


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("oip_infer", {"fields": [{**TOP_K, "path": "*.scores"}, {**FIELD, "path": 'outputs."odd name"'}]}),
        ("oip_infer", {"fields": [{**TOP_K, "datatypes": ["FP32"]}, {**FIELD, "path": "outputs.*"}]}),
        ("oip_infer", {"fields": [{**TOP_K, "path": "outputs.a"}, TOP_K]}),
        ("openai_chat", {"fields": [{**FIELD, "path": "choices[0].message.tool_calls[*].function"}]}),
        ("openai_embeddings", {"fields": [{**FIELD, "path": "data[*].embedding", "datatypes": ["FP32"]}]}),
        ("json", {"rest": True}),
        ("json", {"fields": [{**FIELD, "path": "[*].a[3]"}], "ignore": ["[*].b"], "rest": False}),
    ],
)
def test_what_may_decide_is_taken(kind: str, part: dict[str, Any]) -> None:
    """Names that nobody knows before the answer comes, and narrower fields before wider ones."""
    policy = policy_of({"kinds": {kind: part}})
    assert policy_of(json.loads(policy.canonical_text())) == policy
