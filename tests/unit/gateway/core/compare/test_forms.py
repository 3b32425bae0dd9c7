"""Values of a document by their type."""

from typing import Any

import pytest

from gateway.core.compare.forms import Form


def read(method: str, value: Any) -> tuple[object, list[str]]:
    problems: list[str] = []
    form = Form({"x": value}, "at", problems, ("x",))
    return getattr(form, method)(*(("x", False) if method == "flag" else ("x",))), problems


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("flag", True), ("number", 1), ("number", 0.5), ("number", 10**400), ("whole", -3), ("list", [1]),
        ("texts", []),
    ],
)  # fmt: skip
def test_what_is_of_its_type_is_read(method: str, value: Any) -> None:
    """As it is written."""
    found, problems = read(method, value)
    assert problems == []
    assert found == (tuple(value) if method == "texts" else value)


@pytest.mark.parametrize(
    ("method", "value", "problem"),
    [
        ("flag", "no", "at.x: 'no' must be true or false"),
        ("flag", 0, "at.x: 0 must be true or false"),
        ("number", True, "at.x: True must be a number"),
        ("number", "1", "at.x: '1' must be a number"),
        ("number", float("nan"), "at.x: nan must be a number"),
        ("number", float("inf"), "at.x: inf must be a number"),
        ("whole", 2.0, "at.x: 2.0 must be a whole number, without a point"),
        ("list", "abc", "at.x: 'abc' must be a list"),
        ("texts", ["a", 1], "at.x[1]: 1 must be a text"),
        ("one_path", None, "at.x: None must be a path, written like data[*].embedding"),
        ("paths", ["a", "a..b"], "at.x: 'a..b': not understood from character 2 on"),
        ("list", "x" * 5000, "at.x: 'xxx"),
    ],
)
def test_nothing_else_is(method: str, value: Any, problem: str) -> None:
    """Path, value and what is allowed, however long the value is."""
    _, problems = read(method, value)
    assert len(problems) == 1
    assert problems[0].startswith(problem)
    assert len(problems[0]) < 250


def test_unknown_names_missing_ones_and_what_is_no_object() -> None:
    """Each is a problem of its own, and reading goes on."""
    problems: list[str] = []
    form = Form({"y": 1}, "", problems, ("x", "z"))
    assert form.whole("x") is None
    assert Form([1], "in", problems, ()).list("a") == []
    assert problems == [
        "y: unknown; x, z can be given",
        "x: missing, must be a whole number, without a point",
        "in: [1] must be an object",
    ]
