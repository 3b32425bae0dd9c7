"""Token rows are checked once, at the border."""

import pytest

from server.core.types import BadRequest, TokenRows, last_kept


def test_width_and_tokens_count_every_token_without_a_mask() -> None:
    """The longest row sets the width; usage counts all."""
    rows = TokenRows([[1, 2, 3], [4]])
    assert (rows.count, rows.width, rows.tokens) == (2, 3, 4)


def test_width_leaves_out_the_callers_own_padding() -> None:
    """Columns at the end that every mask drops do not count; holes inside do."""
    rows = TokenRows([[1, 2, 3, 0], [4, 0, 0, 0]], [[1, 0, 1, 0], [1, 0, 0, 0]])
    assert (rows.count, rows.width, rows.tokens) == (2, 3, 3)


@pytest.mark.parametrize(
    ("ids", "masks", "part"),
    [
        ([], None, "no rows"),
        ([[1], []], None, "without tokens"),
        ([[1]], [[1], [1]], "2 rows for 1"),
        ([[1, 2]], [[1]], "1 values for 2 tokens"),
        ([[1, 2]], [[1, 2]], "other than 0 and 1"),
        ([[1, 2]], [[0, 0]], "keeps no token"),
    ],
)
def test_rows_that_no_model_can_answer_cannot_be_built(
    ids: list[list[int]], masks: list[list[int]] | None, part: str
) -> None:
    """Each refusal says what is wrong."""
    with pytest.raises(BadRequest, match=part):
        TokenRows(ids, masks)


@pytest.mark.parametrize("token", [-1, 100])
def test_a_token_outside_the_vocabulary_is_refused(token: int) -> None:
    """A device does not check the index; the host does, and names the value and the bounds."""
    with pytest.raises(BadRequest, match=f"got token id {token}, allowed are 0 to 99"):
        TokenRows([[5, token]]).check_vocabulary(100)


def test_errors_name_the_field_of_the_callers_protocol() -> None:
    """The same rows are input in one protocol and input_ids in the other."""
    with pytest.raises(BadRequest, match="input_ids: got token id 100") as refused:
        TokenRows([[100]], field="input_ids").check_vocabulary(100)
    assert refused.value.param == "input_ids"
    with pytest.raises(BadRequest, match="input_ids: got a row without tokens"):
        TokenRows([[]], field="input_ids")


def test_the_edges_of_the_vocabulary_are_allowed() -> None:
    """First and last id pass."""
    TokenRows([[0, 99]]).check_vocabulary(100)


def test_last_kept_of_an_empty_mask_is_zero() -> None:
    """No position is kept, so there is no last one."""
    assert last_kept([0, 0]) == 0
