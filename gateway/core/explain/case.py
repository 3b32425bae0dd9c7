"""What an explanation is made from and made of, and the few formats that all of its sentences share."""

from dataclasses import dataclass
from typing import Final

from gateway.core.figures import Figures
from gateway.core.findings import MetricRow, Verdict
from gateway.core.plan import LATENCY, MetricId
from gateway.core.run import Rollout, Run

NOT_MEASURED: Final = "not measured"
LONGEST_QUOTE: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that is known.

    arms: names of (baseline, candidate). verdict, figures: of the decision once a run has ended, else of now.
    who, reason: the person behind a rollback or pause. left: the state that a rollback left.
    problems: what gate 1 found. overridden: who passed the last step without evidence.
    waiting_for: what validation waits for.
    journal_read: False when the decision is not in memory and the store does not give it.
    """

    rollout: Rollout
    now: float
    arms: tuple[str, str]
    verdict: Verdict | None = None
    figures: Figures | None = None
    who: str = ""
    reason: str = ""
    left: str = ""
    problems: tuple[str, ...] = ()
    overridden: str = ""
    waiting_for: str | None = None
    journal_read: bool = True

    @property
    def run(self) -> Run:
        """The open or last run. LookupError when there never was one."""
        if self.rollout.run is None:
            raise LookupError("no run has been started")
        return self.rollout.run

    def row(self, metric: str | None) -> MetricRow | None:
        """The verdict's row of ``metric``; None when it has none."""
        rows = self.verdict.rows if self.verdict else ()
        return next((row for row in rows if row.metric == metric), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One labelled paragraph; the label has at most nine characters."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """``next`` is what to do now; after a rollback it names the one variable to change."""

    headline: str
    facts: tuple[Fact, ...]
    next: str
    shapes: tuple[str, ...] = ()


def quoted(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Foreign words on one line, without what would steer a terminal, cut to a length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def weight(basis_points: int | None) -> str:
    return NOT_MEASURED if basis_points is None else f"{basis_points / 100:g} %"


def ms(value: float | None) -> str:
    """Milliseconds as people read them: three digits or so, never an exponent."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f} ms" if value >= 100 else f"{value:.3g} ms"


def seconds(value: float) -> str:
    """Up to two minutes in seconds, then in minutes, then in hours."""
    for size, unit in ((3600.0, "h"), (60.0, "min")):
        if value >= 2 * size:
            return f"{value / size:.3g} {unit}"
    return f"{max(0.0, value):.0f} s"


def events(metric: MetricId) -> str:
    """What is counted for a metric."""
    if metric is MetricId.PARITY:
        return "compared pairs"
    return "candidate answers" if metric in LATENCY else "candidate requests"


def is_bad(row: MetricRow) -> str:
    """What makes an event of a metric bad."""
    match row.metric:
        case MetricId.ERROR:
            return "failed or found it unavailable"
        case MetricId.REFUSED:
            return "were refused although the baseline serves them"
        case MetricId.PARITY:
            return "disagree"
        case _:
            return f"took longer than {row.limit_ms or 0.0:g} ms"
