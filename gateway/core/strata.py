"""Strata: classes of requests by the size of their body, so that a fault of one kind of request cannot hide in all.

A class is a property of the request alone and the same for both arms, for copies and for pairs; nothing of an answer
enters it. Edges are bytes: with edges 512 and 4096 a body of 512 bytes is in the first class, one of 4097 in the last.
"""

import itertools
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

MOST_STRATA: Final = 8
MOST_EDGES: Final = MOST_STRATA - 1


def stratum_of(edges: Sequence[int], length: int | None) -> int:
    """The class of a body of ``length`` bytes; None (streamed, its length not known) is in the last."""
    return len(edges) if length is None else bisect_left(edges, length)


def count_of(edges: Sequence[int]) -> int:
    """How many classes these edges make; none at all without edges."""
    return len(edges) + 1 if edges else 0


def names_of(edges: Sequence[int]) -> tuple[str, ...]:
    """What people call each class: ``up to 512 B``, ``513 to 4096 B``, ``above 4096 B``; empty without edges."""
    if not edges:
        return ()
    between = (f"{low + 1} to {high} B" for low, high in itertools.pairwise(edges))
    return (f"up to {edges[0]} B", *between, f"above {edges[-1]} B")


def in_requests(name: str | None) -> str:
    """`` in requests above 4096 B``, to be put behind a metric's name; empty for all requests together."""
    if not name:
        return ""
    return f" in requests {name}" if name.startswith("above") else f" in requests of {name}"


def edge_problems(edges: Sequence[int]) -> list[str]:
    """What is wrong with a plan's edges: field, value, what is allowed."""
    problems = []
    if len(edges) > MOST_EDGES:
        problems.append(f"strata.edges: {len(edges)} edges make {len(edges) + 1} classes; at most {MOST_EDGES} edges")
    if any(edge < 1 for edge in edges):
        problems.append(f"strata.edges: {list(edges)} must be 1 byte or more")
    if any(high <= low for low, high in itertools.pairwise(edges)):
        problems.append(f"strata.edges: {list(edges)} must rise")
    return problems
