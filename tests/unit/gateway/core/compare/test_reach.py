"""What a path can name, and what it leaves to others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.paths import Path, parse
from gateway.core.compare.policy import ContentKind
from gateway.core.compare.reach import covers, dead_end, unfit_types


@pytest.mark.parametrize(
    ("one", "other", "is_covered"),
    [
        ("a", "a", True),
        ("a", "a.b[3]", True),
        ("*", "a", True),
        ("a[*].b", "a[2].b.c", True),
        ("a[*]", "a[*]", True),
        ("a", "*", False),
        ("a[2]", "a[*]", False),
        ("*", "[*]", False),
        ("[*]", "a", False),
        ("a.b", "a", False),
        ('"1"', "[1]", False),
    ],
)
def test_a_path_covers_what_it_names_and_what_lies_below(one: str, other: str, is_covered: bool) -> None:
    """Any key is no index, and any index no key."""
    assert covers(parse(one), parse(other)) is is_covered


@pytest.mark.parametrize("kind", ContentKind)
@pytest.mark.parametrize("path", ["id", "*", "usage.total_tokens", "*.*", "extra[0].deep.*[*]"])
def test_what_nobody_knows_may_be(kind: ContentKind, path: str) -> None:
    """Servers add fields of their own."""
    assert dead_end(kind, parse(path)) is None


def test_json_may_be_anything() -> None:
    """A list at the root, and whatever the known protocols do not have."""
    assert dead_end(ContentKind.JSON, parse("[0].outputs[1]")) is None
    assert all(dead_end(kind, parse("[0]")) for kind in ContentKind if kind is not ContentKind.JSON)


def test_types_only_where_tensors_are() -> None:
    """Embeddings are FP32; outputs of any declared type."""
    assert unfit_types("oip_infer", parse("*.scores"), ("FP16", "number")) == ["number"]
    assert unfit_types("oip_infer", parse("outputs"), ("FP16",)) == ["FP16"]
    assert unfit_types("openai_embeddings", parse("data[0].embedding"), ("FP16", "FP32")) == ["FP16"]


steps = st.lists(st.sampled_from(["a", "b", "*"]), min_size=1, max_size=4)


@given(steps, steps, steps)
def test_covering_is_an_order(a: list[str], b: list[str], c: list[str]) -> None:
    """A path covers itself, and what is covered by the covered."""
    first, second, third = (parse(".".join(each)) for each in (a, b, c))
    assert covers(first, first)
    if covers(first, second) and covers(second, third):
        assert covers(first, third)
    if covers(first, second) and covers(second, first):
        assert first == second == Path(first.text, second.steps)
