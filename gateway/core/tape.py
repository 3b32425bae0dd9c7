"""A recording: everything that one judge was told, in the order in which it was told, and when its word was acted on.

Kept are counts, never a request: closed windows with their tallies, the terms of each step, the breaker's seconds. A
judge of the same plan that is told the same again says the same again, to the last bit.

Rows are packed as compressed JSON. Counts go by name, so a row outlives counts that are added later; a row is foreign
bytes to whoever reads it, and one that cannot be read is said to be that.
"""

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from gateway.core.evidence import ClosedWindow, Key
from gateway.core.findings import BreakerCounts, Gap, read_breaker
from gateway.core.histogram import BINS
from gateway.core.keys import KeyCounts
from gateway.core.plan import MetricId
from gateway.core.types import Count, Lane, Role, Tally, empty_tally

FORMAT: Final = 1
LATEST: Final = 2.0**37
"""Seconds since 1970: in the year 6325."""
MOST_COUNTED: Final = 2**53
MOST_BYTES: Final = 1 << 20
"""What a row may unpack to: far more than any window has, and read in some milliseconds."""


@dataclass(frozen=True, slots=True)
class Began:
    """A judge from ``first_window`` on. resumed: the digest of the state that it goes on from, None: from nothing.

    limits: what was counted as late from here on, milliseconds by metric.
    """

    at: float
    first_window: int
    resumed: str | None = None
    limits: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step under ``terms``, the arguments of ``Judge.start_step``."""

    at: float
    terms: dict[str, Any]

    @property
    def weight(self) -> int:
        """Basis points."""
        return int(self.terms["weight_bp"])


@dataclass(frozen=True, slots=True)
class Second:
    """One second of the breaker: (attempts, failed) of each arm."""

    at: float
    baseline: tuple[int, int]
    candidate: tuple[int, int]
    failed_over: bool


@dataclass(frozen=True, slots=True)
class Closed:
    """A window. Of its keys only those that its step had not seen before, as far as any rule counts them.

    shapes: those that compiled so far in the run. latencies: (bin, count) of the baseline's live answers that came
    since the window before was closed.
    """

    at: float
    window: ClosedWindow
    shapes: tuple[str, ...] = ()
    latencies: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Beside:
    """From here on these gaps, which are not the judge's own, hold the step, too."""

    at: float
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class Looked:
    """A look whose verdict was acted on. worker, trip: the worker whose own breaker came first, and what it saw."""

    at: float
    worker: str | None = None
    trip: BreakerCounts | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """The judge's state was kept for a restart here."""

    digest: str


Told = Began | Stepped | Second | Closed | Beside | Looked | Kept


