"""The catalogue: declared shapes = warmed shapes = served shapes, unless the server is lenient.

A shape has a batch size and a size in each named dimension: ``length`` for texts, ``height`` and ``width`` for images.
Every combination of declared sizes is a bucket, but for those that are excluded.

A lenient server also serves what is undeclared up to ``largest``. Each new shape costs a compile while clients wait,
so their number is bounded: a size above the declared ones is rounded up to a power of two, and to ``largest`` at most.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from server.core.types import Bucket, ShapeNotServed

MAX_BUCKETS = 256
# Combinations before exclusion: the table that ``fit`` reads has so many entries.
MAX_COMBINATIONS = 4096
# Ids and mask of a batch, 8 bytes a position, must fit into a frame between front and worker (64 MiB).
MAX_CELLS = 2**22
TEXT = ("length",)


class CatalogueRefused(ValueError):
    """Shapes that cannot be served; ``problems`` is complete."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The shapes whose size lies between the bounds (None: no bound) in every dimension that is named."""

    bounds: tuple[tuple[str, int, int | None], ...]

    def covers(self, sizes: Mapping[str, int]) -> bool:
        return all(low <= sizes[name] and (high is None or sizes[name] <= high) for name, low, high in self.bounds)

    def __str__(self) -> str:
        return " and ".join(f"{name} {_span(low, high)}" for name, low, high in self.bounds)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every combination of declared sizes is a bucket. ``largest`` None: strict.

    ``lengths`` are the sizes of the first named dimension, ``more`` those of the others, in the order of ``names``;
    without names ``lengths`` is (1,). ``exact``: a request is padded to no other size, but for its rows.
    """

    batches: tuple[int, ...]
    lengths: tuple[int, ...]
    largest: Bucket | None = None
    names: tuple[str, ...] = TEXT
    more: tuple[tuple[int, ...], ...] = ()
    exclude: tuple[Exclusion, ...] = ()
    exact: bool = False
    # Computed once, since every request and every batch asks for its bucket: the sizes that there are of each
    # dimension, for each combination of them (by position) the smallest bucket that holds it, and what was asked.
    _axes: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _smallest: dict[tuple[int, ...], Bucket] = field(init=False, repr=False, compare=False)
    _buckets: tuple[Bucket, ...] = field(init=False, repr=False, compare=False)
    _programs: int = field(init=False, repr=False, compare=False)
    _most: tuple[int, int] = field(init=False, repr=False, compare=False)
    _asked: dict[tuple[int, ...], Bucket] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        declared = (self.batches, self.lengths, *self.more)
        _raise(_rising_problems(self._named, declared))
        _raise(_size_problems(declared))
        bounds = [each[-1] for each in declared]
        if self.largest is not None:
            self._check_largest(self.largest)
            bounds = [self.largest.batch, *self.largest.sizes]
        axes = tuple(_sizes(sizes, bound) for sizes, bound in zip(declared, bounds, strict=True))
        allowed = {
            where: Bucket.of(sizes)
            for where, sizes in zip(_positions(axes), product(*axes), strict=True)
            if not self._excluded(sizes)
        }
        buckets = tuple(Bucket.of(sizes) for sizes in _sorted(product(*declared)) if not self._excluded(sizes))
        _raise(self._bucket_problems(declared, buckets))
        object.__setattr__(self, "_axes", axes)
        object.__setattr__(self, "_smallest", _smallest(axes, allowed, exact=self.exact))
        object.__setattr__(self, "_buckets", buckets)
        object.__setattr__(self, "_programs", len(allowed))
        most = (max(bucket.batch for bucket in buckets), max(bucket.length for bucket in buckets))
        largest = self.largest
        object.__setattr__(self, "_most", most if largest is None else (largest.batch, largest.length))
        if self.largest is not None and self.programs > MAX_BUCKETS:
            raise CatalogueRefused(
                [f"largest: got {self.largest}, which makes {self.programs} shapes with the declared ones, "
                 f"at most {MAX_BUCKETS} are allowed"]
            )  # fmt: skip

    def _check_largest(self, largest: Bucket) -> None:
        if self.names != TEXT:
            raise CatalogueRefused(
                [f"largest: got {largest} for the dimensions {', '.join(self.names)}, "
                 "allowed is a catalogue of batch and length: only those have a lenient mode"]
            )  # fmt: skip
        if largest.batch < self.batches[-1] or largest.length < self.lengths[-1]:
            raise CatalogueRefused(
                [f"largest: got batch {largest.batch} and length {largest.length}, allowed are batch "
                 f"{self.batches[-1]} or more and length {self.lengths[-1]} or more, the largest declared ones"]
            )  # fmt: skip
        if largest.cells > MAX_CELLS:
            raise CatalogueRefused(
                [f"largest: got {largest}, which is {largest.cells} token positions, at most {MAX_CELLS} are allowed"]
            )

    def _bucket_problems(self, declared: tuple[tuple[int, ...], ...], buckets: tuple[Bucket, ...]) -> list[str]:
        every = [dict(zip(self._named, sizes, strict=True)) for sizes in product(*declared)]
        problems = [
            f"catalogue.exclude: {each} excludes nothing, allowed is what matches a declared shape"
            for each in self.exclude
            if not any(each.covers(sizes) for sizes in every)
        ]
        if not buckets:
            problems.append("catalogue.exclude: leaves no shape, at least one is needed")
        if len(buckets) > MAX_BUCKETS:
            problems.append(f"catalogue: got {len(buckets)} buckets, at most {MAX_BUCKETS} are allowed")
        widest = max(buckets, key=lambda bucket: bucket.cells, default=None)
        if self.names == TEXT and widest is not None and widest.cells > MAX_CELLS:
            problems.append(
                f"catalogue: got {widest}, which is {widest.cells} token positions, at most {MAX_CELLS} are allowed"
            )
        return problems

    def _excluded(self, sizes: Sequence[int]) -> bool:
        named = dict(zip(self._named, sizes, strict=True))
        return any(each.covers(named) for each in self.exclude)

    @property
    def _named(self) -> tuple[str, ...]:
        """Of the batch and of each size; a dimension that nobody named has none."""
        return ("batch", *(self.names or ("",)))

    def sizes(self, named: Mapping[str, int]) -> tuple[int, ...]:
        """What stands in a bucket for these sizes of the dimensions."""
        return tuple(named[name] for name in self.names) or (1,)

    @property
    def max_rows(self) -> int:
        """Of one request."""
        return self._most[0]

    @property
    def max_length(self) -> int:
        return self._most[1]

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
        return self._programs

    def buckets(self) -> tuple[Bucket, ...]:
        """The declared ones."""
        return self._buckets

    def fit(self, rows: int, *sizes: int) -> Bucket | ShapeNotServed:
        """The bucket with the fewest cells for ``rows`` inputs of at most these sizes, or why there is none."""
        asked = (rows, *sizes)
        found = self._asked.get(asked)
        if found is None:
            where = tuple(bisect_left(axis, need) for axis, need in zip(self._axes, asked, strict=True))
            found = self._smallest.get(where)
            if found is None or (self.exact and found.sizes != sizes):
                return self._outside(self._request(rows, sizes))
            if len(self._asked) < MAX_COMBINATIONS:
                self._asked[asked] = found
        return found

    def refuse_rows(self, rows: int) -> ShapeNotServed | None:
        """Why ``rows`` texts are too many, whatever their length; None when they are not."""
        return self._outside(f"{rows} rows") if rows > self.max_rows else None

    def refuse_length(self, at_least: int) -> ShapeNotServed | None:
        """Why a text that has ``at_least`` so many tokens is too long; None when it may fit."""
        return self._outside(f"a text of at least {at_least} tokens") if at_least > self.max_length else None

    def _request(self, rows: int, sizes: Sequence[int]) -> str:
        if self.names == TEXT and not self.exact:
            return f"{rows} rows of up to {sizes[0]} tokens"
        return f"{rows} rows{self._each(sizes)}"

    def _each(self, sizes: Sequence[int]) -> str:
        named = [f"{name} {size}" for name, size in zip(self.names, sizes, strict=False)]
        return f" of {', '.join(named)}" if named else ""

    def _outside(self, got: str) -> ShapeNotServed:
        if self.names == TEXT and not self.exact:
            limit = f"{self.max_rows} rows of at most {self.max_length} tokens"
        elif self.exact:
            limit = f"{self.max_rows} rows of exactly the declared sizes"
        else:
            limit = f"{self.max_rows} rows{self._each([sizes[-1] for sizes in (self.lengths, *self.more)])}"
        return ShapeNotServed(
            f"input: got {got}, a batch here takes at most {limit} (catalogue {self}); nothing is "
            f"{'padded or ' if self.exact else ''}truncated",
            param="input",
        )

    def __str__(self) -> str:
        dimensions = zip(self._named, (self.batches, self.lengths, *self.more), strict=True)
        declared = " x ".join(f"{name} {','.join(map(str, sizes))}" for name, sizes in dimensions if name)
        without = f" without {'; '.join(map(str, self.exclude))}" if self.exclude else ""
        undeclared = "" if self.largest is None else f", undeclared up to {self.largest}"
        return declared + without + undeclared


def _raise(problems: Sequence[str]) -> None:
    if problems:
        raise CatalogueRefused(problems)


def _rising_problems(names: Sequence[str], declared: Sequence[tuple[int, ...]]) -> list[str]:
    return [
        f"catalogue.{name}: got {list(sizes)}, allowed are rising positive integers, at least one"
        for name, sizes in zip(names, declared, strict=True)
        if not sizes or any(size < 1 for size in sizes) or list(sizes) != sorted(set(sizes))
    ]


def _size_problems(declared: Sequence[tuple[int, ...]]) -> list[str]:
    combinations = 1
    for sizes in declared:
        combinations *= len(sizes)
    if combinations <= MAX_COMBINATIONS:
        return []
    return [
        f"catalogue: got {combinations} buckets before exclusion, at most {MAX_BUCKETS} are allowed after it "
        f"and {MAX_COMBINATIONS} before"
    ]


def _sizes(declared: tuple[int, ...], bound: int) -> tuple[int, ...]:
    """Rising: the declared sizes, then powers of two below ``bound``, then ``bound``."""
    if bound == declared[-1]:
        return declared
    return (*declared, *(1 << power for power in range(declared[-1].bit_length(), (bound - 1).bit_length())), bound)


def _positions(axes: Sequence[Sequence[int]]) -> Iterable[tuple[int, ...]]:
    return product(*(range(len(axis)) for axis in axes))


def _sorted(every: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """By the sizes, then by the batch."""
    return sorted(every, key=lambda sizes: (sizes[1:], sizes[0]))


def _smallest(
    axes: Sequence[Sequence[int]], allowed: Mapping[tuple[int, ...], Bucket], *, exact: bool
) -> dict[tuple[int, ...], Bucket]:
    """For each position the allowed bucket with the fewest cells that is at least as large in every dimension, where
    ``exact`` in the batch alone.

    From the far corner: what is at least as large as a position is the position itself, or at least as large as one
    of its next neighbours.
    """
    found: dict[tuple[int, ...], Bucket] = {}
    for where in reversed(list(_positions(axes))):
        if where in allowed:
            found[where] = allowed[where]
            continue
        following = [(*where[:at], where[at] + 1, *where[at + 1 :]) for at in range(1 if exact else len(where))]
        larger = [found[each] for each in following if each in found]
        if larger:
            found[where] = min(larger, key=lambda bucket: (bucket.cells, bucket.sizes))
    return found


def _span(low: int, high: int | None) -> str:
    if high is None:
        return f"{low} or more"
    return str(low) if low == high else f"{low} to {high}"
