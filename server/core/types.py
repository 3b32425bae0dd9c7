"""Values that every ring of the server shares.

Refusals say whose fault it is:

    Refused
    ├── BadRequest       the caller's: malformed
    ├── ShapeNotServed   the caller's: well-formed, outside the catalogue, or of a shape that failed on this device
    ├── ModelNotFound    the caller's: another model's name
    ├── QueueFull        load
    ├── DeadlinePassed   load: the caller stopped waiting
    ├── NotReady         ours, for now: warming, or the worker is gone
    │   └── Draining     ours, for good: another replica answers
    └── Internal         ours
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import prod
from typing import Literal

from server.core.signature import ModelSignature

DeviceKind = Literal["cpu", "cuda", "tpu", "tpu-emulator"]
DtypeName = Literal["float32", "bfloat16"]
MatmulPrecision = Literal["highest", "high", "medium"]
Source = Literal["compiled", "cache", "eager"]
# PyTorch's own folder; torch_tpu's in this host's shared memory (its tier 2); torch_tpu's shared folder (tier 3).
CacheTier = Literal["", "pytorch", "host", "shared"]
Phase = Literal["admission", "tokenise", "queue", "device"]
ModelFormat = Literal["sentence-transformers", "sequence-classification", "torch-export", "python-factory"]


@dataclass(frozen=True, slots=True, order=True)
class Bucket:
    """One compiled shape: ``batch`` rows of ``length`` tokens.

    ``length`` is the size of the first dimension that the catalogue names, ``more`` are those of the others. Where it
    names none, ``length`` is 1.
    """

    batch: int
    length: int
    more: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if min(self.batch, *self.sizes) < 1:
            raise ValueError(f"bucket {self}: batch and length must be at least 1")

    @classmethod
    def of(cls, sizes: Sequence[int]) -> "Bucket":
        """From the batch and the size of each named dimension."""
        return cls(sizes[0], sizes[1], tuple(sizes[2:]))

    def __str__(self) -> str:
        return "x".join(map(str, (self.batch, *self.sizes)))

    @property
    def sizes(self) -> tuple[int, ...]:
        """Of each named dimension."""
        return (self.length, *self.more)

    @property
    def cells(self) -> int:
        """Token positions, or pixels, padding included."""
        return prod(self.sizes, start=self.batch)


class Refused(Exception):
    """A request that gets no answer. ``reason`` is the wire's code, ``param`` the field at fault."""

    reason = "internal"

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


class BadRequest(Refused):
    reason = "bad_request"


class ShapeNotServed(Refused):
    reason = "shape_not_served"


class ModelNotFound(Refused):
    reason = "model_not_found"


class QueueFull(Refused):
    """``retry_after_s``: when the queue that was met will be gone."""

    reason = "queue_full"

    def __init__(self, message: str, *, retry_after_s: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class DeadlinePassed(Refused):
    """``phase``: where the request was when its time was up; ``admission``: it would have been before an answer."""

    reason = "deadline"

    def __init__(self, phase: Phase, message: str = "") -> None:
        super().__init__(message or f"deadline: the time that the caller named has passed, in phase {phase}")
        self.phase = phase


class NotReady(Refused):
    """``retry_after_s``: when it should be over; None: not known."""

    reason = "not_ready"

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Draining(NotReady):
    reason = "draining"


class Internal(Refused):
    reason = "internal"


@dataclass(frozen=True, slots=True)
class TokenRows:
    """The tokenised texts of one request. ``masks`` is None when every token counts.

    ``width`` does not count columns at the end that no row's mask keeps: they are the caller's own padding.
    ``field`` is what the caller's protocol calls the ids.
    """

    ids: Sequence[Sequence[int]]
    masks: Sequence[Sequence[int]] | None = None
    field: str = "input"

    def __post_init__(self) -> None:
        if not self.ids:
            raise BadRequest(f"{self.field}: got no rows, at least one is needed", param=self.field)
        if self.masks is None:
            if not all(self.ids):
                raise BadRequest(
                    f"{self.field}: got a row without tokens, each row needs at least one", param=self.field
                )
            return
        if len(self.masks) != len(self.ids):
            raise BadRequest(
                f"attention_mask: got {len(self.masks)} rows for {len(self.ids)} rows of {self.field}",
                param="attention_mask",
            )
        for row, mask in zip(self.ids, self.masks, strict=True):
            if len(row) != len(mask):
                raise BadRequest(
                    f"attention_mask: got {len(mask)} values for {len(row)} tokens", param="attention_mask"
                )
            if any(value not in (0, 1) for value in mask):
                raise BadRequest("attention_mask: got a value other than 0 and 1", param="attention_mask")
            if not any(mask):
                raise BadRequest("attention_mask: a row keeps no token, at least one is needed", param="attention_mask")

    @property
    def count(self) -> int:
        return len(self.ids)

    @property
    def width(self) -> int:
        """Tokens of the longest row."""
        if self.masks is None:
            return max(len(row) for row in self.ids)
        return max(last_kept(mask) for mask in self.masks)

    @property
    def sizes(self) -> tuple[int, ...]:
        """What it needs of the catalogue's one dimension."""
        return (self.width,)

    @property
    def tokens(self) -> int:
        """Tokens that count, over all rows."""
        if self.masks is None:
            return sum(len(row) for row in self.ids)
        return sum(sum(mask) for mask in self.masks)

    @property
    def cells(self) -> int:
        """Positions before padding."""
        return self.tokens

    def check_vocabulary(self, size: int) -> None:
        """Raises BadRequest unless every id is in 0..size-1.

        A TPU does no bounds check: an id outside the table gives a wrong answer instead of an error.
        """
        for row in self.ids:
            for token in row:
                if not 0 <= token < size:
                    raise BadRequest(
                        f"{self.field}: got token id {token}, allowed are 0 to {size - 1}", param=self.field
                    )


def last_kept(mask: Sequence[int]) -> int:
    """One more than the last position with a 1."""
    for position in range(len(mask), 0, -1):
        if mask[position - 1]:
            return position
    return 0


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What the worker loaded. ``revision`` is the digest of the weights, ``dim`` the numbers of a row of the output, 0
    where it is no such row; ``vocabulary`` and ``max_length`` are 0 for a model that takes no tokens.
    """

    revision: str
    vocabulary: int
    dim: int
    max_length: int
    compiled: bool
    emulated: bool
    torch: str
    torch_tpu: str | None = None
    libtpu: str | None = None
    topology: str | None = None
    acceptance: str = ""
    signature: ModelSignature = field(kw_only=True)


def differences(before: EngineFacts, after: EngineFacts) -> list[str]:
    """What the answers of two engines may differ by, field by field; figures of an acceptance vary."""
    names = [each.name for each in fields(EngineFacts) if each.name != "acceptance"]
    pairs = [(name, getattr(before, name), getattr(after, name)) for name in names]
    return [f"{name} was {was}, is {found}" for name, was, found in pairs if was != found]


@dataclass(frozen=True, slots=True)
class BucketTiming:
    """One warmed bucket. Seconds; ``warm_s`` is the median of the calls after the first.

    ``tier`` is where the program came from if it was not compiled; ``compiled_s`` the first call when it last was;
    ``memory_bytes`` the most that the device held while the bucket ran. None: not known.
    """

    bucket: Bucket
    first_s: float
    warm_s: float
    calls: int
    compiles: int
    source: Source
    tier: CacheTier = ""
    compiled_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Bytes of a device that counts them. ``peak`` since the warm-up; ``limit``: all that there is, None: not told."""

    used: int
    peak: int
    limit: int | None = None
