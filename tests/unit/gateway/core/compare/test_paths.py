"""The path grammar and what paths name."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.paths import MAX_LENGTH, MAX_STEPS, Path, PathError, Sightings, Step, parse, show


def names(path: str, *place: Step) -> bool:
    """The path names exactly this place."""
    paths = (parse(path),)
    seen = Sightings(paths)
    for step in place:
        seen = seen.after(paths, step)
    return seen.ends == (0,)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("id", ("id",)),
        ("usage.*", ("usage", "total_tokens")),
        ("data[*].embedding", ("data", 7, "embedding")),
        ("choices[0].message.content", ("choices", 0, "message", "content")),
        ("[*][1].x", (3, 1, "x")),
        ('outputs."odd name"', ("outputs", "odd name")),
        (r'"a\"b".c', ('a"b', "c")),
        ('"naïve 日本"', ("naïve 日本",)),
        ("*.*", ("a", "b")),
        ("x-y_9", ("x-y_9",)),
    ],
)
def test_a_path_names_its_place(path: str, place: tuple[Step, ...]) -> None:
    """Keys, indices, both wildcards and quoted keys."""
    assert names(path, *place)
    assert str(parse(path)) == path


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("id", ("Id",)),
        ("usage.*", ("usage",)),
        ("usage.*", ("usage", "a", "b")),
        ("usage.*", ("usage", 0)),
        ("data[*]", ("data", "0")),
        ("data[1]", ("data", 0)),
        ("data[1]", ("data", True)),
        ('data."1"', ("data", 1)),
    ],
)
def test_a_path_names_no_other_place(path: str, place: tuple[Step, ...]) -> None:
    """Neither above nor below it, nor an index for a key; true is not index 1."""
    assert not names(path, *place)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        ".a",
        "a.",
        "a..b",
        "a[",
        "a[]",
        "a[-1]",
        "a[1.5]",
        "[*]a",
        "a b",
        "a.[0]",
        "1a",
        '"a',
        "a**",
        "$.a",
        "ü",
    ],
)
def test_what_is_no_path_is_refused(text: str) -> None:
    """The message shows the text and how a path is written."""
    with pytest.raises(PathError, match=r"data\[\*\]\.embedding"):
        parse(text)


def test_bounds_of_a_path() -> None:
    """A path is bounded in length and in steps."""
    assert len(parse("a" + "[*]" * (MAX_STEPS - 1)).steps) == MAX_STEPS
    with pytest.raises(PathError, match=f"{MAX_STEPS + 1} steps, at most {MAX_STEPS}"):
        parse("a" + "[*]" * MAX_STEPS)
    with pytest.raises(PathError, match="512 characters"):
        parse("a" * (MAX_LENGTH + 1))


def test_a_bad_escape_in_a_quoted_key_is_refused() -> None:
    """A quoted key is written as JSON writes a text."""
    with pytest.raises(PathError, match="as JSON writes a text"):
        parse(r'"\q"')


def test_sightings_tell_ends_from_what_lies_below() -> None:
    """Several paths at once, in their order."""
    paths = (parse("a.b"), parse("a"), parse("a.*"), parse("c"))
    at_a = Sightings(paths).after(paths, "a")
    assert (at_a.ends, at_a.below(), at_a.leads_on) == ((1,), (0, 2), True)
    at_b = at_a.after(paths, "b")
    assert (at_b.ends, at_b.leads_on) == ((0, 2), False)
    assert at_b.after(paths, "x").ends == ()


def test_only_schema_keys_are_shown() -> None:
    """A key may be a client's text; those of the protocols and of the policy are not."""
    assert show(("choices", 0, "message", "Mr. Smith's diagnosis")) == "choices[0].message.?"
    assert show(("mine", 3), frozenset({"mine"})) == "mine[3]"
    assert show(()) == "the whole answer"


@given(st.lists(st.one_of(st.text(max_size=6), st.integers(0, 10**9 - 1)), min_size=1, max_size=6))
def test_every_place_can_be_named(place: list[Step]) -> None:
    """Any keys whatever, quoted, and any index make a path that names that place alone."""
    import json

    text = "".join(
        f"[{step}]" if isinstance(step, int) else ("." if i else "") + json.dumps(step) for i, step in enumerate(place)
    )
    assert isinstance(parse(text), Path)
    assert names(text, *place)
    assert not names(text, *place, "more")