def digest_of(state: Mapping[str, Any]) -> str:
    """Tells one checkpoint from another, before and after it was stored as JSON. 16 hex digits."""
    text = json.dumps(plain(state), separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def pack(told: Iterable[Told]) -> bytes:
    """The bytes that ``unpack`` takes."""
    return zlib.compress(json.dumps([_packed(each) for each in told], separators=(",", ":")).encode())


def unpack(data: bytes) -> list[Told]:
    """ValueError when the bytes are not what ``pack`` gave, or name counts that this version does not know."""
    try:
        unzip = zlib.decompressobj()
        text = unzip.decompress(data, MOST_BYTES)
        if unzip.unconsumed_tail or not unzip.eof:
            raise ValueError(f"is cut off, or more than {MOST_BYTES} bytes")
        return [_unpacked(*each) for each in json.loads(text)]
    except (zlib.error, ArithmeticError, AttributeError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _packed(told: Told) -> list[Any]:
    match told:
        case Began():
            return ["began", told.at, told.first_window, told.resumed, told.limits]
        case Stepped():
            return ["stepped", told.at, told.terms]
        case Second():
            return ["second", round(told.at, 3), *told.baseline, *told.candidate, int(told.failed_over)]
        case Closed():
            window = told.window
            return [
                "closed",
                round(told.at, 3),
                window.window,
                _named(window.tallies),
                [_named(stratum) for stratum in window.strata],
                {str(role): _packed_keys(keys) for role, keys in window.keys.items()},
                list(told.shapes),
                _spread(told.latencies),
            ]
        case Beside():
            return ["beside", told.at, [asdict(gap) for gap in told.gaps]]
        case Looked():
            return ["looked", told.at, told.worker, None if told.trip is None else asdict(told.trip)]
        case Kept():
            return ["kept", told.digest]


def _unpacked(kind: str, *fields: Any) -> Told:
    match kind, fields:
        case "began", (at, first, resumed, limits):
            late = {str(metric): float(limit) for metric, limit in limits.items()}
            return Began(_time(at), int(first), None if resumed is None else str(resumed), late)
        case "stepped", (at, terms):
            return Stepped(_time(at), {str(name): value for name, value in terms.items()})
        case "second", (at, b_n, b_failed, c_n, c_failed, failed_over):
            return Second(_time(at), (int(b_n), int(b_failed)), (int(c_n), int(c_failed)), bool(failed_over))
        case "closed", (at, window, tallies, strata, keys, shapes, latencies):
            closed = ClosedWindow(
                int(window),
                _tallies(tallies),
                tuple(_tallies(stratum) for stratum in strata),
                {Role(role): _keys(counts) for role, counts in keys.items()},
            )
            return Closed(_time(at), closed, tuple(str(shape) for shape in shapes), tuple(_gathered(latencies)))
        case "beside", (at, gaps):
            return Beside(_time(at), tuple(_gap(**gap) for gap in gaps))
        case "looked", (at, worker, trip):
            return Looked(_time(at), None if worker is None else str(worker), read_breaker(trip))
        case "kept", (digest,):
            return Kept(str(digest))
        case _:
            raise ValueError(f"{kind!r:.40} with {len(fields)} fields is not known")


def _time(at: Any) -> float:
    """One that can be shown: neither none nor in another age of the world."""
    if not 0.0 <= float(at) <= LATEST:
        raise ValueError(f"{at!r:.40} is no time")
    return float(at)


def _number(n: Any) -> int:
    """A count: no day has more than this."""
    if not -MOST_COUNTED < int(n) < MOST_COUNTED:
        raise ValueError(f"{n!r:.40} is no count")
    return int(n)


def _gap(reason: str, text: str, metric: str | None, stratum: str | None) -> Gap:
    return Gap(
        reason=str(reason),
        text=str(text),
        metric=None if metric is None else MetricId(metric),
        stratum=None if stratum is None else str(stratum),
    )


def _named(tallies: Mapping[Key, Tally]) -> dict[str, dict[str, int]]:
    return {
        f"{role} {lane}": {count.name: tally[count] for count in Count if tally[count]}
        for (role, lane), tally in tallies.items()
    }


def _tallies(named: Mapping[str, Mapping[str, int]]) -> dict[Key, Tally]:
    found = {}
    for place, counts in named.items():
        role, lane = place.split(" ")
        tally = empty_tally()
        for name, n in counts.items():
            tally[Count[name]] = _number(n)
        found[Role(role), Lane(lane)] = tally
    return found


def _packed_keys(keys: KeyCounts) -> list[Any]:
    return [keys.requests, list(keys.hashes), list(keys.heavy.items())]


def _keys(packed: Sequence[Any]) -> KeyCounts:
    requests, hashes, heavy = packed
    keys = KeyCounts()
    keys.merge(int(requests), (int(key) for key in hashes), ((int(key), int(n)) for key, n in heavy))
    return keys


def _spread(bins: Iterable[tuple[int, int]]) -> list[int]:
    """Distance to the bin before and count, in turn: small numbers pack well."""
    flat, before = [], 0
    for bin_, n in bins:
        flat += [bin_ - before, n]
        before = bin_
    return flat


def _gathered(flat: Sequence[int]) -> Iterable[tuple[int, int]]:
    bin_ = 0
    for step, n in zip(flat[::2], flat[1::2], strict=True):
        bin_ += int(step)
        if not 0 <= bin_ < BINS:
            raise ValueError(f"bin {bin_!r:.40} is none of a histogram")
        yield bin_, _number(n)


def plain(value: Any) -> Any:
    """As a store gives it back: pairs are lists, keys are text, and what JSON cannot say is nothing."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and value - value != 0.0:
        return None
    return value
