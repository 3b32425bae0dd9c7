"""Whole answers under a policy."""

import copy
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.content import Tensor, Unreadable
from gateway.core.compare.documents import MAX_DEPTH, MAX_EFFORT, apply, compare, json_equal
from gateway.core.compare.paths import parse
from gateway.core.compare.policy import REST, ContentPolicy, FieldRule
from gateway.core.compare.result import Figure, PairComparison, PairKind
from gateway.core.compare.rules import AbsRel, Cosine, Exact, Json, Label, Rule, TokenPrefix, TopK

STRICT = ContentPolicy(fields=())


def policy(fields: dict[str, Rule], *ignore: str, rest: bool = True) -> ContentPolicy:
    return ContentPolicy(
        fields=tuple(FieldRule(path=parse(path), rule=rule) for path, rule in fields.items()),
        ignore=tuple(map(parse, ignore)),
        rest=rest,
    )


def kinds(pair: PairComparison) -> dict[str, PairKind]:
    return {found.field: found.kind for found in pair.fields}


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ({"a": 1}, {"a": 1.0}),
        ({"a": -0.0}, {"a": 0}),
        ({"a": 2**80}, {"a": 2**80}),
        ({"日本": "é", "a": []}, {"a": [], "日本": "é"}),
        ([], []),
        ({}, {}),
        (None, None),
        (b"\x89PNG", b"\x89PNG"),
        ([1, "a", None, True, 1.5], [1, "a", None, True, 1.5]),
    ],
)
def test_equal_documents(left: object, right: object) -> None:
    """Numbers by value, keys in any order, any root."""
    assert compare(STRICT, left, right).ok


@pytest.mark.parametrize(
    ("left", "right", "kind", "text"),
    [
        ({"id": 1}, {"id": 2}, PairKind.TOLERANCE, "at id: the number differs; must be equal"),
        ({"id": 1}, {"id": True}, PairKind.DTYPE, "at id: dtype: baseline number, candidate boolean; must be equal"),
        ([1], [True], PairKind.DTYPE, "at [0]: dtype: baseline number, candidate boolean"),
        ({"id": 2**53 + 1}, {"id": 2**53}, PairKind.TOLERANCE, "at id: the number differs"),
        ({"id": 2**53 + 1}, {"id": float(2**53)}, PairKind.TOLERANCE, "at id: the number differs"),
        ({"id": "ab"}, {"id": "abc"}, PairKind.TOLERANCE, "differs (baseline of length 2, candidate of length 3)"),
        ({"id": None}, {"id": 0}, PairKind.DTYPE, "baseline null, candidate number"),
        ({"id": 1}, {}, PairKind.MISSING, "at id: missing on the candidate, present on the baseline"),
        ({}, {"id": None}, PairKind.UNEXPECTED, "at id: missing on the baseline, present on the candidate"),
        ([1, 2], [1], PairKind.SHAPE, "baseline 2 elements, candidate 1; must be as many"),
        ({"id": []}, {"id": {}}, PairKind.DTYPE, "baseline list, candidate object"),
        ({"id": math.nan}, {"id": math.nan}, PairKind.NAN, "at id: baseline: not a number"),
        ([math.inf], [math.inf], PairKind.INFINITY, "at [0]: baseline: infinite"),
        ("a", "b", PairKind.TOLERANCE, "(rest): the text differs"),
        (b"a", b"ab", PairKind.TOLERANCE, "the bytes differs"),
    ],
)  # fmt: skip
def test_documents_that_differ(left: object, right: object, kind: PairKind, text: str) -> None:
    """Each kind of difference by its name, with the place; NaN and infinity are equal to nothing."""
    pair = compare(STRICT, left, right)
    assert kinds(pair) == {REST: kind}
    assert text in pair.sentence


def test_a_sentence_never_shows_what_an_answer_held() -> None:
    """Neither values nor keys that no protocol and no policy knows."""
    left = {"patient Smith": {"text": "secret", "card": 4111_1111}, "data": [1]}
    right = {"patient Smith": {"text": "sacred", "card": 4222_2222, "wife": 1}, "data": [1]}
    pair = compare(STRICT, left, right)
    assert pair.kind is PairKind.UNEXPECTED
    for word in ("Smith", "secret", "sacred", "4111", "4222", "wife", "card"):
        assert word not in pair.sentence
    assert "at ?.?: missing on the baseline" in pair.sentence
    assert "(worst of 3 places that differ)" in pair.sentence


def test_keys_that_the_policy_names_are_shown() -> None:
    """The plan's author knows them."""
    pair = compare(policy({}, "mine.id"), {"mine": {"x": 1, "id": 1}}, {"mine": {"x": 2, "id": 2}})
    assert pair.sentence == "(rest): at mine.?: the number differs; must be equal"


