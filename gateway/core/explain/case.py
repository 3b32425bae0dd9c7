"""What an explanation is made from and made of, and the few formats that all of its sentences share."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gateway.core.figures import Figures
from gateway.core.findings import MetricRow, Verdict
from gateway.core.plan import LATENCY, STREAM, MetricId
from gateway.core.run import Rollout, Run
from gateway.core.strata import in_requests

LABELS: Final = ("Seen", "Limit", "Baseline", "Samples", "Rule", "Detail", "Clients", "Zero", "Expected", "Missing")
"""Of the facts, in the order in which they stand."""
NOT_MEASURED: Final = "not measured"
LONGEST_QUOTE: Final = 300
START: Final = '`canaryctl start PLAN --reason "..."`'
ROLLBACK: Final = '`canaryctl rollback --reason "..."`'
_NAME: Final = re.compile(r"[A-Za-z0-9@._:+-]{1,80}")
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,64}")
_QUOTES: Final = str.maketrans({"`": "'", '"': "'"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything that is known.

    arms: names of (baseline, candidate). verdict, figures: of the decision once a run has ended, else of now.
    who, reason: the person behind a rollback or pause. left: the state that a rollback left.
    problems: what gate 1 found. unready: arms that validation waits for, with what they say of themselves.
    gap: why the journal's line of the decision is not at hand; empty when it is.
    sticky: the split is by a key of the request.
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
    unready: tuple[tuple[str, str], ...] = ()
    gap: str = ""
    sticky: bool = False

    @property
    def run(self) -> Run:
        """The open or last run. LookupError when there never was one."""
        if self.rollout.run is None:
            raise LookupError("no run has been started")
        return self.rollout.run

    def row(self, metric: str | None) -> MetricRow | None:
        """The verdict's row of ``metric``, in the class of requests that it is about; None when it has none."""
        return self.verdict.row(metric) if self.verdict else None

    def where(self, metric: str | None) -> str:
        """`` in requests above 4096 B``; empty where the row is of all requests."""
        return in_requests(self.verdict.stratum_of(metric)) if self.verdict else ""

    @property
    def since(self) -> str:
        """Since when the figures were counted, in words. A restart of the gateway begins them anew."""
        figures, judged_from = self.figures, self.run.judged_from
        if figures is None or judged_from is None or figures.counted_from <= judged_from:
            return "since judging began"
        return f"since {clock(figures.counted_from)}, when this gateway began to count"


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


def explained(headline: str, facts: Iterable[Fact], then: str, shapes: tuple[str, ...] = ()) -> Explained:
    """With the facts in the order of their labels; equal labels stay in theirs."""
    ordered = sorted(facts, key=lambda fact: LABELS.index(fact.label))
    return Explained(headline=headline, facts=tuple(ordered), next=then, shapes=shapes)


def plain(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Words on one line, without what would steer a terminal or look like a quote or a command, cut to a length."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split()).translate(_QUOTES)
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def quoted(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Foreign words as a quotation that they cannot end."""
    return f'"{plain(text, longest)}"'


def name(who: str) -> str:
    """A person as the command line names them; whatever else was sent is a quotation."""
    if not who:
        return "a person"
    return who if _NAME.fullmatch(who) else quoted(who, 80)


def request_id(sent: str) -> str:
    """A request id, which a client may choose: shown only when it is one."""
    return sent if _REQUEST_ID.fullmatch(sent) else "(id not shown)"


def clock(at: float) -> str:
    """Wall time in seconds since the Unix epoch as ``14:03:59 UTC``."""
    second = int(at) % 86400
    return f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02} UTC"


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
    if metric in STREAM:
        return "candidate streams"
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
        case MetricId.STREAM_BROKEN:
            return "were broken off by it"
        case MetricId.TTFT:
            return f"had their first event later than {row.limit_ms or 0.0:g} ms"
        case MetricId.ITL:
            return f"had more than 5 % of their gaps longer than {row.limit_ms or 0.0:g} ms"
        case _:
            return f"took longer than {row.limit_ms or 0.0:g} ms"
