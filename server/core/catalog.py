"""The catalogue: declared shapes = warmed shapes = served shapes, unless the server is lenient.

A lenient server also serves what is undeclared up to ``largest``. Each new shape costs a compile while clients wait,
so their number is bounded: a size above the declared ones is rounded up to a power of two, and to ``largest`` at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from server.core.types import Bucket, ShapeNotServed

MAX_BUCKETS = 256
# Ids and mask of a batch, 8 bytes a position, must fit into a frame between front and worker (64 MiB).
MAX_CELLS = 2**22


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every pair of a declared batch size and a declared length is a bucket. ``largest`` None: strict."""

    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    largest: Bucket | None = None
    # What ``fit`` looks through, computed once: it is asked several times a request.
    _batch_sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)
    _length_sizes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, values in (("batch", self.batches), ("length", self.lengths)):
            if not values or any(value < 1 for value in values) or list(values) != sorted(set(values)):
                raise ValueError(
                    f"catalogue.{name}: got {list(values)}, allowed are rising positive integers, at least one"
                )
        if len(self.batches) * len(self.lengths) > MAX_BUCKETS:
            raise ValueError(
                f"catalogue: got {len(self.batches) * len(self.lengths)} buckets, at most {MAX_BUCKETS} are allowed"
            )
        object.__setattr__(self, "_batch_sizes", _sizes(self.batches, self.max_rows))
        object.__setattr__(self, "_length_sizes", _sizes(self.lengths, self.max_length))
        if self.largest is not None:
            self._check_largest(self.largest)

    def _check_largest(self, largest: Bucket) -> None:
        if largest.batch < self.batches[-1] or largest.length < self.lengths[-1]:
            raise ValueError(
                f"largest: got batch {largest.batch} and length {largest.length}, allowed are batch "
                f"{self.batches[-1]} or more and length {self.lengths[-1]} or more, the largest declared ones"
            )
        if largest.cells > MAX_CELLS:
            raise ValueError(
                f"largest: got {largest}, which is {largest.cells} token positions, at most {MAX_CELLS} are allowed"
            )
        if self.programs > MAX_BUCKETS:
            raise ValueError(
                f"largest: got {largest}, which makes {self.programs} shapes with the declared ones, "
                f"at most {MAX_BUCKETS} are allowed"
            )

    @classmethod
    def declared(cls, batches: Sequence[int], lengths: Sequence[int], largest: Bucket | None = None) -> "Catalogue":
        return cls(tuple(batches), tuple(lengths), largest)

    @property
    def max_rows(self) -> int:
        """Of one request."""
        return self.batches[-1] if self.largest is None else self.largest.batch

    @property
    def max_length(self) -> int:
        return self.lengths[-1] if self.largest is None else self.largest.length

    @property
    def full_rows(self) -> int:
        """Up to so many rows several requests are put together: company is no reason for a new shape."""
        return self.batches[-1]

    @property
    def programs(self) -> int:
        """How many buckets ``fit`` can give: the declared ones, and of a lenient server those up to ``largest``.

        Batch sizes times lengths; of each the declared ones, the powers of two strictly between the last of them
        and the bound, and the bound itself where it lies above.
        """
        return len(self._batch_sizes) * len(self._length_sizes)

    def buckets(self) -> tuple[Bucket, ...]:
        """The declared ones."""
        return tuple(Bucket(batch, length) for length in self.lengths for batch in self.batches)

    def fit(self, rows: int, longest: int) -> Bucket | ShapeNotServed:
        """The smallest bucket for ``rows`` texts of at most ``longest`` tokens, or why there is none."""
        if rows > self.max_rows or longest > self.max_length:
            return self._outside(f"{rows} rows of up to {longest} tokens")
        return Bucket(
            next(batch for batch in self._batch_sizes if batch >= rows),
            next(length for length in self._length_sizes if length >= longest),
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
        declared = f"batch {','.join(map(str, self.batches))} x length {','.join(map(str, self.lengths))}"
        return declared if self.largest is None else f"{declared}, undeclared up to {self.largest}"


def _sizes(declared: tuple[int, ...], bound: int) -> tuple[int, ...]:
    """Rising: the declared sizes, then powers of two below ``bound``, then ``bound``."""
    if bound == declared[-1]:
        return declared
    return (*declared, *(1 << power for power in range(declared[-1].bit_length(), (bound - 1).bit_length())), bound)
