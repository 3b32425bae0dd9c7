"""Pairs of answers: given away to be compared, and booked when it is known what came of them."""

from collections import Counter
from collections.abc import Callable
from typing import Final, Protocol

from gateway.core.compare.parity import ParityStats
from gateway.core.compare.result import NotCompared, PairResult
from gateway.core.evidence import Evidence
from gateway.core.floor import Floor
from gateway.core.plan import Plan
from gateway.core.snapshot import Pair
from gateway.core.types import Lane

Found = PairResult | NotCompared | None
"""What came of a pair; None: its two answers form none."""
Compare = Callable[[Pair, Plan, Callable[[Found], None]], bool]
"""Takes a pair to be compared, now or beside the loop, and says on the loop what came of it. False: no room."""

_NOTES: Final = {
    NotCompared.TOO_LARGE: "have more places than are compared",
    NotCompared.QUEUE_FULL: "came faster than they can be compared",
    NotCompared.SAMPLED: "were drawn at random (temperature above 0, no seed)",
    NotCompared.NO_POLICY: "are of a kind that the plan does not compare",
    NotCompared.FAILED: "met an error of the gateway's own, see its log",
}


class Lifelong(Protocol):
    """Counters that only rise, whatever the epoch."""

    pairs: int
    pairs_bad: int
    late_events: int
    not_compared: Counter[NotCompared]


class Pairs:
    """``stats`` is what was compared, ``not_compared`` what was not, and why."""

    def __init__(self, compare: Compare, ever: Lifelong) -> None:
        """``begin`` comes before the first pair."""
        self._compare = compare
        self._ever = ever

    def begin(self, evidence: Evidence) -> None:
        """Counting begins again. What is still being compared is nobody's evidence, and changes no figure."""
        self._evidence = evidence
        self._seen: dict[int, set[bytes]] = {}
        self.stats = ParityStats()
        self.not_compared: Counter[NotCompared] = Counter()

    def take(self, pair: Pair, plan: Plan) -> None:
        """Has both answers to one request compared; identical bodies within a window count once."""
        if self._is_late(pair):
            return
        seen = self._seen.setdefault(pair.window, set())
        if pair.body_hash in seen:
            return
        seen.add(pair.body_hash)
        evidence = self._evidence
        evidence.await_pair(pair.window)
        if not self._compare(pair, plan, lambda found: self._book(evidence, pair, found)):
            seen.discard(pair.body_hash)  # another like it may find room
            self._book(evidence, pair, NotCompared.QUEUE_FULL)

    def take_noise(self, pair: Pair, plan: Plan, floor: Floor) -> None:
        """Has two answers of the baseline to one request compared, as far as the noise floor still wants pairs."""

        def found(result: Found) -> None:
            if isinstance(result, PairResult):
                floor.add(pair.request_id, result)

        if floor.wants(pair.window, pair.body_hash):
            self._compare(pair, plan, found)

    def forget(self, window: int) -> None:
        """The window is closed: what it saw need not be remembered."""
        self._seen.pop(window, None)

    def notes(self) -> tuple[str, ...]:
        """In words how many pairs were not compared, and why: nothing that was left out passes for compared."""
        return tuple(
            f"{n} {'pair' if n == 1 else 'pairs'} not compared: the answers {_NOTES[why]}"
            for why, n in sorted(self.not_compared.items())
        )

    def _book(self, evidence: Evidence, pair: Pair, found: Found) -> None:
        evidence.settle_pair(pair.window)
        if found is None or evidence is not self._evidence:
            return
        if isinstance(found, NotCompared):
            self.not_compared[found] += 1
            self._ever.not_compared[found] += 1
            return
        if self._is_late(pair):  # comparing it took longer than an answer may
            return
        self.stats.add(pair.request_id, found)
        self._ever.pairs += 1
        self._ever.pairs_bad += int(not found.ok)
        evidence.add_pair(epoch=pair.epoch, window=pair.window, lane=Lane.COPY, bad=not found.ok, stratum=pair.stratum)

    def _is_late(self, pair: Pair) -> bool:
        late = pair.window < self._evidence.next_window
        self._ever.late_events += int(late)
        return late
