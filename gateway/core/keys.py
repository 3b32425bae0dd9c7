"""How many keys there are and how heavy the heaviest is, in bounded memory and without the keys themselves.

A key is told by a 64-bit hash that nobody outside can make (split.fingerprint). Distinct hashes are kept exactly up to
``MOST_KEYS``; beyond it there are at least so many. The heavy ones are counted as Misra and Gries do (Finding repeated
elements, 1982) with ``MOST_HEAVY`` counters: of n requests a counter never says more than there were, and at most
n / (MOST_HEAVY + 1) less. Merged summaries keep that bound, whatever was merged with what (Agarwal and others,
Mergeable summaries, 2012), though not always the same counters.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

MOST_KEYS: Final = 1024
"""Distinct keys that are kept of one arm; far more than any rule asks for."""
MOST_HEAVY: Final = 64


class KeyCounts:
    """The keys of some requests. ``heavy``: for each of the heaviest, requests that it is known to have."""

    __slots__ = ("hashes", "heavy", "requests")

    def __init__(self) -> None:
        self.requests = 0
        self.hashes: set[int] = set()
        self.heavy: dict[int, int] = {}

    def add(self, key: int) -> None:
        """One request of the key with this hash."""
        self.requests += 1
        if len(self.hashes) < MOST_KEYS:
            self.hashes.add(key)
        heavy = self.heavy
        if key in heavy:
            heavy[key] += 1
        elif len(heavy) < MOST_HEAVY:
            heavy[key] = 1
        else:  # this request cancels one of each: so often as there were that many, which bounds error and work
            self._lower(1)

    def merge(self, requests: int, hashes: Iterable[int], heavy: Iterable[tuple[int, int]]) -> None:
        """Adds the requests of another summary. A key that both have seen is one key."""
        self.requests += requests
        for key in hashes:
            if len(self.hashes) >= MOST_KEYS:
                break
            self.hashes.add(key)
        for key, n in heavy:
            self.heavy[key] = self.heavy.get(key, 0) + n
        if len(self.heavy) > MOST_HEAVY:
            self._lower(sorted(self.heavy.values(), reverse=True)[MOST_HEAVY])

    @property
    def is_full(self) -> bool:
        """There may be more distinct keys than are kept."""
        return len(self.hashes) >= MOST_KEYS

    @property
    def heaviest(self) -> tuple[int, int]:
        """(at least, at most) so many requests has the heaviest key; equal while every request is in a counter."""
        least = max(self.heavy.values(), default=0)
        return least, least + (self.requests - sum(self.heavy.values())) // (MOST_HEAVY + 1)

    def checkpoint(self) -> dict[str, object]:
        """The same for equal counts, however they came about: states are told apart by what they say."""
        return {"requests": self.requests, "hashes": sorted(self.hashes), "heavy": sorted(self.heavy.items())}

    def _lower(self, by: int) -> None:
        self.heavy = {key: n - by for key, n in self.heavy.items() if n > by}


def resume_keys(saved: Mapping[str, Any]) -> KeyCounts:
    """The counts of a checkpoint. KeyError, TypeError or ValueError when it is not one."""
    keys = KeyCounts()
    keys.merge(
        int(saved["requests"]),
        (int(key) for key in saved["hashes"]),
        ((int(key), int(n)) for key, n in saved["heavy"]),
    )
    return keys
