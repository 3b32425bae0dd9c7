"""Options of a run, checked before anything is sent."""

import math
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from loadtest.payloads import DEFAULT_MIX, Mix, MixError, read_mix
from loadtest.schedule import Gaps


class OptionsError(ValueError):
    """The run cannot start. ``problems`` names every option, its value and what is allowed."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run. ``rate`` is requests a second, ``seconds`` the length of the schedule, ``users`` the most at once.

    ``grace_s`` is how long requests may still finish after the last arrival. ``known`` texts are compared with the
    answers of ``reference`` when it is given. ``then_mix`` takes over from ``mix`` once the file ``then_when`` exists.
    """

    host: str
    rate: float
    seconds: float
    seed: int = 1
    model: str = "all-MiniLM-L6-v2"
    gaps: Gaps = "exponential"
    users: int = 64
    known: int = 64
    dimension: int | None = 384
    timeout_s: float = 30.0
    grace_s: float = 30.0
    mix: Mix = DEFAULT_MIX
    then_mix: Mix | None = None
    then_when: Path | None = None
    out: Path | None = None
    stop_file: Path | None = None
    reference: str | None = None

    def __post_init__(self) -> None:
        problems = [
            f"--{name.replace('_', '-')}: {value} must be above 0"
            for name, value in (
                ("rate", self.rate),
                ("seconds", self.seconds),
                ("users", self.users),
                ("timeout_s", self.timeout_s),
                ("grace_s", self.grace_s),
            )
            if not (value > 0 and math.isfinite(value))
        ]
        if self.known < 0:
            problems.append(f"--known: {self.known} must be 0 or more")
        if self.dimension is not None and self.dimension < 1:
            problems.append(f"--dimension: {self.dimension} must be above 0")
        for name, url in (("host", self.host), ("reference", self.reference)):
            if url is not None and not _is_http(url):
                problems.append(f"--{name}: {url!r} is not allowed; http://HOST:PORT")
        if (self.then_mix is None) != (self.then_when is None):
            given = "--then-when" if self.then_mix is None else "--then-mix"
            problems.append(f"--then-mix, --then-when: only {given} is given; both or neither")
        if problems:
            raise OptionsError(problems)


def mix_from(path: Path | None, *, option: str = "--mix") -> Mix:
    """The mix of a JSON file, the built-in one for None. Raises OptionsError, which names ``option``."""
    if path is None:
        return DEFAULT_MIX
    try:
        return read_mix(path.read_bytes())
    except OSError as unreadable:
        raise OptionsError([f"{option}: {path}: {unreadable.strerror}"]) from unreadable
    except MixError as wrong:
        raise OptionsError([f"{option}: {path}: {problem}" for problem in wrong.problems]) from wrong


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
