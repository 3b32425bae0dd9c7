"""Which shape buckets a mix of requests meets: what a server must be warm for, and what a rate may be sized by."""

import collections
import itertools
from dataclasses import dataclass

from loadtest.payloads import Payloads


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Declared batch sizes and lengths (tokens) of a server, both rising."""

    batch: tuple[int, ...]
    length: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> "Catalogue":
        """From ``1,4,8x16,32,64,128``. Raises ValueError naming what is allowed."""
        try:
            batch, length = (tuple(int(number) for number in side.split(",")) for side in text.split("x"))
        except ValueError as broken:
            raise ValueError(f"catalogue: {text!r} is not of the form 1,4,8x16,32,64,128") from broken
        for name, numbers in (("batch", batch), ("length", length)):
            if numbers[0] < 1 or any(a >= b for a, b in itertools.pairwise(numbers)):
                raise ValueError(f"catalogue: {name} sizes {list(numbers)} must be above 0 and rise")
        return cls(batch, length)

    def bucket(self, rows: int, tokens: int) -> str:
        """The smallest bucket that holds the request, as ``4x32``. Raises ValueError when none does."""
        batch = next((size for size in self.batch if size >= rows), None)
        length = next((size for size in self.length if size >= tokens), None)
        if batch is None or length is None:
            raise ValueError(
                f"mix: a request of {rows} texts and {tokens} tokens is outside the catalogue"
                f" (at most {self.batch[-1]} texts of {self.length[-1]} tokens)"
            )
        return f"{batch}x{length}"


def bucket_shares(payloads: Payloads, catalogue: Catalogue, *, sample: int = 4000) -> dict[str, float]:
    """Share of the first ``sample`` requests that each bucket takes, largest first; they add up to one.

    A pool of known texts changes no shape, so the shares are those of a run with a reference, too.
    """
    counts: collections.Counter[str] = collections.Counter()
    for index in range(sample):
        payload = payloads.request(index)
        counts[catalogue.bucket(len(payload.texts), payload.tokens)] += 1
    return {bucket: count / sample for bucket, count in counts.most_common()}
