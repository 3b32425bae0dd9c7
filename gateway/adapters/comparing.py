"""Compares pairs beside the control loop: a pair may take a fraction of a second, and the loop has a rollback to do.

One thread, since Python runs one at a time; the interpreter takes it off the processor every few milliseconds. What
waits is bounded in pairs and in bytes, and what is beyond that is refused, which its caller counts.
"""

import asyncio
import logging
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from gateway.core.budget import Budget
from gateway.core.compare.result import NotCompared
from gateway.core.plan import Plan
from gateway.core.snapshot import Pair
from gateway.runtime.pairs import Found

log = logging.getLogger("gateway.comparing")

MOST_PAIRS: Final = 256
MOST_BYTES: Final = 4 * 1024 * 1024


class Comparing:
    """Owned by the control loop; every method is called there."""

    def __init__(
        self, compare: Callable[[Pair, Plan], Found], *, most_pairs: int = MOST_PAIRS, most_bytes: int = MOST_BYTES
    ) -> None:
        self._compare = compare
        self._pairs = Budget(most_pairs)
        self._bytes = Budget(most_bytes)
        self._thread = ThreadPoolExecutor(1, "compare")

    def offer(self, pair: Pair, plan: Plan, found: Callable[[Found], None]) -> bool:
        """Takes a pair and calls ``found`` on the loop when it is known; False when there is no room for it."""
        # A pair larger than all that may wait is taken alone: else answers of that size were never compared.
        size = min(len(pair.baseline.body) + len(pair.candidate.body), self._bytes.limit)
        if not self._pairs.take(1):
            return False
        if not self._bytes.take(size):
            self._pairs.give(1)
            return False
        future = asyncio.get_running_loop().run_in_executor(self._thread, self._compare, pair, plan)
        future.add_done_callback(lambda done: self._done(done, size, found))
        return True

    def close(self) -> None:
        """Waits for the pair that is being compared, and for no other."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _done(self, done: asyncio.Future[Found], size: int, found: Callable[[Found], None]) -> None:
        self._pairs.give(1)
        self._bytes.give(size)
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            # Where, and not what was said: an error's own words may quote an answer.
            where = traceback.extract_tb(error.__traceback__)[-1]
            fields = {"event": "compare_failed", "error": type(error).__name__, "at": f"{where.name}:{where.lineno}"}
            log.error("a pair could not be compared", extra={"fields": fields})
        found(NotCompared.FAILED if error is not None else done.result())
