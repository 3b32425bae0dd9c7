"""The figures of this moment, read from what the analyst has counted."""

import math
from collections.abc import Mapping
from typing import Final

from gateway.core.compare.paired import PairedLatency
from gateway.core.compare.parity import Disagreement, ParityStats
from gateway.core.compare.result import PairKind
from gateway.core.figures import (
    ArmFigures,
    ClientFigures,
    FieldFigures,
    Figures,
    NoiseFigures,
    PairedFigures,
    PairFigures,
    Percentiles,
)
from gateway.core.floor import Floor
from gateway.core.histogram import Histogram
from gateway.core.types import PHASE_COUNT, Count, Lane, Role
from gateway.runtime.analyst import Analyst
from gateway.runtime.counted import live_requests

MOST_FIELDS: Final = 8
"""Fields that are told of; a policy may have many, and who reads on has the status."""


def figures(analyst: Analyst, now: float) -> Figures:
    """What was counted since counting began, at wall time ``now``."""
    return Figures(
        counted_from=analyst.counted_from,
        baseline=_arm(analyst, Role.BASELINE, now),
        candidate=_arm(analyst, Role.CANDIDATE, now),
        clients=_clients(analyst),
        pairs=_pairs(analyst.parity),
        shapes=analyst.shapes,
        recent_s=analyst.latencies.recent_s,
        paired=paired_figures(analyst.paired, analyst.evidence.width_s),
        noise=noise_figures(analyst.floor),
    )


def _arm(analyst: Analyst, role: Role, now: float) -> ArmFigures:
    evidence, latencies = analyst.evidence, analyst.latencies
    lanes = (Lane.LIVE, Lane.COPY) if role is Role.CANDIDATE else (Lane.LIVE,)

    def both(count: Count) -> int:
        return sum(evidence.total(role, lane, count) for lane in lanes)

    return ArmFigures(
        live=live_requests(evidence, role),
        failed=both(Count.FAILED),
        unavailable=both(Count.UNAVAILABLE),
        phases=tuple((str(phase), n) for phase, count in PHASE_COUNT.items() if (n := both(count))),
        total=_percentiles(latencies.since_start(role)),
        recent=_percentiles(latencies.recent(role, now)),
    )


def _percentiles(histogram: Histogram) -> Percentiles:
    def at(q: float) -> float | None:
        value = _finite(histogram.quantile(q))
        return None if value is None else round(value * 1000, 2)

    return Percentiles(count=histogram.count, p50=at(0.5), p95=at(0.95))


def _clients(analyst: Analyst) -> ClientFigures:
    evidence = analyst.evidence
    by_role = {role: evidence.total(role, Lane.CLIENT, Count.OK) for role in Role}
    return ClientFigures(
        answered=sum(by_role.values()),
        failed=sum(evidence.total(role, Lane.CLIENT, Count.FAILED) for role in Role),
        refused=sum(evidence.total(role, Lane.CLIENT, Count.CLIENT_FAULT) for role in Role),
        by_candidate=by_role[Role.CANDIDATE],
        failed_over=evidence.total(Role.CANDIDATE, Lane.LIVE, Count.FAILED_OVER),
        spared=evidence.total(Role.CANDIDATE, Lane.LIVE, Count.REFUSED),
    )


def _pairs(stats: ParityStats) -> PairFigures:
    kinds = _bad_kinds(stats.kinds)
    worst = _worst(stats, kinds[0][0] if kinds else "")
    return PairFigures(
        pairs=stats.pairs,
        bad=stats.bad,
        min_cosine=_finite(stats.min_cosine),
        max_abs=_finite(stats.max_abs),
        kinds=kinds,
        worst_id=worst.request_id if worst else "",
        worst=worst.detail if worst else "",
        fields=_fields(stats),
    )


def paired_figures(paired: PairedLatency, window_s: float) -> PairedFigures:
    """What is known of the candidate's latency beside the baseline's; windows are joined while pairs are few."""
    group = paired.group()
    found, block_s = paired.interval(group=group), window_s * paired.block_windows * group
    if found is None:
        return PairedFigures(pairs=paired.pairs, block_s=block_s)
    return PairedFigures(
        pairs=paired.pairs,
        blocks=found.blocks,
        block_s=block_s,
        median=found.median,
        low=found.low,
        high=found.high,
        coverage=found.coverage,
    )


def noise_figures(floor: Floor | None) -> NoiseFigures:
    """What is known of the baseline's own noise."""
    if floor is None:
        return NoiseFigures()
    return NoiseFigures(
        wanted=floor.wanted,
        pairs=floor.stats.pairs,
        bad=floor.stats.bad,
        in_noise=floor.in_noise,
        sentence=floor.sentence,
    )


def _fields(stats: ParityStats) -> tuple[FieldFigures, ...]:
    bad = [(key, field) for key, field in stats.fields.items() if field.bad]
    return tuple(
        FieldFigures(
            content=content,
            field=name,
            pairs=field.pairs,
            bad=field.bad,
            kinds=_bad_kinds(field.kinds),
            figures=tuple((str(figure), value) for figure, value in sorted(field.figures.items())),
        )
        for (content, name), field in sorted(bad, key=lambda found: (-found[1].bad, found[0]))[:MOST_FIELDS]
    )


def _bad_kinds(kinds: Mapping[PairKind, int]) -> tuple[tuple[str, int], ...]:
    """The most frequent first."""
    bad = [(str(kind), n) for kind, n in kinds.items() if n and kind is not PairKind.OK]
    return tuple(sorted(bad, key=lambda found: (-found[1], found[0])))


def _finite(value: float | None) -> float | None:
    """What is no number is not measured: the store would not keep it either."""
    return value if value is not None and math.isfinite(value) else None


def _worst(stats: ParityStats, kind: str) -> Disagreement | None:
    """The worst pair of the kind that is seen most; of any kind when none of those was kept."""
    return next((pair for pair in stats.worst if pair.kind == kind), stats.worst[0] if stats.worst else None)
