"""Whether the keys of one step are enough of a crowd to judge by, where requests are split by a key of theirs.

The decision rule counts requests as if each had been drawn by itself. With a sticky key whole clients are drawn: few of
them, or one that dominates, make the arms differ by luck alone. (Simulated: 30 keys on identical arms gave 22 false
rollbacks in 113 runs, the split by request none in 120.) So such a step is not passed; rollback rules do not wait for
it. Keys are those of both arms together, of live requests; copies bring no key of their own.
"""

from collections.abc import Mapping
from typing import Any, Final

from gateway.core.findings import Gap, percent
from gateway.core.keys import KeyCounts, resume_keys
from gateway.core.types import Role

MIN_KEYS: Final = 200
MOST_SHARE: Final = 0.2


class StepKeys:
    """The keys of the present step. Without a sticky key there is nothing in here and nothing comes of it."""

    def __init__(self) -> None:
        self.sticky = False
        self._arms: dict[Role, KeyCounts] = {}

    def start(self, *, sticky: bool) -> None:
        """A step begins: its keys start over."""
        self.sticky = sticky
        self._arms = {role: KeyCounts() for role in Role} if sticky else {}

    def add(self, keys: Mapping[Role, KeyCounts]) -> None:
        """Adds those of a window of this step."""
        if self.sticky:
            for role, counts in keys.items():
                self._arms[role].merge(counts.requests, counts.hashes, counts.heavy.items())

    def gaps(self) -> list[Gap]:
        """Too few keys, or one that may be too heavy: a step is passed only where both are known to be in order."""
        if not self.sticky:
            return []
        keys = self._together()
        if len(keys.hashes) >= MIN_KEYS and keys.heaviest[1] <= MOST_SHARE * keys.requests:
            return []
        text = (
            f"keys: {_distinct(keys)} distinct in this step, needs at least {MIN_KEYS};"
            f" the largest has {_share_text(keys)}, may have at most {percent(MOST_SHARE)}"
        )
        return [Gap(reason="too_few_keys", text=text)]

    def notes(self) -> list[str]:
        """What a reader of the verdict must know beside the numbers."""
        if not self.sticky:
            return []
        arms = ", ".join(f"{role} {_distinct(counts)}" for role, counts in self._arms.items())
        return [f"split by key; distinct keys in this step: {arms}; the largest has {_share_text(self._together())}"]

    def _together(self) -> KeyCounts:
        """Of both arms; a key that changed its arm while the step began is one key."""
        both = KeyCounts()
        for counts in self._arms.values():
            both.merge(counts.requests, counts.hashes, counts.heavy.items())
        return both

    def checkpoint(self) -> dict[str, object]:
        return {str(role): counts.checkpoint() for role, counts in self._arms.items()}

    def restore(self, saved: Mapping[str, Any] | None) -> None:
        """None: requests were not split by key. KeyError, TypeError or ValueError when it is no checkpoint."""
        self.sticky = saved is not None
        self._arms = {role: resume_keys(saved[role]) for role in Role} if saved is not None else {}


def _distinct(keys: KeyCounts) -> str:
    return f"{'at least ' if keys.is_full else ''}{len(keys.hashes):,}"


def _share_text(keys: KeyCounts) -> str:
    """``85 of 384 live requests (22.1 %)``, or from how many to how many."""
    if not keys.requests:
        return "none of 0 live requests"
    least, most = keys.heaviest
    share = percent(most / keys.requests)
    if least < most:
        return f"{least:,} to {most:,} of {keys.requests:,} live requests ({percent(least / keys.requests)} to {share})"
    return f"{most:,} of {keys.requests:,} live requests ({share})"
