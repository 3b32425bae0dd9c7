"""Both protocols' answers become the same arrays, and pairs are judged by the plan's policy."""

import base64
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from gateway.adapters.answers import compare_pair, document, embeddings
from gateway.core.compare.content import Unreadable
from gateway.core.compare.defaults import BOUNDS, policy_with
from gateway.core.compare.documents import MAX_EFFORT
from gateway.core.compare.policy import ContentKind, policy_of
from gateway.core.compare.result import NotCompared, PairKind, PairResult
from gateway.core.plan import MetricId, MetricLimit, ParityPolicy, Plan
from gateway.core.snapshot import Answer, Pair
from gateway.core.types import Role
from wire.framing import framed_type

ROWS = np.array([[1.0, 0.0], [0.6, 0.8]], dtype=np.float32)
PLAN = Plan(
    rollout="r",
    steps=(1000,),
    metrics=(MetricLimit(metric=MetricId.ERROR, allowed=0.05), MetricLimit(metric=MetricId.PARITY, allowed=0.05)),
    parity=ParityPolicy(cosine_min=0.99),
    copies=5000,
)


EMBEDDINGS, INFER, CHAT = "/v1/embeddings", "/v2/models/m/infer", "/v1/chat/completions"


def openai(rows: np.ndarray[Any, Any], *, as_base64: bool, reverse: bool = False) -> bytes:
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": base64.b64encode(row.astype("<f4").tobytes()).decode() if as_base64 else row.tolist(),
        }
        for i, row in enumerate(rows)
    ]
    body = {"object": "list", "data": data[::-1] if reverse else data, "model": "m"}
    return msgspec.json.encode({**body, "usage": {"prompt_tokens": 1, "total_tokens": 1}})


def oip(rows: np.ndarray[Any, Any]) -> bytes:
    output = {"name": "embedding", "shape": list(rows.shape), "datatype": "FP32", "data": rows.ravel().tolist()}
    return msgspec.json.encode({"model_name": "m", "outputs": [output]})


def answer(body: bytes, status: int = 200) -> Answer:
    return Answer(status=status, content_type="application/json", body=body)


def pair(baseline: Answer, candidate: Answer, path: str = "/v1/embeddings") -> Pair:
    return Pair(
        epoch=1, window=1, request_id="id", path=path, served=Role.BASELINE, body_hash=b"h",
        baseline=baseline, candidate=candidate,
    )  # fmt: skip


def verdict(one: Answer, other: Answer, plan: Plan, path: str) -> PairResult:
    found = compare_pair(pair(one, other, path), plan)
    assert isinstance(found, PairResult)
    return found


@pytest.mark.parametrize("as_base64", [True, False])
def test_openai_forms_decode_alike_and_by_index(as_base64: bool) -> None:
    """Base64 and float lists give the same float32 rows, ordered by index."""
    found = embeddings("/v1/embeddings", answer(openai(ROWS, as_base64=as_base64, reverse=True)))
    assert found is not None
    np.testing.assert_array_equal(found, ROWS)


def test_oip_rows_take_the_declared_shape() -> None:
    """A flat OIP output is read as [n, d]."""
    found = embeddings("/v2/models/m/infer", answer(oip(ROWS)))
    assert found is not None
    np.testing.assert_array_equal(found, ROWS)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"data": [{"index": 0, "embedding": "%%"}]}',
        b"\xff",
        b"[" * 100_000,
        b'{"data": [{"index": 0, "embedding": [' + b"9" * 400 + b"]}]}",
    ],
)
def test_what_cannot_be_read_is_none(body: bytes) -> None:
    """A body that is no answer never raises."""
    assert embeddings("/v1/embeddings", answer(body)) is None


def test_pairs_are_counted_under_the_policy() -> None:
    """Equal rows agree in any form; a rotated row, an unreadable body and a refusal do not; 5xx is no pair."""
    good = answer(openai(ROWS, as_base64=True))
    turned = verdict(good, answer(openai(ROWS[::-1], as_base64=True)), PLAN, EMBEDDINGS)
    assert (turned.kind, turned.min_cosine) == (PairKind.TOLERANCE, pytest.approx(0.6))
    assert verdict(good, answer(openai(ROWS, as_base64=False)), PLAN, EMBEDDINGS).ok
    assert verdict(good, answer(b"junk"), PLAN, EMBEDDINGS).kind is PairKind.SHAPE
    assert verdict(good, answer(b"", 400), PLAN, EMBEDDINGS).kind is PairKind.STATUS
    assert compare_pair(pair(good, answer(b"", 503)), PLAN) is None


