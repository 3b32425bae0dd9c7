"""Cutting and joining large requests."""

from array import array

from fakes.embeddings import embeddings
from hypothesis import given
from hypothesis import strategies as st

from server.core.parts import cut, join
from server.core.tensors import Raw, Rows
from server.core.types import TokenRows


def numbers(rows: Rows) -> dict[str, Raw]:
    """An answer that tells its row: the first id, twice."""
    assert isinstance(rows, TokenRows)
    return embeddings(array("f", [float(row[0]) for row in rows.ids for _ in range(2)]).tobytes())


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 8), st.booleans())
def test_parts_come_back_in_the_order_of_the_request(widths: list[int], rows: int, masked: bool) -> None:
    """Each row in exactly one part, none above its bound, whatever their lengths."""
    ids = [[place] * width for place, width in enumerate(widths)]
    tokens = TokenRows(ids, [[1] * width for width in widths] if masked else None)
    parts = cut(tokens, lambda sizes: rows)
    assert all(part.rows.count <= rows for part in parts)
    assert sorted(place for part in parts for place in part.places) == list(range(len(widths)))
    assert join(parts, [numbers(part.rows) for part in parts]) == numbers(tokens)


def test_rows_of_like_length_go_together() -> None:
    """The longest first, in parts as large as their width allows; the caller's own padding is no length."""
    tokens = TokenRows([[1] * 2, [2] * 9, [3] * 2, [4] * 9], [[1] * 2, [1] * 9, [1] * 2, [1, *[0] * 8]])
    parts = cut(tokens, lambda sizes: 1 if sizes[0] > 8 else 4)
    assert [part.places for part in parts] == [(1,), (0, 2, 3)]
