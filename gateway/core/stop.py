"""A rule that has fired, as it was then: the numbers behind a rollback stand still while the windows go on."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from gateway.core.findings import (
    Blamed,
    BreakerCounts,
    CompileCounts,
    MetricRow,
    StratumFinding,
    read_breaker,
    read_compiles,
    read_rows,
    read_strata,
)
from gateway.core.plan import MetricId


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """What it names and what it saw.

    rows, breaker, compiles, strata: the numbers behind the text.
    """

    metric: Blamed
    text: str
    evidence: float
    rows: tuple[MetricRow, ...] = ()
    breaker: BreakerCounts | None = None
    compiles: CompileCounts | None = None
    strata: tuple[StratumFinding, ...] = ()
    stratum: str | None = None

    def checkpoint(self) -> dict[str, object]:
        """JSON-able; ``read_stop`` takes it."""
        return {
            "metric": str(self.metric),
            "text": self.text,
            "evidence": self.evidence,
            "rows": [asdict(row) for row in self.rows],
            "breaker": asdict(self.breaker) if self.breaker else None,
            "compiles": asdict(self.compiles) if self.compiles else None,
            **({"strata": [asdict(each) for each in self.strata]} if self.strata else {}),
            **({"stratum": self.stratum} if self.stratum else {}),
        }


def read_stop(saved: Mapping[str, Any]) -> Stop:
    """The stop of a checkpoint. KeyError, TypeError or ValueError when it is not one."""
    metric: Blamed = "recompile" if saved["metric"] == "recompile" else MetricId(saved["metric"])
    return Stop(
        metric=metric,
        text=str(saved["text"]),
        evidence=float(saved["evidence"]),
        # Older checkpoints have the text alone.
        rows=read_rows(saved.get("rows", ())),
        breaker=read_breaker(saved.get("breaker")),
        compiles=read_compiles(saved.get("compiles")),
        strata=read_strata(saved.get("strata", ())),
        stratum=saved.get("stratum"),
    )