def field_plan(**kinds: Any) -> Plan:
    policy = policy_of({"kinds": kinds})
    return replace(PLAN, parity=None, compare=policy.canonical_text())


def counted(one: Answer, other: Answer, plan: Plan, path: str = INFER) -> tuple[bool, str]:
    found = verdict(one, other, plan, path)
    return found.ok, found.detail


LABELS = field_plan(oip_infer={"fields": [{"path": "outputs.*", "rule": "label"}], "ignore": ["model_version"]})


def test_a_policy_decides_field_by_field() -> None:
    """Scores may move as long as the label stays; another model's name is a difference that nobody ignored."""
    scores, moved, other = (np.array([row], dtype=np.float32) for row in ([0.1, 0.7], [0.3, 0.4], [0.7, 0.1]))
    assert counted(answer(oip(scores)), answer(oip(moved)), LABELS) == (True, "")
    agrees, said = counted(answer(oip(scores)), answer(oip(other)), LABELS)
    assert agrees is False
    assert "outputs" in said
    renamed = answer(oip(scores).replace(b'"m"', b'"n"'))
    assert counted(answer(oip(scores)), renamed, LABELS)[0] is False


def test_kinds_that_the_policy_does_not_name_form_no_pair() -> None:
    """A plan that compares one protocol says nothing about the other."""
    both = answer(openai(ROWS, as_base64=False))
    assert compare_pair(pair(both, both, EMBEDDINGS), LABELS) is NotCompared.NO_POLICY


def test_one_arm_that_refuses_is_a_failure_of_any_kind_of_content() -> None:
    """What the plan names is about answers; that one arm gave none is told by the statuses alone."""
    both = openai(ROWS, as_base64=False)
    refused = compare_pair(pair(answer(both), answer(b"{}", 400), EMBEDDINGS), LABELS)
    assert isinstance(refused, PairResult)
    assert refused.kind is PairKind.STATUS


def test_a_refusal_and_a_broken_answer_fail_under_every_policy() -> None:
    """Status and an answer that nobody can read are failures of their own, and no payload is told."""
    good, refusal = answer(oip(ROWS)), answer(b"{}", status=400)
    agrees, said = counted(good, refusal, LABELS)
    assert (agrees, "status" in said) == (False, True)
    for broken in (b"secret", b"[" * 100_000, b"\xff"):
        agrees, said = counted(good, answer(broken), LABELS)
        assert agrees is False
        assert "candidate: no JSON that can be read" in said
        assert "secret" not in said


def test_embeddings_are_the_same_in_both_forms_of_a_policy() -> None:
    """The short form and the policy that it stands for agree on every pair of these."""
    long = field_plan(openai_embeddings={"fields": [{"path": "data[*].embedding", "rule": "cosine", "min": 0.99}]})
    turned = ROWS[::-1].copy()
    for rows in (ROWS, turned, ROWS * 2, ROWS * np.float32("nan")):
        one, other = answer(openai(ROWS, as_base64=True)), answer(openai(rows, as_base64=True))
        assert counted(one, other, long, EMBEDDINGS)[0] == counted(one, other, PLAN, EMBEDDINGS)[0]


DEFAULT = replace(PLAN, parity=None, compare=policy_with(BOUNDS["float32"]).canonical_text())


def infer(*outputs: dict[str, Any], **more: Any) -> bytes:
    return msgspec.json.encode({"model_name": "m", "id": "1", **more, "outputs": list(outputs)})


def chat(**message: Any) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "tool_calls"}
    return msgspec.json.encode({"id": "chatcmpl-1", "choices": [choice]})


def framed(head: bytes, binary: bytes, length: int | None = None) -> Answer:
    """An answer with binary tensors, as an arm's Inference-Header-Content-Length says."""
    said = str(len(head) if length is None else length)
    return Answer(status=200, content_type=framed_type("application/octet-stream", said), body=head + binary)


def tensor(values: list[float], **more: Any) -> Answer:
    raw = np.array(values, dtype="<f4").tobytes()
    output = {"name": "o", "datatype": "FP32", "shape": [1, len(values)], "parameters": {"binary_data_size": len(raw)}}
    return framed(infer(output, **more), raw)


