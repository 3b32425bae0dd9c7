"""A request of more rows than one batch takes: cut into parts for several batches, and put together again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.core.types import TokenRows, last_kept


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a request; ``places`` are where they stand in it."""

    tokens: TokenRows
    places: tuple[int, ...]


def cut(tokens: TokenRows, rows_of: Callable[[int], int]) -> tuple[Part, ...]:
    """Parts of at most ``rows_of(width)`` rows, ``width`` being that of the part's longest row.

    Rows of like length go together, the longest first, so that little is padding.
    """
    widths = [len(row) for row in tokens.ids] if tokens.masks is None else [last_kept(mask) for mask in tokens.masks]
    order = sorted(range(tokens.count), key=lambda place: -widths[place])
    parts: list[Part] = []
    while order:
        rows = rows_of(widths[order[0]])
        parts.append(_part(tokens, tuple(order[:rows])))
        order = order[rows:]
    return tuple(parts)


def join(parts: Sequence[Part], shares: Sequence[bytes], row_bytes: int) -> bytes:
    """The rows of all parts in the order of the request."""
    rows: dict[int, bytes] = {}
    for part, share in zip(parts, shares, strict=True):
        for index, place in enumerate(part.places):
            rows[place] = share[index * row_bytes : (index + 1) * row_bytes]
    return b"".join(rows[place] for place in range(len(rows)))


def _part(tokens: TokenRows, places: tuple[int, ...]) -> Part:
    masks = None if tokens.masks is None else [tokens.masks[place] for place in places]
    return Part(TokenRows([tokens.ids[place] for place in places], masks, tokens.field), places)