@pytest.mark.parametrize(
    ("path", "candidate"),
    [
        ("id", {"id": "b"}),
        ("usage", {"usage": {"k": 3}}),
        ("usage.*", {"usage": {"n": 2, "k": 3}}),
        ("data[*].index", {"data": [{"index": 5}, {"index": 6}]}),
        ("data[1]", {"data": [{"index": 0}, "anything"]}),
        ("*", {"id": [1], "usage": 7}),
    ],
)
def test_ignored_places_do_not_count(path: str, candidate: dict[str, Any]) -> None:
    """What differs, is missing or is added at an ignored path and below it is skipped, and nothing else is."""
    left: dict[str, Any] = {"id": "a", "usage": {"n": 1, "m": 2}, "data": [{"index": 0}, {"index": 1}]}
    assert compare(policy({}, path), left, {**left, **candidate}).ok
    assert not compare(STRICT, left, {**left, **candidate}).ok
    assert not compare(policy({}, path), [left], [{**left, **candidate}]).ok


def test_an_ignored_place_may_be_on_one_arm() -> None:
    """Missing there or here, whole subtrees too; its parent may not be."""
    assert compare(policy({}, "usage.*"), {"usage": {"a": {"b": [1]}}}, {"usage": {}}).ok
    assert compare(policy({}, "usage"), {"usage": {"a": 1}}, {}).ok
    assert compare(policy({}, "usage.*"), {"usage": {"a": 1}}, {}).kind is PairKind.MISSING


def test_the_first_rule_that_fits_decides() -> None:
    """Order is part of a policy; one field at several places is one result with the worst of them."""
    rules: dict[str, Rule] = {"data[0].x": Exact(), "data[*].x": AbsRel(abs=1.0)}
    pair = compare(policy(rules), {"data": [{"x": 1}, {"x": 1}, {"x": 1}]}, {"data": [{"x": 1}, {"x": 2}, {"x": 9}]})
    assert kinds(pair) == {"data[0].x": PairKind.OK, "data[*].x": PairKind.TOLERANCE}
    assert pair.fields[1].figures[Figure.USED] == 8.0
    assert pair.sentence == (
        "data[*].x: at data[2].x: 1 of 1 elements differ by more than 1 + 0 x |baseline|, by up to 8 times what is"
        " allowed; none may"
    )


def test_the_worst_of_many_places_decides_not_their_mean() -> None:
    """One wrong vector in a hundred fails the answer, and its index is said."""
    data = [{"embedding": [1.0, float(i)]} for i in range(100)]
    other = copy.deepcopy(data)
    other[63]["embedding"] = [-1.0, -63.0]
    pair = compare(policy({"data[*].embedding": Cosine(min=0.9)}), {"data": data}, {"data": other})
    assert pair.kind is PairKind.TOLERANCE
    assert pair.fields[0].figures[Figure.COSINE] == pytest.approx(-1.0)
    assert pair.sentence == "data[*].embedding: at data[63].embedding: cosine -1, must be at least 0.9"


def test_what_no_rule_names_must_be_equal() -> None:
    """Beside the field's own rule; unless the policy says that the rest does not matter."""
    fields: dict[str, Rule] = {"text": TokenPrefix(tokens_min=1)}
    left, right = {"text": "a b", "model": "x"}, {"text": "a c", "model": "y", "more": [[1]]}
    strict = compare(policy(fields), left, right)
    assert kinds(strict) == {"text": PairKind.OK, REST: PairKind.UNEXPECTED}
    assert strict.fields[1].figures == {Figure.DIFFERENCES: 1}
    assert kinds(compare(policy(fields, rest=False), left, right)) == {"text": PairKind.OK}


@pytest.mark.parametrize("rest", [True, False])
@pytest.mark.parametrize(
    ("candidate", "kind"),
    [
        ({}, PairKind.MISSING),
        ({"data": None}, PairKind.DTYPE),
        ({"data": []}, PairKind.SHAPE),
        ({"data": [{}]}, PairKind.MISSING),
        ({"data": [5]}, PairKind.DTYPE),
        ({"data": [{"embedding": [1.0, 2.0]}] * 2}, PairKind.SHAPE),
        ({"data": [{"embedding": None}]}, PairKind.SHAPE),
        ({"data": Unreadable(PairKind.UNDECODABLE, "broken")}, PairKind.UNDECODABLE),
    ],
)
def test_a_field_that_cannot_be_reached_fails(candidate: object, kind: PairKind, rest: bool) -> None:
    """Whatever is wrong on the way to it is charged to the field, also where the rest does not matter."""
    both = policy({"data[*].embedding": Cosine(min=-1.0)}, rest=rest)
    assert kinds(compare(both, {"data": [{"embedding": [1.0, 2.0]}]}, candidate))["data[*].embedding"] is kind


