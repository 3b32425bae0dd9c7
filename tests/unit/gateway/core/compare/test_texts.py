"""How far two texts agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.compare.content import Tensor
from gateway.core.compare.result import Figure, PairKind
from gateway.core.compare.rules import TokenPrefix, Unit
from gateway.core.compare.texts import token_prefix

HALF = TokenPrefix(share_min=0.5)
CHARACTERS = TokenPrefix(share_min=0.5, unit=Unit.CHARACTER)


@pytest.mark.parametrize(
    ("rule", "left", "right", "share", "agreed"),
    [
        (HALF, "a b c d", "a b c d", 1.0, None),
        (HALF, "a b c d", "a b x d", 0.5, 2),
        (HALF, "a b c d", "a b", 0.5, 2),
        (HALF, "a b", "a b c d e", 0.4, 2),
        (HALF, "", "", 1.0, None),
        (HALF, "", "a", 0.0, 0),
        (HALF, "a  b", "a b", 0.5, 1),
        (HALF, "a b ", "a b", 2 / 3, 2),
        (CHARACTERS, "日本語", "日本人", 2 / 3, 2),
        (CHARACTERS, "é", "e", 0.0, 0),
        (HALF, [1, 2, 3, 4], [1, 2, 9, 4], 0.5, 2),
        (HALF, [], [], 1.0, None),
        (HALF, None, None, 1.0, None),
    ],
)
def test_agreeing_prefix(rule: TokenPrefix, left: object, right: object, share: float, agreed: int | None) -> None:
    """Share of the longer one, white space included; equal texts of any length agree wholly."""
    outcome = token_prefix(rule, left, right)
    assert outcome.figures[Figure.PREFIX_SHARE] == pytest.approx(share)
    assert outcome.figures.get(Figure.PREFIX_TOKENS) == agreed
    assert outcome.ok is (share >= 0.5)


def test_an_absolute_prefix_does_not_punish_short_answers() -> None:
    """Equal answers pass however short; others must agree on the first tokens."""
    rule = TokenPrefix(tokens_min=8)
    assert token_prefix(rule, "yes", "yes").ok
    outcome = token_prefix(rule, "one two three", "one two four")
    assert outcome.text == "agrees on the first 2 words of 3 (baseline) and 3 (candidate), must be at least 8"


def test_both_bounds_must_hold() -> None:
    """Share and count, each by itself."""
    rule = TokenPrefix(share_min=0.9, tokens_min=2)
    outcome = token_prefix(rule, [1, 2, 3], [1, 2, 4])
    assert outcome.text == (
        "agrees on the first 2 tokens of 3 (baseline) and 3 (candidate), a share of 0.666667, must be at least 0.9"
    )


@pytest.mark.parametrize(
    ("left", "right"),
    [("a", None), (None, "a"), ("a", [1]), (1, 1), ([1.5], [1.5]), ([[1]], [[1]]), (["a"], ["a"]), ({}, {})],
)
def test_what_is_no_text(left: object, right: object) -> None:
    """Text against nothing, or ids that are no whole numbers in one row."""
    outcome = token_prefix(HALF, left, right)
    assert outcome.kind is PairKind.DTYPE
    assert "token_prefix compares two texts" in outcome.text


def test_tensors_of_token_ids() -> None:
    """A protocol's integers are ids as well."""
    left, right = (Tensor("INT64", np.array(ids)) for ids in ([5, 6, 7], [5, 6, 8]))
    assert token_prefix(HALF, left, right).figures[Figure.PREFIX_TOKENS] == 2


def test_a_text_is_never_shown() -> None:
    """Only lengths and figures."""
    assert "secret" not in token_prefix(HALF, "secret one", "secrets two three").text


@given(st.text(), st.text())
def test_words_lose_nothing(left: str, right: str) -> None:
    """Whole agreement is equality, in either unit."""
    for unit in Unit:
        share = token_prefix(TokenPrefix(share_min=0.0, unit=unit), left, right).figures[Figure.PREFIX_SHARE]
        assert (share == 1.0) is (left == right)


@given(st.lists(st.integers(0, 2), max_size=8), st.lists(st.integers(0, 2), max_size=8))
def test_the_prefix_is_its_definition(left: list[int], right: list[int]) -> None:
    """The longest n for which the first n are equal."""
    agreed = max(n for n in range(min(len(left), len(right)) + 1) if left[:n] == right[:n])
    longer = max(len(left), len(right))
    figures = token_prefix(HALF, left, right).figures
    assert figures[Figure.PREFIX_SHARE] == (agreed / longer if longer else 1.0)