CALLS = [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
SAME: list[tuple[Plan, str, Answer]] = [
    (DEFAULT, INFER, answer(infer())),
    (PLAN, INFER, answer(infer())),
    (DEFAULT, EMBEDDINGS, answer(openai(ROWS[:0], as_base64=True))),
    (PLAN, EMBEDDINGS, answer(openai(ROWS[:0], as_base64=True))),
    (DEFAULT, CHAT, answer(chat(content=None, tool_calls=CALLS))),
    (DEFAULT, CHAT, answer(chat(tool_calls=CALLS))),
    (DEFAULT, CHAT, answer(b'{"error": "busy"}')),
    (DEFAULT, "/rerank", Answer(status=200, content_type="text/plain", body=b"")),
    (DEFAULT, INFER, tensor([0.5, 0.25])),
    (PLAN, INFER, tensor([0.5, 0.25])),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "path", "same"), SAME)
def test_equal_bytes_are_equal(plan: Plan, path: str, same: Answer) -> None:
    """Whatever a policy looks for in them and does not find."""
    assert verdict(same, replace(same), plan, path).ok


@pytest.mark.parametrize("plan", [PLAN, DEFAULT])
@pytest.mark.parametrize(
    ("path", "same", "kind"),
    [
        (EMBEDDINGS, answer(openai(ROWS * np.float32("nan"), as_base64=True)), PairKind.NAN),
        (EMBEDDINGS, answer(openai(ROWS * 0, as_base64=True)), PairKind.NAN),
        (INFER, tensor([0.5, float("nan")]), PairKind.NAN),
    ],
)
def test_two_answers_that_are_no_numbers_are_a_failure_of_its_own(
    plan: Plan, path: str, same: Answer, kind: PairKind
) -> None:
    """Equal bytes do not hide them; the verdict names the baseline first."""
    found = verdict(same, replace(same), plan, path)
    assert found.kind is kind
    assert "baseline" in found.detail


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"NaN", PairKind.NAN),
        (b"Infinity", PairKind.INFINITY),
        (b"-Infinity", PairKind.INFINITY),
        (b"1e400", PairKind.INFINITY),
        (b"9" * 400, PairKind.INFINITY),
        (b"9" * 5000, PairKind.UNDECODABLE),
    ],
)
def test_what_encoders_write_for_no_number_is_named(text: bytes, kind: PairKind) -> None:
    """JSON has no words for it, so a strict reader would only say that it cannot be read."""
    body = answer(b'{"outputs": [{"name": "o", "datatype": "FP32", "shape": [1], "data": [' + text + b"]}]}")
    assert verdict(body, replace(body), DEFAULT, INFER).kind is kind


def test_tensors_behind_json_are_compared_as_tensors() -> None:
    """Within the tolerance and beyond it; another id in the JSON does not matter."""
    assert verdict(tensor([0.5, 0.25]), tensor([0.5, 0.2502], id="2"), DEFAULT, INFER).ok
    far = verdict(tensor([0.5, 0.25]), tensor([0.5, 0.35], id="2"), DEFAULT, INFER)
    assert (far.kind, far.fields[0].field) == (PairKind.TOLERANCE, "outputs.* (BF16, FP16, FP32, FP64)")
    assert verdict(tensor([0.6, 0.8]), tensor([0.8, 0.6]), PLAN, INFER).min_cosine == pytest.approx(0.96)
    in_json = answer(infer({"name": "o", "datatype": "FP32", "shape": [1, 2], "data": [0.5, 0.25]}))
    assert verdict(in_json, tensor([0.5, 0.25]), PLAN, INFER).ok


GOOD = tensor([0.5, 0.25])


@pytest.mark.parametrize(
    "bad",
    [
        replace(GOOD, body=GOOD.body[:-1]),
        replace(GOOD, body=GOOD.body + b"\0"),
        replace(GOOD, body=b""),
        framed(GOOD.body[:-8], GOOD.body[-8:], length=3),
        framed(GOOD.body[:-8], GOOD.body[-8:], length=10**6),
        replace(GOOD, content_type="application/octet-stream"),
        replace(GOOD, content_type="application/json"),
        framed(infer({"name": "o", "datatype": "FP32", "shape": [1, 2]}), b""),
        framed(infer({"name": "o", "datatype": "FP32", "shape": [10**18, 0], "data": []}), b""),
        framed(infer({"name": "o", "datatype": "FP32", "shape": [2**70, 0], "data": []}), b""),
        framed(
            infer({"name": "o", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 4}}),
            b"\xff\xff\xff\xff",
        ),
    ],
)
@pytest.mark.parametrize("plan", [PLAN, DEFAULT])
def test_broken_tensors_are_a_failure_of_some_kind(plan: Plan, bad: Answer) -> None:
    """Cut off, framed wrongly, of another type, larger than anything: nothing escapes, and it fails on either arm."""
    assert not verdict(GOOD, bad, plan, INFER).ok
    assert not verdict(bad, GOOD, plan, INFER).ok