@pytest.mark.parametrize("document", [{}, {"data": None}, {"error": "busy"}, [], None, "x"])
@pytest.mark.parametrize("rest", [True, False])
def test_comparing_nothing_is_no_agreement(document: object, rest: bool) -> None:
    """Two equal answers without any of the policy's fields, such as two errors under status 200."""
    pair = compare(policy({"data[*].embedding": Cosine(min=-1.0)}, rest=rest), document, copy.deepcopy(document))
    assert (pair.ok, pair.kind) == (False, PairKind.MISSING)
    assert rest or len(pair.fields) == 1
    assert "nothing could be compared" in pair.sentence


@pytest.mark.parametrize("rest", [True, False])
@pytest.mark.parametrize(
    ("path", "document"),
    [("data[*].embedding", {"data": []}), ("outputs.*", {"outputs": {}}), ("a.b[*]", {"a": {"b": []}})],
)
def test_having_none_of_a_field_on_both_arms_is_agreement(path: str, document: object, rest: bool) -> None:
    """No inputs, no outputs: the container is there and empty. Empty on one arm alone is no agreement."""
    both = policy({path: Cosine(min=0.5)}, "id", rest=rest)
    pair = compare(both, {"id": 1, **document}, {"id": 2, **document})
    assert kinds(pair)[path] is PairKind.OK
    assert pair.ok


def test_a_message_without_text_is_agreement_where_the_rest_of_it_is_compared() -> None:
    """Tools are called and nothing is said, whether the text is null or left out; another call is a difference."""
    path = "choices[*].message.content"
    both = policy({path: TokenPrefix(tokens_min=1)}, "id")

    def chat(name: str, **message: object) -> dict[str, object]:
        return {"id": name, "choices": [{"message": {"tool_calls": [{"name": name[0]}], **message}}]}

    for message in ({}, {"content": None}):
        assert compare(both, chat("a1", **message), chat("a2", **message)).ok
        assert kinds(compare(both, chat("a1", **message), chat("b1", **message)))[REST] is PairKind.TOLERANCE
    assert kinds(compare(both, chat("a1"), chat("a2", content="text")))[path] is PairKind.UNEXPECTED
    loose = policy({path: TokenPrefix(tokens_min=1)}, rest=False)
    assert compare(loose, chat("a1"), chat("a2")).kind is PairKind.MISSING


