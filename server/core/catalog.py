"""The catalogue: declared shapes = warmed shapes = served shapes."""

from collections.abc import Sequence
from dataclasses import dataclass

from server.core.types import Bucket, ShapeNotServed

MAX_BUCKETS = 256


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every pair of a declared batch size and a declared length is a bucket."""

    batches: tuple[int, ...]
    lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        for field, values in (("batch", self.batches), ("length", self.lengths)):
            if not values or any(value < 1 for value in values) or list(values) != sorted(set(values)):
                raise ValueError(
                    f"catalogue.{field}: got {list(values)}, allowed are rising positive integers, at least one"
                )
        if len(self.batches) * len(self.lengths) > MAX_BUCKETS:
            raise ValueError(
                f"catalogue: got {len(self.batches) * len(self.lengths)} buckets, at most {MAX_BUCKETS} are allowed"
            )

    @classmethod
    def declared(cls, batches: Sequence[int], lengths: Sequence[int]) -> "Catalogue":
        return cls(tuple(batches), tuple(lengths))

    @property
    def max_rows(self) -> int:
        return self.batches[-1]

    @property
    def max_length(self) -> int:
        return self.lengths[-1]

    def buckets(self) -> tuple[Bucket, ...]:
        return tuple(Bucket(batch, length) for length in self.lengths for batch in self.batches)

    def fit(self, rows: int, longest: int) -> Bucket | ShapeNotServed:
        """The smallest bucket for ``rows`` texts of at most ``longest`` tokens, or why there is none."""
        if rows > self.max_rows or longest > self.max_length:
            return self._outside(f"{rows} rows of up to {longest} tokens")
        return Bucket(
            next(batch for batch in self.batches if batch >= rows),
            next(length for length in self.lengths if length >= longest),
        )

    def refuse_rows(self, rows: int) -> ShapeNotServed | None:
        """Why ``rows`` texts are too many, whatever their length; None when they are not."""
        return self._outside(f"{rows} rows") if rows > self.max_rows else None

    def refuse_length(self, at_least: int) -> ShapeNotServed | None:
        """Why a text that has ``at_least`` so many tokens is too long; None when it may fit."""
        return self._outside(f"a text of at least {at_least} tokens") if at_least > self.max_length else None

    def _outside(self, got: str) -> ShapeNotServed:
        return ShapeNotServed(
            f"input: got {got}, "
            f"this server takes at most {self.max_rows} rows of at most {self.max_length} tokens "
            f"(catalogue {self}); nothing is truncated",
            param="input",
        )

    def __str__(self) -> str:
        return f"batch {','.join(map(str, self.batches))} x length {','.join(map(str, self.lengths))}"