DEEP = b"[" * 5_000 + b"]" * 5_000
HOSTILE = [
    DEEP, b'{"a":' * 3_000 + b"1" + b"}" * 3_000, b"", b" ", b"{", b"\xff\xfe{\x00}\x00", b"\x1f\x8b\x08\x00junk",
    b'{"\\ud800": 1}', b'{"a": "\\udfff\\ud800"}', b'"\\u0000"', b"[1e400]", b"[-0.0]", b"[" + b"9" * 4400 + b"]",
    b"[" + b"[]," * 5_000 + b"[]]", b"{" + b",".join(b'"%d":%d' % (n, n) for n in range(2_000)) + b"}",
    b'{"data": {"embedding": []}, "outputs": {"o": 1}, "choices": 7}', b'{"data": [[]], "outputs": [[]]}',
    b'{"data": [{"index": 1e400}, {"index": true}], "outputs": [{"name": null}]}', b"null", b"true",
    b'{"outputs": [{"name": "o", "datatype": "FP32", "shape": [-1], "data": [1]}]}',
    b'{"outputs": [{"name": "o", "datatype": "INT64", "shape": [1], "data": [' + b"9" * 4000 + b"]}]}",
    b'{"outputs": [{"name": "o", "datatype": "BYTES", "shape": [1], "data": ["\\ud800"]}]}',
]  # fmt: skip
BROKEN = field_plan(
    json={"fields": [{"path": "a", "rule": "token_prefix", "tokens_min": 1}], "rest": True},
    oip_infer={"fields": [{"path": "outputs.*", "rule": "top_k", "k": 3, "overlap_min": 0.5, "rank_min": 0.1}]},
    openai_chat={"fields": [{"path": "choices[*].message.content", "rule": "token_prefix", "share_min": 0.5}]},
)


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("path", [EMBEDDINGS, INFER, CHAT, "/rerank"])
@pytest.mark.parametrize("content_type", ["application/json", "text/html", "", framed_type("", "2")])
@pytest.mark.parametrize("plan", [PLAN, DEFAULT, BROKEN])
def test_hostile_answers_are_failures_of_a_named_kind(plan: Plan, content_type: str, path: str, hostile: bytes) -> None:
    """Against a good answer, on either arm; nothing of them is told, and against themselves nothing is raised."""
    good = answer(chat(content="a b") if path == CHAT else openai(ROWS, as_base64=False))
    if path == INFER:
        good = answer(oip(ROWS))
    bad = Answer(status=200, content_type=content_type, body=hostile)
    for one, other in ((good, bad), (bad, good)):
        found = compare_pair(pair(one, other, path), plan)
        assert found is NotCompared.NO_POLICY or (isinstance(found, PairResult) and not found.ok)
        assert found is NotCompared.NO_POLICY or "9999" not in found.detail
    assert isinstance(compare_pair(pair(bad, replace(bad), path), plan), PairResult | NotCompared)


def test_numbers_of_json_are_compared_by_value_and_the_last_of_equal_keys_counts() -> None:
    """As the parsers of every client do."""
    same = [b'{"a": 0}', b'{"a": -0.0}', b'{"a": 1, "a": 0}', b'{"a": 0e5}']
    for one in same:
        for other in same:
            assert verdict(answer(one), answer(other), DEFAULT, "/rerank").ok
    assert not verdict(answer(b'{"a": 0}'), answer(b'{"a": 0, "a": 1}'), DEFAULT, "/rerank").ok


def test_what_is_too_large_to_compare_is_no_pair_unless_a_difference_was_found() -> None:
    """Not passed, not failed; a wrong status or a wrong place is a failure all the same."""
    many = b"[" + b",".join([b"[]"] * MAX_EFFORT)
    plain, spaced = answer(many + b"]"), answer(many + b" ]")
    assert compare_pair(pair(plain, spaced, "/rerank"), DEFAULT) is NotCompared.TOO_LARGE
    wrong = answer(b"[1" + many[3:] + b"]")
    assert verdict(plain, wrong, DEFAULT, "/rerank").kind is PairKind.DTYPE
    assert verdict(plain, answer(b"", 400), DEFAULT, "/rerank").kind is PairKind.STATUS