PLACES = MAX_EFFORT + 1
MANY: list[tuple[ContentPolicy, list[Any], list[Any]]] = [
    (STRICT, [[]] * PLACES, [[]] * PLACES),
    (policy({"[*]": AbsRel(abs=1.0)}), [1.0] * (PLACES // 10), [1.5] * (PLACES // 10)),
    (policy({"[*]": Json()}), [[[]] * 100] * (PLACES // 100), [[[]] * 100] * (PLACES // 100)),
    (policy({f"[*].k{n}": Exact() for n in range(64)}), [{"k0": 1}] * (PLACES // 9), [{"k0": 1}] * (PLACES // 9)),
]


@pytest.mark.parametrize(("both", "left", "right"), MANY)
def test_the_effort_for_a_pair_is_bounded(both: ContentPolicy, left: list[Any], right: list[Any]) -> None:
    """What is not looked at has not passed; a difference that was found counts, also beyond."""
    pair = compare(both, left, right)
    assert (pair.ok, pair.kind) == (False, PairKind.TOO_LARGE)
    assert "more places than are compared" in pair.sentence
    other = compare(both, [*left[:-1], None], ["x", *right[1:]])
    assert other.kind not in (PairKind.OK, PairKind.TOO_LARGE)


def test_datatypes_choose_between_rules_of_one_path() -> None:
    """Floats within a tolerance, everything else exact; another type on the candidate is a dtype failure."""
    both = ContentPolicy(
        fields=(
            FieldRule(path=parse("outputs.*"), rule=AbsRel(abs=0.5), datatypes=("FP32",)),
            FieldRule(path=parse("outputs.*"), rule=Exact()),
        )
    )

    def answer(score: Tensor, ids: int) -> dict[str, Any]:
        return {"outputs": {"score": score, "ids": Tensor("INT64", np.array([ids]))}}

    score, near = Tensor("FP32", np.array([1.0])), Tensor("FP32", np.array([1.25]))
    assert compare(both, answer(score, 1), answer(near, 1)).ok
    assert kinds(compare(both, answer(score, 1), answer(near, 2))) == {
        "outputs.* (FP32)": PairKind.OK, "outputs.*": PairKind.TOLERANCE,
    }  # fmt: skip
    narrowed = compare(both, answer(score, 1), answer(Tensor("FP16", np.array([1.0])), 1))
    assert kinds(narrowed)["outputs.* (FP32)"] is PairKind.DTYPE
    broken = {"outputs": {"score": Unreadable(PairKind.SHAPE, "odd"), "ids": Tensor("INT64", np.array([1]))}}
    assert compare(both, answer(score, 1), broken).sentence == "outputs.* (FP32): at outputs.score: candidate: odd"


def nested(levels: int, leaf: object) -> object:
    for _ in range(levels):
        leaf = {"a": [leaf]}
    return leaf


def test_depth_is_bounded() -> None:
    """Deeper than the bound is a failure, not a crash, also when both are equal."""
    inside = nested(MAX_DEPTH // 2 - 1, 1)
    assert compare(STRICT, inside, copy.deepcopy(inside)).ok
    outside, other = nested(20_000, 1), nested(20_000, 1)
    assert compare(STRICT, outside, other).kind is PairKind.UNDECODABLE
    for value in (outside, other):
        while isinstance(value, dict):  # taken apart here: the interpreter's own clean-up is recursive
            value = value.pop("a").pop()


def test_depth_below_ignored_and_unnamed_places_does_not_matter() -> None:
    """Nothing is compared there."""
    deep = nested(40, 1)
    assert compare(policy({}, "a"), deep, nested(41, 2)).ok
    assert compare(policy({"x": Exact()}, rest=False), {"x": 1, "b": deep}, {"x": 1, "b": nested(41, 2)}).ok


@pytest.mark.parametrize(
    ("rule", "left", "right", "figure"),
    [
        (Exact(), {"a": [1, 2]}, {"a": [1, 3]}, Figure.DIFFERENCES),
        (Json(), {"a": [1, 2]}, {"a": [1, 3]}, Figure.DIFFERENCES),
        (AbsRel(abs=0.1), [1], [2], Figure.USED),
        (Cosine(min=0.9), [1, 0], [0, 1], Figure.COSINE),
        (TopK(k=1, overlap_min=1), [1.0, 0.0], [0.0, 1.0], Figure.OVERLAP),
        (Label(), "a", "b", Figure.LABELS),
        (TokenPrefix(share_min=0.5), "a", "b", Figure.PREFIX_SHARE),
    ],
)
def test_every_rule_can_be_applied(rule: Rule, left: object, right: object, figure: Figure) -> None:
    """Each with the figure that it bounds first."""
    outcome = apply(rule, left, right)
    assert (outcome.kind, next(iter(outcome.figures))) == (PairKind.TOLERANCE, figure)
    assert apply(rule, left, copy.deepcopy(left)).ok


@pytest.mark.parametrize("rule", [Exact(), AbsRel(abs=1), TokenPrefix(tokens_min=1), Json(), Label()])
def test_unreadable_on_both_arms_is_not_equal(rule: Rule) -> None:
    """The baseline is named first."""
    broken = Unreadable(PairKind.UNDECODABLE, "no base64")
    outcome = apply(rule, broken, broken)
    assert (outcome.kind, outcome.text) == (PairKind.UNDECODABLE, "baseline: no base64")


def test_json_as_a_fields_rule() -> None:
    """Its ignored paths begin at the field; its figure counts places."""
    rule = Json(ignore=(parse("*.id"),))
    pair = compare(
        policy({"tool_calls": rule}),
        {"tool_calls": {"f": {"id": 1, "name": "x", "score": 2}}},
        {"tool_calls": {"f": {"id": 2, "name": "y", "score": 3}}},
    )
    assert pair.fields[0].figures == {Figure.DIFFERENCES: 2}
    assert pair.sentence == (
        "tool_calls: at ?.name: the text differs (baseline of length 1, candidate of length 1); must be equal"
        " (worst of 2 places that differ)"
    )
    assert json_equal((), {"a": 1}, {"a": 1}).figures == {Figure.DIFFERENCES: 0}


documents = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=4)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)),
    max_leaves=8,
)


@given(documents)
def test_a_document_equals_itself(document: object) -> None:
    """Also after a trip through JSON, and under ignored paths."""
    again = json.loads(json.dumps(document))
    assert compare(STRICT, document, again).ok
    assert compare(policy({}, "a", "*.b"), document, again).ok


@given(documents, documents)
def test_comparison_is_symmetric(left: object, right: object) -> None:
    """Whichever arm is which, two documents agree or do not; missing becomes unexpected and nothing else changes."""
    swapped = {PairKind.MISSING: PairKind.UNEXPECTED, PairKind.UNEXPECTED: PairKind.MISSING}
    there, back = compare(STRICT, left, right), compare(STRICT, right, left)
    assert there.ok is back.ok
    assert swapped.get(there.kind, there.kind) is back.kind
