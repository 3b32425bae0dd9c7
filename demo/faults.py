"""What the proxy before the candidate can do wrong: the mode lines of its admin port, and the decisions behind them.

pass               bytes go through
crash              a connection is dropped as soon as bytes of a request arrive on it, new or kept alive, and so are
                   the connections whose answer had not begun; an answer that had begun is finished
slow MS            the answer to a POST begins MS milliseconds later than it came
wrong              in answers of several embeddings each vector stands at its neighbour's place
flap DOWN PERIOD   for the first DOWN of each PERIOD milliseconds the readiness poll is answered with 503
"""

from dataclasses import dataclass
from typing import Final

import msgspec

MODE_LINES: Final = "pass, crash, slow MS, wrong, flap DOWN PERIOD"
MAX_SLOW_MS: Final = 60_000
MAX_PERIOD_MS: Final = 600_000
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Pass:
    def __str__(self) -> str:
        return "pass"


@dataclass(frozen=True, slots=True)
class Crash:
    def __str__(self) -> str:
        return "crash"


@dataclass(frozen=True, slots=True)
class Slow:
    """``ms`` is the delay of each answer in milliseconds. Raises ValueError outside 1 to MAX_SLOW_MS."""

    ms: int

    def __post_init__(self) -> None:
        _check("slow MS", self.ms, MAX_SLOW_MS)

    def __str__(self) -> str:
        return f"slow {self.ms}"


@dataclass(frozen=True, slots=True)
class Wrong:
    def __str__(self) -> str:
        return "wrong"


@dataclass(frozen=True, slots=True)
class Flap:
    """Unready for ``down_ms`` of each ``period_ms``, milliseconds. Raises ValueError unless 1 <= down <= period."""

    down_ms: int
    period_ms: int

    def __post_init__(self) -> None:
        _check("flap PERIOD", self.period_ms, MAX_PERIOD_MS)
        _check("flap DOWN", self.down_ms, self.period_ms)

    def __str__(self) -> str:
        return f"flap {self.down_ms} {self.period_ms}"


Mode = Pass | Crash | Slow | Wrong | Flap


class Counts(msgspec.Struct, kw_only=True):
    """``dropped`` connections (``broken``: those among them whose bytes were no message); answers; denied polls."""

    dropped: int = 0
    broken: int = 0
    delayed: int = 0
    rotated: int = 0
    denied: int = 0

    def struck(self, mode: Mode) -> int:
        """How often the fault of ``mode`` has met somebody."""
        match mode:
            case Pass():
                return 0
            case Crash():
                return self.dropped - self.broken
            case Slow():
                return self.delayed
            case Wrong():
                return self.rotated
            case Flap():
                return self.denied

    def __str__(self) -> str:
        return (
            f"dropped {self.dropped} connections ({self.broken} of them broken), delayed {self.delayed} answers,"
            f" rotated {self.rotated} answers, denied {self.denied} readiness polls"
        )


def parse(line: str) -> Mode:
    """The mode of a line; ``str`` of a mode is its line. Raises ValueError naming the value and what is allowed."""
    match line.split():
        case ["pass"]:
            return Pass()
        case ["crash"]:
            return Crash()
        case ["slow", ms]:
            return Slow(_whole("slow MS", ms))
        case ["wrong"]:
            return Wrong()
        case ["flap", down, period]:
            return Flap(_whole("flap DOWN", down), _whole("flap PERIOD", period))
        case _:
            raise ValueError(f"mode: {line.strip()[:_SHOWN]!r} is not allowed; one of {MODE_LINES}")


def is_down(flap: Flap, elapsed_s: float) -> bool:
    """Whether the readiness poll fails ``elapsed_s`` seconds after the switch: every period begins with the fault."""
    return elapsed_s * 1000.0 % flap.period_ms < flap.down_ms


class _Row(msgspec.Struct, frozen=True):
    """The field of a row that is moved; ``Raw`` keeps numbers and base64 as they were written."""

    embedding: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True):
    data: list[_Row]


def rotate_rows(body: bytes) -> bytes | None:
    """An embeddings answer whose row i carries the vector of row i + 1, the last row that of the first.

    None when there is nothing to rotate: fewer than two rows, or another kind of body. All else is kept as it was.
    """
    try:
        vectors = [row.embedding for row in msgspec.json.decode(body, type=_Answer).data]
        fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
        rows = msgspec.json.decode(fields["data"], type=list[dict[str, msgspec.Raw]])
    except (msgspec.DecodeError, RecursionError):
        return None
    if len(rows) < 2:
        return None
    for row, vector in zip(rows, vectors[1:] + vectors[:1], strict=True):
        row["embedding"] = vector
    fields["data"] = msgspec.Raw(msgspec.json.encode(rows))
    return msgspec.json.encode(fields)


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{name}: {text[:_SHOWN]!r} is not allowed; a whole number of milliseconds above 0")
    return int(text)


def _check(name: str, ms: int, most: int) -> None:
    if not 1 <= ms <= most:
        raise ValueError(f"{name}: {ms} is not allowed; milliseconds from 1 to {most}")