def test_answers_drawn_at_random_form_no_pair_unless_the_policy_says_so() -> None:
    """Two tries differ and nobody is to blame. A refusal is not drawn."""
    drawn = Answer(status=200, content_type="application/json", body=chat(content="a"), drawn=True)
    other = answer(chat(content="b"))
    fields = [{"path": "choices[*].message.content", "rule": "token_prefix", "tokens_min": 1}]
    anyway = field_plan(openai_chat={"fields": fields, "sampled": True})
    for plan in (DEFAULT, PLAN):
        assert compare_pair(pair(drawn, other, CHAT), plan) is NotCompared.SAMPLED
        assert compare_pair(pair(other, drawn, CHAT), plan) is NotCompared.SAMPLED
        assert verdict(drawn, answer(b"", 400), plan, CHAT).kind is PairKind.STATUS
    assert verdict(drawn, other, anyway, CHAT).kind is PairKind.TOLERANCE
    assert not verdict(replace(drawn, drawn=False), other, DEFAULT, CHAT).ok


def outputs_of(*declared: Any, binary: bytes = b"") -> Any:
    """What the core is given of an answer with tensors behind its JSON."""
    return document(ContentKind.INFER, framed(infer(*declared), binary))["outputs"]


def test_tensors_behind_the_json_are_joined_to_their_outputs() -> None:
    """In the order of the JSON; floats as float64, so that both arms are compared in it."""
    found = outputs_of(
        {"name": "b", "datatype": "BF16", "shape": [2], "parameters": {"binary_data_size": 4}},
        {"name": "a", "datatype": "INT64", "shape": [1, 2], "data": [[1, 2]]},
        {"name": "c", "datatype": "BOOL", "shape": [1], "parameters": {"binary_data_size": 1}},
        {"name": "d", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": 6}},
        binary=b"\xc0\x3f\x00\xc0" + b"\x02" + b"\x02\0\0\0ab",
    )
    assert found[0]["data"].values.tolist() == [1.5, -2.0]
    assert found[0]["data"].values.dtype == np.float64
    assert found[1]["data"] == [[1, 2]]
    assert (found[2]["data"].values.tolist(), found[3]["data"].values.tolist()) == ([True], [b"ab"])


@pytest.mark.parametrize(
    ("declared", "binary"),
    [
        ([{"name": "a", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": 9}}], b"1234"),
        ([{"name": "a", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": -1}}], b"1234"),
        ([{"name": "a", "datatype": "FP32", "shape": [1], "parameters": {"binary_data_size": True}}], b"1234"),
        ([{"name": "a", "datatype": "FP32", "shape": [1], "data": [1.0]}], b"1234"),
        ([5], b"1234"),
    ],
)
def test_sizes_that_do_not_add_up_leave_no_output(declared: list[Any], binary: bytes) -> None:
    """Nobody knows whose bytes are whose."""
    found = outputs_of(*declared, binary=binary)
    assert isinstance(found, Unreadable)
    assert found.kind is PairKind.UNDECODABLE


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ({"datatype": "FP32", "shape": [2]}, PairKind.SHAPE),
        ({"datatype": "FP32", "shape": [-1]}, PairKind.SHAPE),
        ({"datatype": "float32", "shape": [1]}, PairKind.DTYPE),
        ({"datatype": "BYTES", "shape": [1]}, PairKind.UNDECODABLE),
        ({"datatype": 5, "shape": [1]}, PairKind.UNDECODABLE),
        ({"datatype": "FP32", "shape": "1"}, PairKind.UNDECODABLE),
    ],
)
def test_a_tensor_that_is_not_as_declared_is_unreadable_alone(declared: Any, kind: PairKind) -> None:
    """By what of it is wrong; the others can still be compared."""
    good = {"name": "g", "datatype": "UINT8", "shape": [1], "parameters": {"binary_data_size": 1}}
    found = outputs_of({"name": "a", **declared, "parameters": {"binary_data_size": 4}}, good, binary=b"\xff\0\0\0\7")
    assert isinstance(found[0]["data"], Unreadable)
    assert found[0]["data"].kind is kind
    assert found[1]["data"].values.tolist() == [7]
