"""A request of more rows than one batch takes: cut into parts for several batches, and put together again."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from server.core.tensors import Raw, Rows, TensorRows, Tensors, joined
from server.core.types import TokenRows, last_kept


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a request; ``places`` are where they stand in it."""

    rows: Rows
    places: tuple[int, ...]


def cut(rows: Rows, rows_of: Callable[[tuple[int, ...]], int]) -> tuple[Part, ...]:
    """Parts of at most ``rows_of(sizes)`` rows, ``sizes`` being those of the part.

    Tokens of like length go together, the longest first, so that little is padding.
    """
    return _tokens(rows, rows_of) if isinstance(rows, TokenRows) else _tensors(rows, rows_of(rows.sizes))


def join(parts: Sequence[Part], shares: Sequence[Tensors]) -> dict[str, Raw]:
    """The rows of all parts in the order of the request."""
    return {name: _in_order(parts, [share[name] for share in shares]) for name in shares[0]}


def _in_order(parts: Sequence[Part], shares: Sequence[Raw]) -> Raw:
    rows: dict[int, Raw] = {}
    for part, share in zip(parts, shares, strict=True):
        for index, place in enumerate(part.places):
            rows[place] = share.rows(index, index + 1)
    return joined([rows[place] for place in range(len(rows))])


def _tensors(rows: TensorRows, most: int) -> tuple[Part, ...]:
    starts = range(0, rows.count, most)
    ends = [min(start + most, rows.count) for start in starts]
    return tuple(Part(rows.rows(start, end), tuple(range(start, end))) for start, end in zip(starts, ends, strict=True))


def _tokens(tokens: TokenRows, rows_of: Callable[[tuple[int, ...]], int]) -> tuple[Part, ...]:
    widths = [len(row) for row in tokens.ids] if tokens.masks is None else [last_kept(mask) for mask in tokens.masks]
    order = sorted(range(tokens.count), key=lambda place: -widths[place])
    parts: list[Part] = []
    while order:
        rows = rows_of((widths[order[0]],))
        parts.append(_part(tokens, tuple(order[:rows])))
        order = order[rows:]
    return tuple(parts)


def _part(tokens: TokenRows, places: tuple[int, ...]) -> Part:
    masks = None if tokens.masks is None else [tokens.masks[place] for place in places]
    return Part(TokenRows([tokens.ids[place] for place in places], masks, tokens.field), places)
