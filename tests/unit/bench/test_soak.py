"""What the soak asks, and what it takes for a right answer."""

import json
from collections import Counter
from typing import Any

import numpy as np
import pytest

from bench.soak import BATCHES, LENGTHS, Report
from bench.soak_questions import SHARES, Pool, Question, Wrong, check

POOL = Pool(BATCHES, LENGTHS)
KNOWN = np.arange(len(POOL.rows) * 4, dtype=np.float32).reshape(-1, 4) / 1000


def right(question: Question, **changes: Any) -> tuple[dict[str, str], bytes]:
    """Headers and body of the right answer as numbers in JSON."""
    rows = changes.get("rows", question.rows)
    data = [{"index": index, "embedding": KNOWN[row].tolist()} for index, row in enumerate(rows)]
    headers = {"x-request-id": f"soak-{question.number}", "x-canary-compiles": "0", "x-canary-rows": str(len(rows))}
    return headers | changes.get("headers", {}), json.dumps({"data": data}).encode()


def embedding_question() -> Question:
    """Of several different rows, in OpenAI's form, numbers asked for."""
    questions = map(POOL.question, range(1000))
    return next(each for each in questions if each.datatype is None and not each.raw and len(set(each.rows)) > 2)


def test_the_first_questions_fill_every_declared_shape() -> None:
    """Exactly, whatever is drawn later."""
    asked = [POOL.question(number) for number in range(len(BATCHES) * len(LENGTHS))]
    shapes = set()
    for question in asked:
        longest = max(POOL.rows[row].length for row in question.rows)
        shapes.add((len(question.rows), next(length for length in LENGTHS if length >= longest)))
    assert shapes == {(batch, length) for batch in BATCHES for length in LENGTHS}


def test_a_number_is_always_the_same_question_and_every_kind_comes() -> None:
    """In about its share; both protocols, bytes and JSON, all number formats."""
    asked = [POOL.question(number) for number in range(2000)]
    assert asked[:50] == [POOL.question(number) for number in range(50)]
    kinds = Counter(kind for question in asked for kind in question.kinds)
    for name, share in SHARES.items():
        assert 0.5 * share < kinds[name] / 2000 < 2 * share
    assert {question.datatype for question in asked} == {None, "FP32", "FP16", "BF16"}
    assert {"inference-header-content-length" in question.headers for question in asked} == {True, False}
    assert max(len(question.rows) for question in asked) == 3 * BATCHES[-1]


def test_the_right_answer_is_right() -> None:
    question = embedding_question()
    check(question, *right(question), KNOWN)


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"headers": {"x-request-id": "soak-x"}}, "another request's id"),
        ({"headers": {"x-canary-compiles": "1"}}, "x-canary-compiles is 1"),
        ({"headers": {"x-canary-rows": "99"}}, "x-canary-rows is 99"),
        ({"reversed": True}, "off by"),
    ],
)
def test_a_wrong_answer_is_found(changes: dict[str, Any], part: str) -> None:
    """Another's, one that met a compile, and rows in another order."""
    question = embedding_question()
    rows = question.rows[::-1] if changes.get("reversed") else question.rows
    with pytest.raises(Wrong, match=part):
        check(question, *right(question, rows=rows, **changes), KNOWN)


def test_a_report_without_problems_has_everything_at_its_place() -> None:
    """And each of them is told by its name."""
    buckets = {f"{batch}x{length}": 1 for batch in BATCHES for length in LENGTHS}
    good: dict[str, Any] = {
        "answers": Counter({200: 9, 0: 1}), "buckets": buckets, "compiles": 0, "waiting": 0, "restarts": 0,
        "grown": {"front": 1 << 20}, "code": 0,
    }  # fmt: skip
    assert Report(10, **good).problems() == []
    for changed, part in (
        ({"answers": Counter({200: 9})}, "9 of 10 requests"),
        ({"buckets": {**buckets, "4x32": 0}}, "never run: 4x32"),
        ({"compiles": 1}, "compiles after warm-up: 1"),
        ({"waiting": 2}, "rows still waiting: 2"),
        ({"grown": {"front": 64 << 20}}, "front grew by 64 MiB"),
        ({"code": 1}, "exit code: 1"),
        ({"wrong": ["request 3"] * 7}, "and 2 more"),
    ):
        assert any(part in problem for problem in Report(10, **{**good, **changed}).problems())
