"""What a journal line keeps of a decision comes back as it was."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

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
from gateway.core.findings import BreakerCounts, CompileCounts, MetricRow, StratumFinding, Verdict, VerdictName
from gateway.core.plan import MetricId
from gateway.core.recorded import figures_data, read_figures, read_verdict, verdict_data

FIGURES = Figures(
    counted_from=12.5,
    baseline=ArmFigures(live=9, total=Percentiles(count=8, p50=1.5, p95=None)),
    candidate=ArmFigures(failed=2, phases=(("connect", 2),), recent=Percentiles(count=1, p50=0.1, p95=0.2)),
    clients=ClientFigures(answered=5, spared=1),
    pairs=PairFigures(pairs=3, bad=1, min_cosine=0.123456789, kinds=(("status", 1),), worst_id="r", worst="w"),
    shapes=("4x128",),
    recent_s=6.0,
    paired=PairedFigures(pairs=80, blocks=8, block_s=10.0, median=1.8, low=1.6, high=2.1, coverage=0.97),
    noise=NoiseFigures(wanted=200, pairs=52, bad=31, in_noise=True, sentence="noise floor: so and so"),
)
VERDICT = Verdict(
    name=VerdictName.ROLL_BACK, reason="evidence", text="the sentence", metric=MetricId.LAT_P95, rule="evidence",
    evidence=33.3, bar=20.0, missing=(), notes=("a note",),
    rows=(
        MetricRow(
            metric=MetricId.LAT_P95, allowed=0.05, limit_ms=400.0, n_c=4, k_c=1, n_b=3, k_b=0, evidence=30.0, bar=20.0,
            proof=None, proof_bar=3.0, passes=False, windows=2,
        ),
    ),
    breaker=BreakerCounts(baseline=(1, 0), candidate=(2, 2), seconds=3, scores=(0.0, 9.0), bar=8.0, worker="w1"),
    compiles=CompileCounts(met=1, allowed=0, answered=None, shapes=("1x128",)),
)  # fmt: skip


STRATIFIED = replace(
    VERDICT, strata=(StratumFinding(name="above 512 B", evidence=60.0, rows=VERDICT.rows),), stratum="above 512 B"
)


def stored(data: dict[str, Any]) -> Any:
    return json.loads(json.dumps(data))


def test_figures_come_back() -> None:
    """Through JSON, and from memory without it."""
    assert read_figures(stored(figures_data(FIGURES))) == FIGURES == read_figures(figures_data(FIGURES))


def test_lines_without_paired_latency_and_noise_have_none() -> None:
    """They were written before there was any."""
    older = stored(figures_data(FIGURES))
    del older["paired"], older["noise"]
    assert read_figures(older) == replace(FIGURES, paired=PairedFigures(), noise=NoiseFigures())


def test_fields_come_back_and_figures_without_them_keep_their_form() -> None:
    """A line of a plan without a policy for each field is the one that it always was."""
    field = FieldFigures(
        content="oip_infer", field="outputs.*", pairs=9, bad=2, kinds=(("tolerance", 2),), figures=(("overlap", 0.5),)
    )
    figures = replace(FIGURES, pairs=replace(FIGURES.pairs, fields=(field,)))
    assert read_figures(stored(figures_data(figures))) == figures
    assert "fields" not in figures_data(FIGURES)["pairs"]
    broken = stored(figures_data(figures))
    broken["pairs"]["fields"][0]["bad"] = "2"
    assert read_figures(broken) is None


@pytest.mark.parametrize("metric", [MetricId.LAT_P95, "recompile", None])
def test_a_verdict_comes_back(metric: Any) -> None:
    """With its sentence; what promotion lacked is not kept."""
    verdict = replace(VERDICT, metric=metric)
    assert read_verdict(stored(verdict_data(verdict))) == verdict


def test_classes_of_requests_come_back_and_older_lines_have_none() -> None:
    """A line written before there were strata reads as one of a plan without."""
    assert read_verdict(stored(verdict_data(STRATIFIED))) == STRATIFIED
    older = stored(verdict_data(VERDICT))
    del older["strata"], older["stratum"]
    assert read_verdict(older) == VERDICT


def test_fields_of_a_later_version_are_passed_over() -> None:
    """At every level that this version reads."""
    figures, verdict = stored(figures_data(FIGURES)), stored(verdict_data(VERDICT))
    inner = (figures["candidate"], figures["candidate"]["total"], figures["clients"], figures["pairs"])
    for data in (figures, verdict, verdict["metrics"]["lat_p95"], verdict["breaker"], verdict["compiles"], *inner):
        data["of_tomorrow"] = [1]
    assert read_figures(figures) == FIGURES
    assert read_verdict(verdict) == VERDICT


def leaves(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from leaves(value, (*path, key))


@pytest.mark.parametrize("odd", [{"x": 1}, True, "x", None])
@pytest.mark.parametrize(
    ("kept", "read"),
    [
        (figures_data(FIGURES), read_figures),
        (verdict_data(VERDICT), read_verdict),
        (verdict_data(STRATIFIED), read_verdict),
    ],
)
def test_whatever_stands_in_a_field_it_is_read_or_left(kept: Any, read: Callable[[Any], Any], odd: object) -> None:
    """No reader raises, and what it gives can be counted with: numbers are numbers, texts are texts."""
    for path in leaves(stored(kept)):
        data = stored(kept)
        target = data
        for key in path[:-1]:
            target = target[key]
        if type(target[path[-1]]) is type(odd):
            continue
        target[path[-1]] = odd
        found = read(data)
        assert found is None or stored_again(found) in (stored(kept), data)


def stored_again(found: Figures | Verdict) -> Any:
    return stored(figures_data(found) if isinstance(found, Figures) else verdict_data(found))


@pytest.mark.parametrize("data", [None, {}, [], "x", 7, {"verdict": "x"}, {"baseline": {}}])
def test_what_is_no_record_gives_none(data: Any) -> None:
    """Lines of an older version, or of another kind."""
    assert (read_verdict(data), read_figures(data)) == (None, None)
